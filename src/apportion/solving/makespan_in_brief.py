"""A first proof of a makespan out of what the call has searched: its times, in doubles, and its prices.

A pool's price w says what a second of one of its c machines costs, w / c: that is the price of its time,
together or machine by machine, and of nothing else. No plan is stated in whole units here; the checker does
that, and where doubles mislead it refuses the proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from apportion.instances import MatchingInstance
from apportion.instances.tenants.ledger import is_tenanted
from apportion.models.assignment import Assignment
from apportion.proofs.certificate import Proof
from apportion.solving.proof_in_brief import surest_first
from apportion.solving.proof_shapes import claim_at, shape_of, unit_of_times
from apportion.solving.subject import Subject

__all__ = ["makespan_in_brief"]

_BITS = 54
"""Bits of what the prices take for all times and all capacities together."""
_TOO_LATE = -1e300
"""What an option is worth that ends too late, less than any other."""


def makespan_in_brief(
    instance: Subject, model: Assignment, objective: float, weights: Mapping[str, float]
) -> Proof | None:
    """Return a proof that no plan ends before a time, ``None`` where more than machines bounds it.

    Parameters
    ----------
    instance
        What it is about.
    model
        What was searched, job for job.
    objective
        When the plan ends.
    weights
        Prices of the pools.
    """
    if model.divisible or is_tenanted(instance):
        return None
    unit = unit_of_times(model.values.tolist())
    claim = claim_at(objective, exactly=unit.exact, maximizes=False)
    draft = Proof("", claim, unit.shift, (), (), shape_of(instance).apart(instance))
    of_pools = np.array([weights.get(name, 0.0) for name in model.pool_names], dtype=np.float64)
    machines = np.bincount(model.pool, weights=model.counts, minlength=of_pools.size)
    prices = of_pools / np.maximum(machines, 1.0)
    cost = prices[model.pool[model.machine]] * model.values * model.gpus
    paid = math.ldexp(float(cost.sum()) + objective * float(prices @ machines), unit.shift)
    ended = np.where(model.values < objective, -cost, _TOO_LATE)
    order = surest_first(ended, model)
    if not 0.0 < paid < math.inf:
        return replace(draft, order=order)
    scale = 2.0 ** (_BITS - math.ceil(math.log2(paid)))
    whole = [round(price) for price in (prices * scale).tolist()]
    return replace(draft, prices=(_laid_out(instance, model, whole, draft.apart),), order=order)


def _laid_out(
    instance: Subject, model: Assignment, prices: list[int], apart: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the price of every capacity of the proof from prices of the pools: time has it, use has none."""
    if not isinstance(instance, MatchingInstance):
        return (*[0] * int(model.limited.sum()), *(prices[pool] for pool in model.pool.tolist()))
    found: list[int] = []
    for number, pool in enumerate(instance.machines):
        own = [prices[number]] if pool.capacity is None else [0, prices[number]]
        found += own * (pool.count if number in apart else 1)
    return tuple(found)
