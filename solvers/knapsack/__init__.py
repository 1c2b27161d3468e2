"""The exact solver of the one-capacity multiple-choice knapsack (MCKP), in numpy alone.

It follows the idea of D. Pisinger, "A minimal algorithm for the multiple-choice knapsack problem",
European Journal of Operational Research 83 (1995) 394-410: a Lagrange multiplier splits the capacity, a
greedy choice closes most of the gap, reduced costs fix nearly every job, and dynamic programming over the
small core that is left proves the rest.

``one_capacity.solve`` answers; ``dual.multiplier`` and ``greedy.choice`` are its first steps on their own.
"""
