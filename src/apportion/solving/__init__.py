"""One solve call, step by step: what is known, the attempt, the conclusion."""
