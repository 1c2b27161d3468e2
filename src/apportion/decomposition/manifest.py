"""``plan.json``: what a folder of plan parts is, written last, and everything in it checked again."""

from __future__ import annotations

import hashlib
from concurrent.futures import Executor
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.decomposition.finishing import Finished, check_shard
from apportion.decomposition.result import ShardedSolution, outward_bound, summed_value
from apportion.decomposition.sharding import Shard, ShardedKnapsack
from apportion.errors import InvalidInstance, Problem
from apportion.executors import in_order
from apportion.files import write_whole
from apportion.gap import absolute_gap
from apportion.report import Report, Violation

__all__ = ["check_sharded", "write_manifest"]

_NAME = "plan.json"


class ManifestPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a stored plan: the choices of one shard."""

    first: int
    last: int
    file: str
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a plan's folder holds, and what is claimed of it."""

    termination: str
    objective: float
    bound: float
    multipliers: dict[str, float]
    used: dict[str, int]
    parts: list[ManifestPart]
    schema_version: str = "1"


def write_manifest(solution: ShardedSolution, folder: str) -> None:
    """Write ``plan.json`` of a solution whose parts are in the folder."""
    assert solution.objective is not None and solution.bound is not None
    manifest = Manifest(
        solution.termination.value,
        solution.objective,
        solution.bound,
        dict(solution.multipliers),
        dict(solution.used),
        [ManifestPart(part.first, part.last, part.file or "", part.sha256 or "") for part in solution.parts],
    )
    write_whole(Path(folder) / _NAME, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def check_sharded(
    problem: ShardedKnapsack, folder: str, executor: Executor | None = None, exact_jobs: int = 0
) -> Report:
    """Check a stored plan and its bound against the menus, from the files alone.

    Parameters
    ----------
    problem
        The shards; they need not be cut as they were when the plan was made, as long as every file's jobs
        are whole shards' or are read by the source of the shard that holds its first job.
    folder
        The folder in which `solve_sharded` wrote the plan.
    executor
        Runs the checks of the parts; ``None``: this process does.
    exact_jobs
        Compare the bound's summands of so many jobs of every part with rational arithmetic.

    Returns
    -------
    Report
        Its violations name digests, menus, capacities, the objective and the bound.

    Raises
    ------
    InvalidInstance
        If ``plan.json`` is not what `solve_sharded` writes.
    OSError
        If a file is missing.
    """
    try:
        manifest = msgspec.json.decode((Path(folder) / _NAME).read_bytes(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise InvalidInstance(Problem("$", f"{_NAME} of {folder}: {error}")) from error
    names = problem.capacity_names
    ends = [0, *(part.last for part in manifest.parts)]
    covered = all(part.first == end for part, end in zip(manifest.parts, ends, strict=False))
    if set(manifest.multipliers) != set(names) or not covered or ends[-1] != problem.num_jobs:
        return Report(None, (Violation("shape", _NAME, "is of other jobs or capacities"),))
    prices = np.array([manifest.multipliers[name] for name in names])
    if not np.isfinite(prices).all() or (prices < 0).any():
        return Report(None, (Violation("multipliers", _NAME, "must be finite and at least 0"),))
    sign = 1.0 if problem.maximizes else -1.0
    asked = (
        (_shard_of(problem, part), str(Path(folder) / part.file), part.sha256, prices, sign, exact_jobs)
        for part in manifest.parts
    )
    parts = [row.require() for row in in_order(executor, check_file, asked)]
    violations = [Violation("plan", part.file or "", text) for part in parts for text in part.violations]
    if violations:
        return Report(None, tuple(violations[:20]))
    used = {name: sum(part.used[k] for part in parts) for k, name in enumerate(names)}
    for name, capacity in zip(names, problem.capacities, strict=True):
        if used[name] > capacity:
            violations.append(Violation("capacity", name, f"uses {used[name]} of {capacity}"))
    objective = summed_value(parts)
    if abs(objective - manifest.objective) > sum(part.value[1] for part in parts):
        message = f"the plan is worth {objective!r}, not {manifest.objective!r}"
        violations.append(Violation("objective", _NAME, message))
    bound = outward_bound(problem, prices, [part.bounds[0] for part in parts])
    if abs(bound - manifest.bound) > absolute_gap(bound, 1e-9):
        message = f"the multipliers prove {bound!r}, not {manifest.bound!r}"
        violations.append(Violation("verified_bound", _NAME, message))
    return Report(objective, tuple(violations))


def _shard_of(problem: ShardedKnapsack, part: ManifestPart) -> Shard:
    holder = next(shard for shard in problem.shards if shard.first <= part.first < max(shard.last, 1))
    return Shard(part.first, part.last, holder.menus, holder.step)


def check_file(
    shard: Shard, file: str, sha256: str, prices: NDArray[np.float64], sign: float, exact_jobs: int
) -> Finished:
    """Check one file of a plan."""
    data = Path(file).read_bytes()
    name = Path(file).name
    if hashlib.sha256(data).hexdigest() != sha256:
        nothing = (0,) * prices.size
        broken = ("the file is not the one that was written",)
        return Finished(shard.first, shard.last, nothing, (0.0, 0.0), (), broken, None, name, sha256, 0.0)
    positions = np.load(BytesIO(data), allow_pickle=False)
    return check_shard(shard, positions, (prices,), sign, name, sha256, exact_jobs)
