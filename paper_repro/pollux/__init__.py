"""Pollux: the exact search beside the published genetic one."""
