"""Tests of the matching engines."""
