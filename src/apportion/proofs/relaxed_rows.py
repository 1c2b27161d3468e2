"""Bounds that relax the rows "exactly one option a job": a knapsack is left for every capacity.

For whole numbers m_j of any sign, one a job, no choice is worth more than

    sum_j m_j  +  sum_k K_k(C_k),

where K_k(c) is the most that options of capacity k are worth beyond the m_j of their jobs, at most one a job
and none of them counted below 0, which use at most c. For a choice is worth sum_j m_j and what its options
are worth beyond them; those of capacity k are one choice of that knapsack. An option belongs to the first
capacity it uses, what it uses of others is passed over; one that uses none is counted where it is above 0.

With a job decided for an option, the same holds of the other jobs with what the option leaves. In a walk
only what is left of the capacities changes, so K_k of the open jobs is a table for every depth.

Jobs that share machines by fractions of time: prices alone show that no shares end before a time.

Let job j take all the time shares f_ji of machine i, at most 1 together, and g_ji units there, c_i together.
It ends at T where ``sum_i f_ji / p_ij = 1 / T``. For prices a_j >= 0 of jobs and w_i >= 0 of machines

    T (sum_j a_j + sum_i w_i)  >=  sum_j min_i p_ij (a_j + w_i g_ji / c_i),

for the shares of work x_ji = T f_ji / p_ij add up to 1 over i, and each costs T f_ji (a_j + w_i g_ji / c_i).
All of it is in whole numbers; there is nothing to walk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.instances.columns import Columns
from apportion.proofs.certificate import MalformedProof, Proof
from apportion.proofs.integer_menus import IntegerArray, IntegerMenus

__all__ = [
    "LARGEST_TABLES",
    "RowBounds",
    "Shared",
    "cells",
    "open_share",
    "price_names",
    "row_bounds",
    "shared",
    "shown_by",
    "slacks_of_options",
    "work_of_bounds",
    "work_of_options",
]


class Shared(NamedTuple):
    """What jobs share: units of every machine, and a job's entries as (machine, seconds, units held)."""

    counts: Sequence[int]
    rows: Sequence[Sequence[tuple[int, float, int]]]


def shared(given: Columns) -> Shared | None:
    """Return what the jobs of an instance share, ``None`` where they do not share by fractions of time."""
    held = given.pool_use
    if given.goal != "shares" or held is None:
        return None
    entries = list(zip(held.pool.tolist(), held.time.tolist(), held.gang.tolist(), strict=True))
    rows = [entries[first:last] for first, last in pairwise(given.offsets.tolist())]
    return Shared([pool.count for pool in held.pools], rows)


def price_names(given: Columns) -> list[str]:
    """Return what every price of a vector belongs to, as multipliers name it."""
    pools = () if given.pool_use is None else given.pool_use.pools
    return [f"machine:{pool.name}" for pool in pools] + [f"job:{job}" for job in given.jobs]


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


LARGEST_TABLES = 20_000_000
"""Numbers in the tables of all vectors up to which they are made."""
_CALL = 1_000
"""Steps that a call which finds one number of a table counts as, beside the numbers it looks at."""
_Groups = dict[int, list[tuple[int, int]]]
"""Of a job, by capacity: what its options use, in units, and are worth beyond the job's number."""


