"""Gap filling by node count (a multiple-choice knapsack) and by node (the published MILP)."""
