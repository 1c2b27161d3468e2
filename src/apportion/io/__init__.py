"""Reading: a file, a document or a stream of them becomes a checked instance, or one clear error."""
