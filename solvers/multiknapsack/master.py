"""The master program of the Lagrangian dual: a tiny simplex over convex combinations of whole choices.

    maximise  sum_c mu_c a_c   subject to  sum_c mu_c u_c <= C,  sum_c mu_c = 1,  mu >= 0

Its row multipliers are the next point at which to evaluate the dual function (Kelley's cutting planes seen
from the dual side, that is Dantzig-Wolfe decomposition: Kellerer, Pferschy, Pisinger, *Knapsack Problems*,
appendix A). It has one row per capacity plus one, so dense solves are cheap and nothing needs a solver.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.products import over_rows

__all__ = ["Master"]

_PIVOTS_PER_COLUMN = 60
_TOLERANCE = 1e-11


class Master:
    """A growing set of choices and the best convex combination of them.

    Parameters
    ----------
    capacities
        float64 [capacities], scaled so that 1 is a typical entry.
    penalty
        Value of the artificial column that uses nothing, below every choice's value.
    """

    def __init__(self, capacities: NDArray[np.float64], penalty: float) -> None:
        size = capacities.size
        self._size = size
        self._right = np.append(capacities, 1.0)
        # Columns 0..K-1 are slacks, column K is the artificial choice, the choices follow.
        self._columns = np.eye(size + 1)
        self._values = np.append(np.zeros(size), penalty)
        self._count = size + 1
        self._basis = np.arange(size + 1)

    @property
    def artificial(self) -> float:
        """The weight of the artificial column in the present combination."""
        where = np.flatnonzero(self._basis == self._size)
        if not where.size:
            return 0.0
        return float(np.linalg.solve(self._columns[:, self._basis], self._right)[where[0]])

    def penalise(self, value: float) -> None:
        """Change the value of the artificial column."""
        self._values[self._size] = value

    def add(self, value: float, use: NDArray[np.float64]) -> None:
        """Add a choice by its value and its scaled use."""
        if self._count == self._columns.shape[1]:
            room = np.empty((self._size + 1, 2 * self._count))
            room[:, : self._count] = self._columns
            self._columns = room
            self._values = np.concatenate((self._values, np.empty(self._count)))
        self._columns[:-1, self._count] = use
        self._columns[-1, self._count] = 1.0
        self._values[self._count] = value
        self._count += 1

    def solve(self) -> tuple[NDArray[np.float64], float]:
        """Return scaled multipliers [capacities] >= 0 and the master's value; stops early if it stalls."""
        columns = self._columns[:, : self._count]
        values = self._values[: self._count]
        scale = max(1.0, float(np.abs(values[self._size + 1 :]).max(initial=1.0)))
        for pivot in range(_PIVOTS_PER_COLUMN * (self._size + 1)):
            matrix = columns[:, self._basis]
            try:
                dual = np.linalg.solve(matrix.T, values[self._basis])
                point = np.linalg.solve(matrix, self._right)
            except np.linalg.LinAlgError:
                break
            reduced = values - over_rows(dual, columns)
            reduced[self._basis] = 0.0
            # Dantzig's rule; after a while Bland's, which cannot cycle.
            if pivot < 20 * (self._size + 1):
                enter = int(np.argmax(reduced))
            else:
                enter = int(np.argmax(reduced > _TOLERANCE * scale))
            if reduced[enter] <= _TOLERANCE * scale:
                break
            step = np.linalg.solve(matrix, columns[:, enter])
            positive = step > 1e-11
            if not positive.any():
                break
            ratio = np.full(step.size, np.inf)
            ratio[positive] = np.maximum(point[positive], 0.0) / step[positive]
            ties = np.flatnonzero(ratio <= ratio.min() * (1 + 1e-12) + 1e-15)
            leave = int(ties[np.argmax(step[ties])])
            self._basis[leave] = enter
        matrix = columns[:, self._basis]
        dual = np.linalg.solve(matrix.T, values[self._basis])
        return np.maximum(dual[:-1], 0.0), float(dual @ self._right)
