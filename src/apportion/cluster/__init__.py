"""A cluster over time: estimates of jobs, policies that decide, simulations of both."""
