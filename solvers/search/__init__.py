"""Exact depth-first search in integers, compiled where a compiler was found at installation."""
