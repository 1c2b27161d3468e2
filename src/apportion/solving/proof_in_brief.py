"""A first proof of what a call has at hand: the menus it has searched, in doubles, and its prices.

Stating an instance in whole numbers takes as long as many a search, and the checker does it anyway. Doubles
are enough to choose a unit, to round prices and to order jobs; where they mislead, the checker refuses the
proof, and one is written from the instance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.products import over_columns
from apportion.outcome import SearchTree
from apportion.proofs.certificate import LARGEST_NUMBER, LARGEST_VECTORS, Proof
from apportion.proofs.stating import capacity_names
from apportion.solving.proof_shapes import LARGEST_SHIFT, NEAR, claim_at, shape_of
from apportion.solving.subject import Subject

__all__ = ["proof_in_brief", "surest_first"]

_BITS = 54
"""Bits of all worths together."""
_SPARE = 8
"""Bits of them that are 0 where worths count as whole: what they were rounded from may differ in the last."""


def proof_in_brief(
    instance: Subject,
    model: MultipleChoiceKnapsack | Assignment,
    objective: float,
    multipliers: Mapping[str, float] | NDArray[np.float64] | None,
    tree: SearchTree | None,
) -> Proof | None:
    """Return a proof that no plan is better than an objective, ``None`` where prices or worths are missing.

    Parameters
    ----------
    instance
        What it is about.
    model
        What was searched, job for job; no makespan.
    objective
        Of a plan: where worths are not whole in the unit, the claim has a margin.
    multipliers
        By capacity; of bare menus float64 [capacities].
    tree
        The prices and the order of the search, which are taken if it has told them.
    """
    total = float(np.abs(model.values).sum())
    if not (0.0 < total < math.inf) or (tree is None and multipliers is None):
        return None
    up = model.sense == "maximize"
    named = multipliers if isinstance(multipliers, Mapping) else {}
    shift, whole = _unit(model.values, total, objective)
    shape = shape_of(instance)
    claim = claim_at(objective, exactly=whole, maximizes=up)
    apart, cuts = shape.apart(instance), shape.cuts(instance, named, False)
    if tree is not None:
        above, below = tree.unit.as_integer_ratio()
        kept = [
            tuple(_nearest(price * above, below, shift) for price in prices)
            for prices in tree.prices.tolist()
        ]
        unique = tuple(dict.fromkeys(prices for prices in kept if any(prices)))[:LARGEST_VECTORS]
        return _written(Proof("", claim, shift, unique, tuple(tree.order.tolist()), apart, cuts))
    known = _known(instance, Proof("", claim, shift, (), (), apart, cuts), multipliers)
    if known is None:
        return None
    paid = _paid(model, known, named)
    worth = model.values - paid if up else -model.values - paid
    prices = tuple(_nearest(*price.as_integer_ratio(), shift) for price in known)
    return _written(Proof("", claim, shift, (prices,), surest_first(worth, model), apart, cuts))


def _nearest(above: int, below: int, shift: int) -> int:
    """Return the whole number nearest to ``above / below * 2**shift``; fractions take ten times as long."""
    if shift >= 0:
        return ((above << shift + 1) + below) // (2 * below)
    return (2 * above + (below << -shift)) // (below << 1 - shift)


def _written(proof: Proof) -> Proof | None:
    """Return a proof if the format holds its prices."""
    return proof if all(price < LARGEST_NUMBER for prices in proof.prices for price in prices) else None


def _known(
    instance: Subject, draft: Proof, multipliers: Mapping[str, float] | NDArray[np.float64] | None
) -> list[float] | None:
    """Return the price of every capacity of the draft, ``None`` where one is missing."""
    if isinstance(multipliers, np.ndarray):
        known: list[float] = multipliers.tolist()
    else:
        found = [(multipliers or {}).get(name) for name in capacity_names(instance, draft)]
        known = [price for price in found if price is not None]
        if len(known) < len(found):
            return None
    return known if all(0.0 <= price < math.inf for price in known) else None


def _paid(
    model: MultipleChoiceKnapsack | Assignment, known: list[float], named: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return what every option pays, float64 [options]; only the order of jobs depends on it."""
    if isinstance(model, Assignment):
        pools = [named.get(model.pool_names[pool], 0.0) for pool in model.pool.tolist()]
        return np.array(pools, dtype=np.float64)[model.machine] * model.uses
    if len(known) != model.num_capacities:
        return np.zeros(model.num_options)
    return over_columns(model.uses, np.array(known, dtype=np.float64))


def _unit(values: NDArray[np.float64], total: float, objective: float) -> tuple[int, bool]:
    """Return a shift that gives all worths about 54 bits, and whether they are whole with some to spare."""
    shift = min(_BITS - math.frexp(total)[1], LARGEST_SHIFT)
    if math.ldexp(float(values[-1]), shift - _SPARE).is_integer():  # one that is not whole is enough
        with np.errstate(over="ignore", under="ignore"):
            coarse = np.ldexp(values, shift - _SPARE)
        if bool((coarse == np.rint(coarse)).all()) and bool(
            (np.ldexp(coarse, _SPARE - shift) == values).all()
        ):
            return shift, True
    needed = math.ceil(math.log2(2 * values.size) - math.log2(NEAR * max(abs(objective), 1e-9))) + 2
    return min(max(shift, needed), LARGEST_SHIFT), False


def surest_first(worth: NDArray[np.float64], model: MultipleChoiceKnapsack | Assignment) -> tuple[int, ...]:
    """Return the jobs, first those whose option of the most worth wins by most: they branch least."""
    first, sizes = model.offsets[:-1], model.offsets[1:] - model.offsets[:-1]
    if sizes.all():
        best, second = _two_best(worth, first, sizes)
    else:
        filled = sizes > 0
        best, second = np.full((2, sizes.size), -np.inf)
        best[filled], second[filled] = _two_best(worth, first[filled], sizes[filled])
    if not model.required.all():
        without = np.where(model.required, -np.inf, 0.0)
        second = np.maximum(second, np.minimum(best, without))
        best = np.maximum(best, without)
    # of a job with one option the second is minus infinity: first of all
    return tuple(np.argsort(second - best, kind="stable").tolist())


def _two_best(
    worth: NDArray[np.float64], first: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the most worth in every menu, and the next; minus infinity where there is none."""
    if not first.size:
        return np.zeros(0), np.zeros(0)
    best = np.maximum.reduceat(worth, first)
    wins = worth == best.repeat(sizes)
    second = np.maximum.reduceat(np.where(wins, -np.inf, worth), first)
    if np.count_nonzero(wins) > best.size:
        tied = np.add.reduceat(wins, first, dtype=np.int64) > 1
        second[tied] = best[tied]
    return best, second
