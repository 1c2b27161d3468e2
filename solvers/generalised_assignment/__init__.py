"""Generalised assignment: Lagrangian bound, repair and local search, branch and bound on what is left."""
