"""Many instances, or one too large for one process: batches, executors, decomposition."""
