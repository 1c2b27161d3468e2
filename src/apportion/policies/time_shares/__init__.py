"""Gavel's allocation policies as programmes over shares of time, on plain arrays."""
