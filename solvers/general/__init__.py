"""General solvers, one file each, and what they share: HiGHS, CP-SAT, SCIP, and whatever Pyomo knows."""
