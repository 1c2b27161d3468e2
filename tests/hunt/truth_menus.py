"""The optimum of menus under capacities, by dynamic programming over what was used, in integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

__all__ = ["Line", "best_of_menus"]


class Line(NamedTuple):
    """One line of a menu: what it is worth and what it uses; a job that may be left out has one for that."""

    value: Fraction
    uses: tuple[int, ...]


def best_of_menus(
    menus: Sequence[Sequence[Line]], capacities: Sequence[int], maximize: bool
) -> Fraction | None:
    """Return the best sum of one line per menu, ``None`` if no choice keeps the capacities."""
    common = math.lcm(*(line.value.denominator for menu in menus for line in menu), 1)
    sign = common if maximize else -common
    states: dict[tuple[int, ...], int] = {(0,) * len(capacities): 0}
    for menu in menus:
        lines = [(int(line.value * sign), line.uses) for line in menu]
        after: dict[tuple[int, ...], int] = {}
        for used, worth in states.items():
            for value, uses in lines:
                total = tuple(a + b for a, b in zip(used, uses, strict=True))
                if any(a > b for a, b in zip(total, capacities, strict=True)):
                    continue
                if total not in after or after[total] < worth + value:
                    after[total] = worth + value
        states = after
    return Fraction(max(states.values()), sign) if states else None
