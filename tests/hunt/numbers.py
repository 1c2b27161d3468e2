"""Hostile numbers: near ties, thirty orders of magnitude, penalties, sums that cancel, integers to 2**62."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

__all__ = ["amounts", "capacity_near", "uses", "values"]

Draw = Callable[[], float]


def values(rng: Random, *, negative: bool = True) -> Draw:
    """Return a law of values; 0 or of magnitude 1e-30 to 1e18, as instances allow."""
    law = rng.choice(_LAWS)(rng)
    signs = rng.choice((1, 1, 1, 2, 3)) if negative else 1

    def drawn() -> float:
        value = law()
        if signs == 2 or (signs == 3 and rng.random() < 0.3):
            value = -value
        if not negative:
            value = abs(value)
        if abs(value) < 1e-30:
            return 0.0
        return math.copysign(min(abs(value), 1e18), value)

    return drawn


def amounts(rng: Random) -> Draw:
    """Return a law of numbers that are not negative."""
    return values(rng, negative=False)


def _whole(rng: Random) -> Draw:
    top = rng.choice((1, 3, 9, 1000, 10**6))
    return lambda: float(rng.randint(0, top))


def _grid(rng: Random) -> Draw:
    step = rng.choice((0.5, 0.25, 0.1, 1 / 3, 1 / 7, 1e-3))
    return lambda: rng.randint(0, 40) * step


def _uniform(rng: Random) -> Draw:
    scale = 10.0 ** rng.choice((0, 0, 0, -3, 3))
    return lambda: rng.random() * scale


def _near_ties(rng: Random) -> Draw:
    base = rng.random() * 10.0 ** rng.randint(-6, 9) + 1e-9
    step = rng.choice((1e-8, 1e-9, 1e-10, 1e-12, 2.0**-52))
    return lambda: base * (1 + rng.randint(-3, 3) * step)


def _tiny(rng: Random) -> Draw:
    scale = 10.0 ** rng.uniform(-29, -5)
    return lambda: rng.random() * scale


def _huge(rng: Random) -> Draw:
    scale = 10.0 ** rng.uniform(6, 18)
    return lambda: rng.random() * scale


def _any_scale(rng: Random) -> Draw:
    low, high = sorted((rng.uniform(-29, 18), rng.uniform(-29, 18)))
    return lambda: 10.0 ** rng.uniform(low, high)


def _penalties(rng: Random) -> Draw:
    big = 10.0 ** rng.randint(3, 18)
    return lambda: big if rng.random() < 0.25 else rng.randint(1, 12) / 10


def _cancelling(rng: Random) -> Draw:
    base = 10.0 ** rng.randint(6, 16)
    return lambda: rng.choice((-base, base, 0.0)) + rng.randint(-9, 9) / 8


_LAWS = (
    _whole,
    _whole,
    _grid,
    _uniform,
    _uniform,
    _near_ties,
    _near_ties,
    _tiny,
    _huge,
    _any_scale,
    _penalties,
    _penalties,
    _cancelling,
)


def uses(rng: Random, largest: int) -> Callable[[], int]:
    """Return a law of uses up to `largest`, which is at least 100."""
    law = rng.randrange(7)
    if law <= 2:
        top = rng.choice((1, 3, 9, 50))
        return lambda: rng.randint(0, top)
    if law == 3:
        step = rng.choice((2, 3, 10, 97))
        return lambda: step * rng.randint(0, largest // step if rng.random() < 0.1 else 6)
    if law == 4:
        base = rng.randint(1, largest - 10)
        return lambda: base + rng.randint(0, 9) if rng.random() < 0.8 else rng.randint(0, 3)
    if law == 5:
        return lambda: min(largest, 1 << rng.randrange(largest.bit_length()))
    return lambda: 0 if rng.random() < 0.3 else rng.randint(0, largest)


def capacity_near(rng: Random, menus: list[list[int]], largest: int) -> int:
    """Return a capacity that decides something: near what some choice uses, or 0, or the largest there is."""
    law = rng.random()
    if law < 0.05:
        return 0
    if law < 0.1:
        return largest
    total = sum(rng.choice(menu) for menu in menus if menu and rng.random() < 0.85)
    if law < 0.2:
        total = sum(min(menu) for menu in menus if menu)
    elif law < 0.3:
        total = int(total * rng.random())
    return max(0, min(largest, total + rng.choice((-1, 0, 0, 0, 1, 2))))
