"""The committed JSON Schemas, one file per kind of instance; `apportion.schemas` generates them."""
