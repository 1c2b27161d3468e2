"""Jobs that share machines by fractions of time: prices alone show that no shares end before a time.

Let job j take all the time shares f_ji of machine i, at most 1 together, and g_ji units there, c_i together.
It ends at T where ``sum_i f_ji / p_ij = 1 / T``. For prices a_j >= 0 of jobs and w_i >= 0 of machines

    T (sum_j a_j + sum_i w_i)  >=  sum_j min_i p_ij (a_j + w_i g_ji / c_i),

for the shares of work x_ji = T f_ji / p_ij add up to 1 over i, and each costs T f_ji (a_j + w_i g_ji / c_i).
All of it is in whole numbers; there is nothing to walk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from apportion.instances import MatchingInstance
from apportion.models.assignment import Assignment
from apportion.proofs.certificate import MalformedProof, Proof

__all__ = ["Shared", "open_share", "price_names", "shared", "shown_by"]


class Shared(NamedTuple):
    """What jobs share: units of every machine, and a job's entries as (machine, seconds, units held)."""

    counts: Sequence[int]
    rows: Sequence[Sequence[tuple[int, float, int]]]


def shared(instance: Any) -> Shared | None:
    """Return what the jobs of an instance share, ``None`` where they do not share by fractions of time."""
    if isinstance(instance, MatchingInstance) and instance.divisible:
        number = {machine.id: at for at, machine in enumerate(instance.machines)}
        return Shared(
            [machine.count for machine in instance.machines],
            [
                [(number[name], entry.time_s or 0.0, entry.gpus) for name, entry in job.on.items()]
                for job in instance.jobs
            ],
        )
    if isinstance(instance, Assignment) and instance.divisible:
        entries = list(
            zip(instance.machine.tolist(), instance.values.tolist(), instance.gpus.tolist(), strict=True)
        )
        bounds = instance.offsets.tolist()
        return Shared(
            instance.counts.tolist(),
            [entries[first:last] for first, last in pairwise(bounds)],
        )
    return None


def price_names(instance: Any) -> list[str]:
    """Return what every price of a vector belongs to, as multipliers name it."""
    if isinstance(instance, Assignment):
        jobs = instance.job_names or range(instance.num_jobs)
        machines = [instance.pool_names[pool] for pool in instance.pool.tolist()]
    else:
        jobs, machines = [job.id for job in instance.jobs], [machine.id for machine in instance.machines]
    return [f"machine:{machine}" for machine in machines] + [f"job:{job}" for job in jobs]


def open_share(given: Shared, proof: Proof) -> str:
    """Return what of a claim the prices of a proof leave open, empty where they show it.

    Raises
    ------
    MalformedProof
        If the proof holds what belongs to walks.
    """
    if proof.order or proof.apart or proof.cuts or proof.shift or proof.rows:
        raise MalformedProof(
            "shares of machines have no shift, order, apart, cuts or rows: prices prove them"
        )
    if proof.claim.bound is None:
        return "" if not all(given.rows) else "every job can run somewhere, so there is a plan"
    if not all(given.rows):
        return ""
    width = len(given.counts) + len(given.rows)
    if any(len(vector) != width for vector in proof.prices):
        return f"a price vector has not {width} prices, one a machine and one a job"
    if shown_by(given, proof.prices) >= Fraction(proof.claim.bound):
        return ""
    return f"no price vector shows that nothing ends before {proof.claim.bound!r}"


def shown_by(given: Shared, vectors: Iterable[Sequence[int]]) -> Fraction:
    """Return the latest time of which prices, or a job alone, show that nothing ends before it."""
    fastest = max((min(time for _, time, _ in row) for row in given.rows), default=0.0)
    return max([Fraction(fastest), *(_least(given, vector) for vector in vectors)])


def _least(given: Shared, prices: Sequence[int]) -> Fraction:
    """Return the time before which no shares end at these prices."""
    common = math.lcm(*given.counts)
    weight = sum(prices) * common
    if not weight:
        return Fraction(0)
    machines = [price * (common // count) for price, count in zip(prices, given.counts, strict=False)]
    jobs = [price * common for price in prices[len(given.counts) :]]
    finest = max((time.as_integer_ratio()[1] for row in given.rows for _, time, _ in row), default=1)
    work = 0
    for own, row in zip(jobs, given.rows, strict=True):
        costs = []
        for machine, time, gpus in row:
            above, below = time.as_integer_ratio()
            costs.append(above * (finest // below) * (own + machines[machine] * gpus))
        work += min(costs)
    return Fraction(work, weight * finest)
