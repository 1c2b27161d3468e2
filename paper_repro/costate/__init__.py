"""Prices of work beside every published policy."""
