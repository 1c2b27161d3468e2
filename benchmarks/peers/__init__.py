"""The peers: what people use today for the same problems, each through its own natural interface."""
