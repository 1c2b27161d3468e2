"""The last look at every shard: the plan written down, checked against the menus, and the bound proven."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.decomposition.answering import Question
from apportion.decomposition.blocks import blocks, spread
from apportion.decomposition.bounding import Summed, chosen_value, share_of_bound
from apportion.decomposition.sharding import Shard, read
from apportion.files import write_whole
from apportion.models.lagrangian import exact_lagrangian_bound
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Finished", "check_shard", "finish_shard"]


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
        What the check found, at most twenty.
    positions
        The chosen positions in the menus, -1 for left out; ``None`` if they are in the file.
    file, sha256
        The name of the file they are in and its digest, or ``None``.
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
    plan = np.empty(shard.num_jobs, dtype=np.int64)
    for first, last in shard.ranges():
        part = read(shard, first, last, question.price.size)
        here = plan[first - shard.first : last - shard.first]
        for block in blocks(part, first, question.sign):
            xi = spread(block.number, question.price.size)
            columns = block.scores(question.price, xi, question.reference).argmax(axis=1)
            here[slice(None) if block.jobs is None else block.jobs] = block.positions(columns)
    plan[numbers - shard.first] = positions
    small = plan.astype(np.min_scalar_type(-max(int(plan.max(initial=0)), 1)))
    name = digest = None
    if folder is not None:
        data = BytesIO()
        np.save(data, small, allow_pickle=False)
        name = f"jobs-{shard.first:012d}-{shard.last:012d}.npy"
        digest = hashlib.sha256(data.getvalue()).hexdigest()
        write_whole(Path(folder) / name, data.getvalue())
    return check_shard(shard, small, multipliers, question.sign, name, digest)


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
        Vectors of multipliers for which to compute the bound.
    sign
        1 to maximise, -1 to minimise.
    file, sha256
        Where the positions came from; without, they are part of what is returned.
    exact_jobs
        For so many jobs, the first ones, the bound is computed in rational arithmetic too; if the float64
        one is not within its rounding of that, it is a violation.
    """
    size = len(multipliers[0]) if multipliers else 1
    used = [0] * size
    values: list[Summed] = []
    bounds: list[list[Summed]] = [[] for _ in multipliers]
    violations: list[str] = []
    if positions.shape != (shard.num_jobs,) or positions.dtype.kind != "i":
        violations.append(f"jobs {shard.first} to {shard.last - 1}: the plan has {positions.shape} positions")
        return Finished(
            shard.first, shard.last, tuple(used), (0.0, 0.0), (), tuple(violations), None, file, sha256
        )
    for first, last in shard.ranges():
        part = read(shard, first, last, size)
        here = positions[first - shard.first : last - shard.first].astype(np.int64)
        taken = here >= 0
        wrong = (here >= np.diff(part.offsets)) | (here < -1) | (part.required & ~taken)
        for job in np.flatnonzero(wrong)[: 20 - len(violations)].tolist():
            told = "left out" if here[job] == -1 else f"given option {here[job]}, which it has not"
            violations.append(f"job {first + job} is {told}")
        rows = (part.offsets[:-1] + here)[taken & ~wrong]
        values.append(chosen_value(part, rows))
        for k, amount in enumerate(part.uses[rows].sum(axis=0, dtype=np.int64).tolist()):
            used[k] += amount
        for prices, sums in zip(multipliers, bounds, strict=True):
            sums.append(share_of_bound(part, prices, sign))
            if (count := min(shard.first + exact_jobs, last) - first) > 0:
                violations += _compared(shard, first, first + count, prices, sign)
    return Finished(
        shard.first,
        shard.last,
        tuple(used),
        _total(values),
        tuple(_total(sums) for sums in bounds),
        tuple(violations),
        positions if file is None else None,
        file,
        sha256,
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
