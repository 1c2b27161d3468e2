"""Gap filling on a real scheduler: malleable jobs on the nodes that the main queue leaves idle."""
