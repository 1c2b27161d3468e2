"""The model-similarity policy on measured throughputs: what it does to the makespan."""
