"""The suite: a declared registry of instances, solvers and limits, run cell by cell, one process each."""
