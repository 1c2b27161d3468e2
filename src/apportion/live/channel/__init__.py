"""The channel between the controller and its agents: sealed lines over TCP."""
