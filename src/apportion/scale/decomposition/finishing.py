"""The last look at every shard: the plan written down, checked against the menus, and the bound proven.

A part's share of the bound that multipliers prove, with what rounding may have done to it.

    z* <= lambda . C + sum over parts of sum_j max_i (v_ji - lambda . u_ji)

as in `apportion.models.lagrangian`, of which this is one summand: the rounding is returned, not added, so
that it is added once.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.core.files import write_whole
from apportion.models.lagrangian import exact_lagrangian_bound
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.scale.decomposition.answering import Question
from apportion.scale.decomposition.sharding import Shard, blocks, read, spread

__all__ = ["Finished", "Summed", "check_shard", "chosen_value", "finish_shard", "share_of_bound"]


_EPS = float(np.finfo(np.float64).eps)

Summed = tuple[float, float]
"""A sum in float64, and the most by which it may differ from the exact one."""


def share_of_bound(part: MultipleChoiceKnapsack, multipliers: NDArray[np.float64], sign: float) -> Summed:
    """Return ``sum_j max_i (sign v_ji - lambda . u_ji)`` over a part, with 0 for jobs that may stay out."""
    total, magnitude, count = 0.0, 0.0, part.num_capacities
    filled = np.flatnonzero(np.diff(part.offsets))
    if filled.size:
        price = np.zeros(part.num_options)
        for k in range(count):
            price += multipliers[k] * part.uses[:, k]
        starts = part.offsets[:-1][filled]
        best = np.maximum.reduceat(sign * part.values - price, starts)
        free = ~part.required[filled]
        best[free] = np.maximum(best[free], 0.0)
        total = float(best.sum())
        magnitude = float(np.abs(part.values).sum() + price.sum())  # of all options: more than of the best
    return total, (count + 24) * _EPS * magnitude


def chosen_value(part: MultipleChoiceKnapsack, rows: NDArray[np.int64]) -> Summed:
    """Return the sum of the values of chosen rows."""
    value = part.values[rows]
    return float(value.sum()), 24 * _EPS * float(np.abs(value).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """What a shard's part of a plan comes to.

    Attributes
    ----------
    first, last
        The shard's jobs.
    used
        Exact.
    value
        Sum of the chosen values in the instance's sense, and its rounding.
    bounds
        Per vector of multipliers, the shard's share of the bound and its rounding.
    violations
        The rules that the plan breaks in this shard, at most twenty of them.
    positions
        The chosen positions in the menus, -1 for left out; ``None`` if they are in the file.
    file, sha256
        The name of the file they are in and its digest, or ``None``.
    cpu_s
        Processor time it took, seconds.
    """

    first: int
    last: int
    used: tuple[int, ...]
    value: Summed
    bounds: tuple[Summed, ...]
    violations: tuple[str, ...]
    positions: NDArray[np.signedinteger] | None
    file: str | None
    sha256: str | None
    cpu_s: float


def finish_shard(
    shard: Shard,
    question: Question,
    numbers: NDArray[np.int64],
    positions: NDArray[np.int64],
    multipliers: tuple[NDArray[np.float64], ...],
    folder: str | None,
) -> Finished:
    """Write the part of a plan that a price and some jobs decided apart make, and check it.

    Parameters
    ----------
    shard
        The jobs.
    question
        The price that decides for them.
    numbers, positions
        int64 [jobs]: those decided apart, and how.
    multipliers
        Vectors of multipliers for which to compute the bound.
    folder
        Where to write the part, or ``None`` to return it.
    """
    plan = np.zeros(shard.num_jobs, dtype=np.int8)
    check = _Check(shard, multipliers, question.sign)
    for first, last in shard.ranges():
        part = read(shard, first, last, question.price.size)
        here = np.empty(last - first, dtype=np.int64)
        for block in blocks(part, first, question.sign):
            xi = spread(block.number, question.price.size)
            columns = block.scores(question.price, xi, question.reference).argmax(axis=1)
            here[slice(None) if block.jobs is None else block.jobs] = block.positions(columns)
        apart = (numbers >= first) & (numbers < last)
        here[numbers[apart] - first] = positions[apart]
        plan = plan.astype(np.promote_types(plan.dtype, np.min_scalar_type(-1 - int(here.max()))), copy=False)
        plan[first - shard.first : last - shard.first] = here
        check.add(part, first, plan[first - shard.first : last - shard.first])
    name = digest = None
    if folder is not None:
        data = BytesIO()
        np.save(data, plan, allow_pickle=False)
        name = f"jobs-{shard.first:012d}-{shard.last:012d}.npy"
        digest = hashlib.sha256(data.getvalue()).hexdigest()
        write_whole(Path(folder) / name, data.getvalue())
    return check.finished(plan, name, digest)


def check_shard(
    shard: Shard,
    positions: NDArray[np.signedinteger],
    multipliers: tuple[NDArray[np.float64], ...],
    sign: float,
    file: str | None = None,
    sha256: str | None = None,
    exact_jobs: int = 0,
) -> Finished:
    """Check a part of a plan against the menus alone; it shares nothing with what decided it.

    Parameters
    ----------
    shard
        The jobs.
    positions
        Integers [jobs]: the chosen positions in the menus, -1 for left out.
    multipliers
        At least one vector of multipliers for which to compute the bound.
    sign
        1 to maximise, -1 to minimise.
    file, sha256
        Where the positions came from; without, they are part of what is returned.
    exact_jobs
        For so many jobs, the first ones, the bound is computed in rational arithmetic too; if the float64
        one is not within its rounding of that, it is a violation.
    """
    check = _Check(shard, multipliers, sign, exact_jobs)
    if positions.shape != (shard.num_jobs,) or positions.dtype.kind != "i":
        message = f"must be whole numbers [{shard.num_jobs}], is {positions.dtype} {list(positions.shape)}"
        check.violations.append(message)
        return check.finished(None, file, sha256)
    for first, last in shard.ranges():
        part = read(shard, first, last, multipliers[0].size)
        check.add(part, first, positions[first - shard.first : last - shard.first])
    return check.finished(positions, file, sha256)


class _Check:
    """Sums up, range by range, what a plan uses and is worth, and what the multipliers prove."""

    def __init__(
        self, shard: Shard, multipliers: tuple[NDArray[np.float64], ...], sign: float, exact_jobs: int = 0
    ) -> None:
        self._shard, self._multipliers, self._sign, self._exact_jobs = shard, multipliers, sign, exact_jobs
        self._used = [0] * multipliers[0].size
        self._values: list[Summed] = []
        self._bounds: list[list[Summed]] = [[] for _ in multipliers]
        self.violations: list[str] = []
        self._began = time.process_time()

    def add(self, part: MultipleChoiceKnapsack, first: int, positions: NDArray[np.signedinteger]) -> None:
        here = positions.astype(np.int64)
        taken = here >= 0
        wrong = (here >= np.diff(part.offsets)) | (here < -1) | (part.required & ~taken)
        for job in np.flatnonzero(wrong)[: 20 - len(self.violations)].tolist():
            state = "left out" if here[job] == -1 else f"given option {here[job]}, which it has not"
            self.violations.append(f"job {first + job} is {state}")
        rows = (part.offsets[:-1] + here)[taken & ~wrong]
        self._values.append(chosen_value(part, rows))
        for k, amount in enumerate(part.uses[rows].sum(axis=0, dtype=np.int64).tolist()):
            self._used[k] += amount
        for prices, sums in zip(self._multipliers, self._bounds, strict=True):
            sums.append(share_of_bound(part, prices, self._sign))
            if (count := min(self._shard.first + self._exact_jobs - first, part.num_jobs)) > 0:
                self.violations += _compared(self._shard, first, first + count, prices, self._sign)

    def finished(
        self, positions: NDArray[np.signedinteger] | None, file: str | None, sha256: str | None
    ) -> Finished:
        return Finished(
            self._shard.first,
            self._shard.last,
            tuple(self._used),
            _total(self._values),
            tuple(_total(sums) for sums in self._bounds),
            tuple(self.violations),
            positions if file is None else None,
            file,
            sha256,
            time.process_time() - self._began,
        )


def _compared(shard: Shard, first: int, last: int, prices: NDArray[np.float64], sign: float) -> list[str]:
    part = read(shard, first, last, prices.size)
    near, rounding = share_of_bound(part, prices, sign)
    flipped = MultipleChoiceKnapsack.from_arrays(
        sign * part.values, part.uses, part.offsets, part.capacities, part.required
    )
    exact = exact_lagrangian_bound(flipped, prices)
    if exact is None or abs(exact - Fraction(near)) > Fraction(rounding):
        return [f"jobs {first} to {last - 1}: the bound is {near!r} within {rounding:.2g}, exactly {exact}"]
    return []


def _total(sums: list[Summed]) -> Summed:
    return math.fsum(one for one, _ in sums), math.fsum(rounding for _, rounding in sums)
