"""IceFrog's claim, tested in the simulated cluster."""