@dataclass(frozen=True, slots=True)
class RowBounds:
    """The bounds of one vector in a walk, for every number of jobs decided.

    Attributes
    ----------
    units
        whole [capacities]: rooms count in these.
    beyond
        By jobs decided: what a state's slack of worth is changed by, beside the tables.
    tables
        By jobs decided and capacity: K_k at every room.
    """

    units: list[int]
    beyond: list[int]
    tables: list[list[IntegerArray]]

    def slack(self, decided: int, left: IntegerArray, slack: IntegerArray) -> IntegerArray:
        """Return the slack of states by their rooms, whole [capacities, states], and their slack of worth."""
        total = slack + self.beyond[decided]
        for k, table in enumerate(self.tables[decided]):
            if table.size > 1:
                total = total + table[np.asarray(left[k] // self.units[k], dtype=np.int64)]
        return total


def cells(menus: IntegerMenus) -> int:
    """Return how many numbers the tables of one vector hold."""
    owners = np.repeat(np.arange(menus.num_jobs), np.diff(menus.offsets))
    columns, rooms = _columns(menus), _rooms(menus, _units(menus))
    pairs = {(job, k) for job, k in zip(owners.tolist(), columns.tolist(), strict=True) if k >= 0}
    return sum(rooms[k] + 1 for _, k in pairs)


def work_of_bounds(menus: IntegerMenus) -> int:
    """Return how many numbers `row_bounds` calculates for one vector: a table anew for every option."""
    rooms = np.array(
        [*_rooms(menus, _units(menus)), 0], dtype=np.int64
    )  # the last is of options that use none
    return int((rooms[_columns(menus)] + _CALL).sum())


def work_of_options(menus: IntegerMenus) -> int:
    """Return how many numbers `slacks_of_options` calculates for one vector."""
    rooms = np.array(_rooms(menus, _units(menus)), dtype=np.int64)
    looked_at = int(((menus.uses != 0) @ (rooms + _CALL)).sum()) if rooms.size else 0
    return 2 * work_of_bounds(menus) + menus.num_jobs * int(rooms.sum() + _CALL) + looked_at


def row_bounds(
    menus: IntegerMenus, numbers: Sequence[int], best: IntegerArray, order: NDArray[np.int64]
) -> RowBounds:
    """Return the bounds of a vector for jobs that are decided in an order.

    Parameters
    ----------
    menus
        What is left to decide.
    numbers
        One a job.
    best
        whole [jobs]: the most worth of any option.
    order
        int64 [jobs]: first decided first.
    """
    units, groups = _units(menus), _groups(menus, numbers)
    last = [np.zeros(room + 1, dtype=menus.worths.dtype) for room in _rooms(menus, units)]
    beyond, tables = [0], [last]
    for job in order[::-1].tolist():
        own = groups[job]
        beyond.append(beyond[-1] + numbers[job] + _free(own) - int(best[job]))
        tables.append([_with(table, own.get(k, ())) for k, table in enumerate(tables[-1])])
    return RowBounds(units, beyond[::-1], tables[::-1])


def slacks_of_options(
    menus: IntegerMenus, numbers: Sequence[int], losses: IntegerArray, slack: int
) -> IntegerArray:
    """Return, for every option, the slack of a vector once its job is decided for it.

    Parameters
    ----------
    menus
        What is left to decide.
    numbers
        One a job.
    losses, slack
        Of worth: whole [options], and the slack of prices 0.
    """
    best = _best(menus)
    after = row_bounds(menus, numbers, best, np.arange(menus.num_jobs))
    units, groups = after.units, _groups(menus, numbers)
    rooms = [table.size - 1 for table in after.tables[0]]
    before = [np.zeros_like(table) for table in after.tables[0]]
    whole = [int(table[-1]) for table in after.tables[0]]
    found = np.empty_like(menus.worths)
    for job in range(menus.num_jobs):
        own = groups[job]
        others = after.beyond[0] - (after.beyond[job] - after.beyond[job + 1])
        alone = {
            k: _together(before[k], after.tables[job + 1][k], rooms[k]) if k in own else whole[k]
            for k in range(len(rooms))
        }
        total = slack + others + sum(alone.values())
        for row in range(int(menus.offsets[job]), int(menus.offsets[job + 1])):
            lost = 0
            for k in np.flatnonzero(menus.uses[row]).tolist():
                room = rooms[k] - int(menus.uses[row, k]) // units[k]
                if room >= 0:  # else no option belongs to it, or this one does not fit, which others look at
                    lost += alone[k] - _together(before[k], after.tables[job + 1][k], room)
            found[row] = total - int(losses[row]) - lost
        for k, options in own.items():
            if k >= 0:
                before[k] = _with(before[k], options)
    return found


def _together(first: IntegerArray, second: IntegerArray, room: int) -> int:
    """Return the most of two tables that share a room."""
    return int((first[: room + 1] + second[room::-1]).max())


def _with(table: IntegerArray, options: Sequence[tuple[int, int]]) -> IntegerArray:
    """Return a table with one more job, which may have one of its options."""
    more = table
    for use, worth in options:
        if worth > 0 and use < table.size:
            more = table.copy() if more is table else more
            np.maximum(more[use:], table[: table.size - use] + worth, out=more[use:])
    return more


def _free(groups: _Groups) -> int:
    return max([0, *(worth for _, worth in groups.get(-1, ()))])


def _best(menus: IntegerMenus) -> IntegerArray:
    return np.maximum.reduceat(menus.worths, menus.offsets[:-1])


def _columns(menus: IntegerMenus) -> NDArray[np.int64]:
    """Return the first capacity that every option uses, -1 for none."""
    if not len(menus.capacities):
        return np.full(menus.worths.size, -1, dtype=np.int64)
    used = menus.uses != 0
    return np.where(used.any(axis=1), used.argmax(axis=1), -1)


def _units(menus: IntegerMenus) -> list[int]:
    return [max(1, int(np.gcd.reduce(menus.uses[:, k]))) for k in range(len(menus.capacities))]


def _rooms(menus: IntegerMenus, units: list[int]) -> list[int]:
    """Return the rooms that can matter, in units: 0 for a capacity that no option belongs to."""
    belonging = set(_columns(menus).tolist())
    return [
        int(room) // unit if k in belonging else 0
        for k, (room, unit) in enumerate(zip(menus.capacities, units, strict=True))
    ]


def _groups(menus: IntegerMenus, numbers: Sequence[int]) -> list[_Groups]:
    columns, units = _columns(menus).tolist(), _units(menus)
    groups: list[_Groups] = []
    for job, number in enumerate(numbers):
        own: _Groups = {}
        for row in range(int(menus.offsets[job]), int(menus.offsets[job + 1])):
            k = columns[row]
            use = 0 if k < 0 else int(menus.uses[row, k]) // units[k]
            own.setdefault(k, []).append((use, int(menus.worths[row]) - number))
        groups.append(own)
    return groups
