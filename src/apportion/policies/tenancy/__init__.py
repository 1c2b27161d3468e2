"""Rules by which other schedulers share a cluster among tenants, written after their specification."""
