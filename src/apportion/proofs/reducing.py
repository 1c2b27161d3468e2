"""Before the walk: bounds at the root, options that no better choice can hold, and how far a check may go.

For prices lambda >= 0 no choice is worth more than

    B = sum_k lambda_k C_k + sum_j max_i (w_ji - sum_k lambda_k u_jik)            (weak duality).

The *slack* of the prices is B less the threshold less 1, and the *loss* of an option is what its job gives up
against the best term above. The losses of a choice that is worth more than the threshold add up to at most
the slack, whatever the prices; so an option whose loss exceeds the slack is in none, and neither is one that
exceeds a capacity. What is left has new bounds, so this is repeated while it helps.

Numbers of jobs give further bounds, and every option a slack of its own (`apportion.proofs.relaxed_rows`).

Losses of worth add up to a multiple of their greatest common divisor: the slack of all prices falls by what
the slack of price 0 exceeds such a multiple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.proofs.integer_menus import LARGEST_TOTAL, IntegerArray, IntegerMenus
from apportion.proofs.relaxed_rows import LARGEST_TABLES, cells, slacks_of_options, work_of_options

__all__ = ["Budget", "Limits", "OverBudget", "Root", "Walked", "bytes_of", "only", "reduce", "rooted"]


_OF_OBJECTS = 40
"""Steps that a calculation with a Python integer counts as, beside one in 64 bits."""


class OverBudget(Exception):
    """A check would take more than its budget allows; the message says of what."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a check may go before it is called incomplete.

    Attributes
    ----------
    states
        Most states in all.
    kept
        Most numbers of states, or of tables of rows, that are kept at the same time, of 8 bytes each; a
        longer number counts as many as it takes.
    seconds
        Wall-clock seconds, ``None`` for no limit.
    steps
        Most numbers that are calculated or compared, a billion of which take about a second; one beyond 64
        bits counts as 40.
    """

    states: int = 50_000_000
    kept: int = 100_000_000
    seconds: float | None = None
    steps: int = 20_000_000_000


class Budget:
    """What is left of the steps and the memory that a check may take.

    Parameters
    ----------
    limits
        What it may take at most; without a limit where it is ``None``.
    """

    def __init__(self, limits: Limits | None) -> None:
        self._limits = limits
        self._steps = 0

    def spend(self, steps: int, dtype: np.dtype[Any]) -> None:
        """Count steps before they are made.

        Raises
        ------
        OverBudget
            If there are not so many left.
        """
        self._steps += steps * (_OF_OBJECTS if dtype.hasobject else 1)
        if self._limits is not None and self._steps > self._limits.steps:
            raise OverBudget(f"more than {self._limits.steps} steps")

    def hold(self, numbers: int, each: int, what: str) -> None:
        """Look at numbers of so many bytes before they are kept.

        Raises
        ------
        OverBudget
            If they take more than may be kept.
        """
        if self._limits is not None and numbers * each > 8 * self._limits.kept:
            raise OverBudget(f"more than {self._limits.kept} numbers kept, {what}")


@dataclass(frozen=True, slots=True)
class Walked:
    """How a walk ended.

    Attributes
    ----------
    status
        ``"proved"``, ``"refused"`` or ``"incomplete"``.
    why
        What was not closed, or which limit was reached.
    states
        How many states were looked at.
    """

    status: str
    why: str
    states: int


def bytes_of(largest: int) -> int:
    """Return what a number up to a size takes as Python keeps it in an array of objects."""
    return 8 + 24 + 4 * (1 + largest.bit_length() // 30)


_MOST_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Root:
    """Menus with their losses, or the reason for which nothing is left to walk.

    Attributes
    ----------
    menus
        The options that are left; every job's least uses are taken off its options and off the capacities, so
        that what is left over is what open jobs may use beyond their least.
    jobs
        int64 [jobs left]: their positions among all jobs.
    losses
        whole [vectors, options]; the first vector is of prices 0, whose losses are those of worth.
    slack
        whole [vectors].
    weights
        whole [vectors, capacities]: the prices.
    rows
        whole [vectors, jobs left]: numbers of jobs, whose rows they relax.
    closed
        Why no choice is worth more than the threshold; empty where the walk must decide.
    each
        Bytes that a number of a state takes at most.
    """

    menus: IntegerMenus
    jobs: NDArray[np.int64]
    losses: IntegerArray
    slack: IntegerArray
    weights: IntegerArray
    rows: IntegerArray
    closed: str = ""
    each: int = 8


def rooted(
    menus: IntegerMenus,
    prices: Sequence[Sequence[int]],
    rows: Sequence[Sequence[int]] = (),
    budget: Budget | None = None,
) -> Root:
    """Return the root of a walk: bounds of all prices and of price 0, in 64 bits where every total fits.

    Raises
    ------
    OverBudget
        If that takes more than a budget allows.
    """
    vectors = [[0] * len(menus.capacities), *prices]
    if _largest(menus, vectors) + _largest_of_rows(menus, rows) < LARGEST_TOTAL:
        kind: type = np.int64
    else:
        kind = object
    menus = replace(
        menus,
        worths=np.asarray(menus.worths, kind),
        uses=np.asarray(menus.uses, kind),
        capacities=np.asarray(menus.capacities, kind),
    )
    weights: IntegerArray = np.array(vectors, dtype=kind).reshape(len(vectors), len(menus.capacities))
    numbers: IntegerArray = np.array(rows, dtype=kind).reshape(len(rows), menus.num_jobs)
    root = reduce(menus, weights, numbers, budget or Budget(None))
    return root if kind is np.int64 else replace(root, each=_bytes(menus, weights, numbers))


def _bytes(menus: IntegerMenus, weights: IntegerArray, rows: IntegerArray) -> int:
    """Return the bytes of any number in a walk beyond 64 bits."""

    def largest(numbers: IntegerArray) -> int:
        return int(np.abs(numbers).max(initial=0))

    used = max(largest(menus.uses), largest(menus.capacities)) + 1
    one = largest(menus.worths) + abs(menus.threshold) + largest(weights) * used * (len(menus.capacities) + 1)
    return bytes_of((one + largest(rows)) * (menus.worths.size + menus.num_jobs + 1))


def reduce(menus: IntegerMenus, weights: IntegerArray, rows: IntegerArray, budget: Budget) -> Root:
    """Drop options that no choice above the threshold holds, until nothing changes."""
    jobs = np.arange(menus.num_jobs, dtype=np.int64)
    for round_ in range(_MOST_ROUNDS + 1):
        sizes = np.diff(menus.offsets)
        if (sizes == 0).any():
            return _closed(menus, jobs, f"job {jobs[np.argmin(sizes)]} has no option left")
        menus, jobs = _decided(_spared(menus), jobs)
        if (menus.capacities < 0).any():
            return _closed(
                menus, jobs, f"capacity {int(np.argmin(menus.capacities))} is below what jobs need"
            )
        budget.spend(menus.uses.size * len(weights), menus.uses.dtype)
        losses, slack = _bounds(menus, weights)
        step = int(np.gcd.reduce(losses[0]))
        if step:
            slack = slack - slack[0] % step
        if (slack < 0).any():
            return _closed(menus, jobs, f"the bound of price vector {int(np.argmax(slack < 0))}")
        kept: NDArray[np.bool_] = np.asarray((losses <= slack[:, None]).all(axis=0))
        near = np.flatnonzero(kept)
        kept[near] = (menus.uses[near] <= menus.capacities).all(axis=1)
        if len(rows) and kept.all() and len(rows) * cells(menus) <= LARGEST_TABLES:
            budget.spend(len(rows) * work_of_options(menus), menus.worths.dtype)
            for numbers in rows[:, jobs].tolist():
                kept &= slacks_of_options(menus, numbers, losses[0], int(slack[0])) >= 0
        if kept.all() or round_ == _MOST_ROUNDS:
            return Root(menus, jobs, losses, slack, weights, rows[:, jobs])
        menus = only(menus, kept)
    raise AssertionError("the last round returns")


def _largest(menus: IntegerMenus, vectors: Sequence[Sequence[int]]) -> int:
    """Return an upper bound on every total of the walk: four times what worths, prices and uses add up to."""
    sizes = np.diff(menus.offsets)
    needs = [_total(one) for one in _most(menus.uses, menus.offsets, sizes).T]
    rooms = [abs(int(room)) for room in menus.capacities]
    paid = [
        sum(int(price) * (need + room + 1) for price, need, room in zip(vector, needs, rooms, strict=True))
        for vector in vectors
    ]
    worths = _total(_most(np.abs(menus.worths), menus.offsets, sizes)) + abs(menus.threshold)
    return 4 * (worths + max(paid) + max([0, *needs, *rooms]) + menus.num_jobs + 1)


def _largest_of_rows(menus: IntegerMenus, rows: Sequence[Sequence[int]]) -> int:
    """Return an upper bound on every total of the bounds of rows."""
    if not rows:
        return 0
    sizes = np.diff(menus.offsets).tolist()
    own: list[int] = [
        sum(abs(one) * (size + 1) for one, size in zip(row, sizes, strict=True)) for row in rows
    ]
    return 4 * (_total(menus.worths) + max(own))


def _total(numbers: IntegerArray) -> int:
    """Return the sum of absolute numbers; of 64 bits in doubles, whose error the factor of four covers."""
    if numbers.dtype == object:
        return sum(abs(int(number)) for number in numbers)
    return int(np.abs(numbers.astype(np.float64)).sum())


def _most(numbers: IntegerArray, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> IntegerArray:
    filled = offsets[:-1][sizes > 0]
    return np.maximum.reduceat(numbers, filled, axis=0)


def _bounds(menus: IntegerMenus, weights: IntegerArray) -> tuple[IntegerArray, IntegerArray]:
    owner = np.repeat(np.arange(menus.num_jobs), np.diff(menus.offsets))
    losses = np.empty((weights.shape[0], menus.worths.size), dtype=menus.worths.dtype)
    slack = np.empty(weights.shape[0], dtype=menus.worths.dtype)
    for at, prices in enumerate(weights):
        term = menus.worths - menus.uses @ prices
        best = np.maximum.reduceat(term, menus.offsets[:-1])
        losses[at] = best[owner] - term
        slack[at] = (menus.capacities * prices).sum() + best.sum() - menus.threshold - 1
    return losses, slack


def _spared(menus: IntegerMenus) -> IntegerMenus:
    """Take every job's least uses off its options and off the capacities: a choice pays them anyway."""
    least = np.minimum.reduceat(menus.uses, menus.offsets[:-1], axis=0)
    if not least.any():
        return menus
    owner = np.repeat(np.arange(menus.num_jobs), np.diff(menus.offsets))
    return replace(menus, uses=menus.uses - least[owner], capacities=menus.capacities - least.sum(axis=0))


