"""A fifth kind of instance in one folder: jobs that need licences. It shows what a new kind has to bring."""
