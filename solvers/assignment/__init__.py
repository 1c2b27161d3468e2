"""Linear assignment, transportation, and the front of all matching engines."""
