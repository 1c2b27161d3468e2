"""The committed JSON Schemas, one file per kind of instance; `apportion.io.schemas` generates them."""
