"""Schemas, which `apportion.io.schemas` generates, and instances to start from; one of each per kind."""
