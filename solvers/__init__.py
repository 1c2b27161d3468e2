"""Solvers: one file per backend, one room per exact algorithm. They see models, never an instance."""
