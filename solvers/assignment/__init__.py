"""Linear assignment, transportation, and what every matching engine uses."""
