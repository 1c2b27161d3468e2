"""Slurm: its commands, and what they print."""
