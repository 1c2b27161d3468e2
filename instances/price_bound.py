"""What no plan of an instance is better than at given prices, exactly, for every kind whose worths add up.

    lambda . C + sum_j max_i (v_ji - lambda . u_ji)        (weak duality; the mirror image of costs)

Valid for prices >= 0 of capacities, of limits of tenants, and of capacities that follow from an
instance (`OptionSet.derived`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.columns import Columns, columns_of
from apportion.instances.kind import ProblemType
from apportion.instances.tenants.check import capacities_and_limits
from apportion.instances.tenants.ledger import is_tenanted

__all__ = ["price_bound"]


def price_bound(
    kind: ProblemType, instance: Any, multipliers: Mapping[str, float], columns: Columns | None = None
) -> Fraction | None:
    """Return the bound; ``None`` if a required job has no admissible option.

    Parameters
    ----------
    kind, instance, multipliers
        What is bounded, and by which prices.
    columns
        The options, where the kind states them in other ways than its first one.

    Raises
    ------
    InvalidInstance
        If the multipliers do not name every capacity, or name what is none, or are not finite numbers >= 0.
    """
    option_set = kind.option_set
    assert option_set is not None
    extreme = None if is_tenanted(instance) else option_set.extreme
    given: Columns = columns or (columns_of(kind, instance) if extreme is None else extreme(instance))
    pools = () if given.pool_use is None else [pool.name for pool in given.pool_use.pools]
    stated = {*given.capacities, *pools}  # what a kind tells of itself in other words has no price
    shared = {name: room for name, room in capacities_and_limits(kind, instance).items() if name in stated}
    rooms = dict(zip(given.capacities, given.rooms, strict=True)) | shared
    beyond = {name: option_set.derived(instance, name) for name in multipliers if name not in rooms}
    for name, price in multipliers.items():
        number = isinstance(price, int | float) and not isinstance(price, bool)
        known = name in rooms or beyond[name] is not None
        if not known or not number or not math.isfinite(price) or price < 0:
            said = "must be a capacity, a quota or a floor with a finite number >= 0"
            raise InvalidInstance(Problem(f"$.certificate.multipliers.{name}", said))
    if not shared.keys() <= multipliers.keys():
        raise InvalidInstance(Problem("$.certificate.multipliers", "must name every capacity"))
    sign = 1 if kind.maximizes(instance) else -1
    prices = {name: Fraction(price) for name, price in multipliers.items() if price}
    ratios = [value if isinstance(value, tuple) else value.as_integer_ratio() for value in _listed(given)]
    # of doubles a power of two; whole numbers take less time than fractions
    unit = math.lcm(*(price.denominator for price in prices.values()), *{below for _, below in ratios})
    worths = [sign * above * (unit // below) for above, below in ratios]
    total = 0
    for name, exact in prices.items():
        price, derived = exact.numerator * (unit // exact.denominator), beyond.get(name)
        total += price * (rooms[name] if derived is None else derived.limit)
        amounts = _uses(given, name) if derived is None else derived.amounts(given)
        used = np.asarray(amounts, dtype=np.int64)
        for row in np.flatnonzero(used).tolist():
            worths[row] -= price * int(used[row])
    for job, (first, last) in enumerate(pairwise(given.offsets.tolist())):
        waits = [0] if given.waits is not None and given.waits[job] else []
        if first == last and not waits:
            return None
        total += max([*worths[first:last], *waits])
    return Fraction(sign * total, unit)


def _listed(given: Columns) -> Any:
    return given.values.tolist() if isinstance(given.values, np.ndarray) else given.values


def _uses(given: Columns, name: str) -> Any:
    """Return what options take of a capacity, or of all machines of a pool together."""
    if name in given.capacities:
        used: Any = given.uses[:, list(given.capacities).index(name)]
        return used if isinstance(used, np.ndarray) else used.toarray().ravel()
    assert given.pool_use is not None
    number = [pool.name for pool in given.pool_use.pools].index(name)
    return np.where(given.pool_use.pool == number, given.pool_use.gang * given.pool_use.use, 0)
