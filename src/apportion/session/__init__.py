"""A scheduler's session: an instance with memory, changed by deltas, decided again and again."""
