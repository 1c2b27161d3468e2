"""Formulations of layer freezing."""