def _decided(menus: IntegerMenus, jobs: NDArray[np.int64]) -> tuple[IntegerMenus, NDArray[np.int64]]:
    """Take out jobs with a single option: its worth goes to the threshold, its uses are spared already."""
    sizes = np.diff(menus.offsets)
    single = sizes == 1
    if not single.any():
        return menus, jobs
    rows = menus.offsets[:-1][single]
    rest = np.ones(menus.worths.size, dtype=np.bool_)
    rest[rows] = False
    return (
        replace(
            menus,
            worths=menus.worths[rest],
            uses=menus.uses[rest],
            offsets=np.concatenate(([0], np.cumsum(sizes[~single]))).astype(np.int64),
            threshold=menus.threshold - int(menus.worths[rows].sum()),
        ),
        jobs[~single],
    )


def only(menus: IntegerMenus, kept: NDArray[np.bool_]) -> IntegerMenus:
    """Return the menus with some of their options."""
    counts = np.concatenate(([0], np.cumsum(kept)))[menus.offsets].astype(np.int64)
    return replace(menus, worths=menus.worths[kept], uses=menus.uses[kept], offsets=counts)


def _closed(menus: IntegerMenus, jobs: NDArray[np.int64], why: str) -> Root:
    none = np.array([], np.int64)
    return Root(menus, jobs, none, none, none, none, why)
