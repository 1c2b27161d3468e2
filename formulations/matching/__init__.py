"""Matching jobs to machines as models."""
