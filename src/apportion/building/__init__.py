"""Instances in a few lines of Python: no JSON and no ``schema_version``, lists and arrays as they come."""
