"""The multiple-choice knapsack with any number of capacities: multipliers, repair, beam search, reduced cores."""
