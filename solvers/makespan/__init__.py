"""The makespan on unrelated machines: bounds, starts, local search, and branch and bound on what is left."""
