"""Measurements into numbers of an instance: hazards of departure, scaling curves."""
