"""The channel between the controller and its agents: lines over TLS."""
