"""The committed JSON Schemas, one file per kind of instance; `apportion.reading.schemas` generates them."""
