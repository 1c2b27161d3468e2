"""A linear programme in fractions by Bland's rule; small, exact, slow."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

__all__ = ["maximum"]


def maximum(
    rows: Sequence[Sequence[Fraction]], rights: Sequence[Fraction], objective: Sequence[Fraction]
) -> Fraction | None:
    """Return ``max c x`` over ``A x <= b, x >= 0`` with ``b >= 0``; ``None`` if it is unbounded."""
    count, width = len(rows), len(objective)
    table = [
        [*map(Fraction, row), *(Fraction(int(i == k)) for k in range(count)), Fraction(right)]
        for i, (row, right) in enumerate(zip(rows, rights, strict=True))
    ]
    cost = [-Fraction(c) for c in objective] + [Fraction(0)] * (count + 1)
    basis = [width + i for i in range(count)]
    while True:
        enter = next((j for j in range(width + count) if cost[j] < 0), None)
        if enter is None:
            return cost[-1]
        ratios = [(table[i][-1] / table[i][enter], basis[i], i) for i in range(count) if table[i][enter] > 0]
        if not ratios:
            return None
        leave = min(ratios)[2]
        pivot = table[leave][enter]
        table[leave] = [entry / pivot for entry in table[leave]]
        for i in range(count):
            if i != leave and table[i][enter]:
                factor = table[i][enter]
                table[i] = [a - factor * b for a, b in zip(table[i], table[leave], strict=True)]
        if cost[enter]:
            factor = cost[enter]
            cost = [a - factor * b for a, b in zip(cost, table[leave], strict=True)]
        basis[leave] = enter
