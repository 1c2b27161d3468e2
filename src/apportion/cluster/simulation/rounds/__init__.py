"""A cluster of training jobs, simulated round by round."""
