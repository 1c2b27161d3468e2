"""The multiple-choice knapsack with several capacities: multipliers, repair, beam search, reduced cores."""
