"""Many instances at once: batches, and executors that outlive their workers."""
