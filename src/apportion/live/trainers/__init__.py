"""Trainers that can be harvested: demonstrations that really train, and an adapter for ``torchrun``."""
