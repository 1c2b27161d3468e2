"""Where menus come from: arrays at hand, files that workers map into memory, or a seeded generator.

``plan.json``: what a folder of plan parts is, written last, and everything in it checked again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.core.files import write_whole
from apportion.core.outcome import Report, Violation, absolute_gap
from apportion.core.suggestions import one_of
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.scale.decomposition.finishing import Finished, check_shard
from apportion.scale.decomposition.result import ShardedSolution, outward_bound, summed_value
from apportion.scale.decomposition.sharding import Part, Shard, ShardedKnapsack
from apportion.scale.executors import in_order

__all__ = ["ArrayMenus", "GeneratedMenus", "StoredMenus", "check_sharded", "store", "write_manifest"]


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


_BLOCK = 1 << 14
"""Jobs that share a seed, so that any range can be made without what precedes it."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayMenus:
    """Menus of a model in memory; they travel with every task, so this is for small instances."""

    model: MultipleChoiceKnapsack

    def __call__(self, first: int, last: int) -> Part:
        """Return the menus of a range of jobs."""
        model = self.model
        start, stop = int(model.offsets[first]), int(model.offsets[last])
        offsets = model.offsets[first : last + 1] - start
        return Part(model.values[start:stop], model.uses[start:stop], offsets, model.required[first:last])


@dataclass(frozen=True, slots=True)
class StoredMenus:
    """Menus in a folder that `store` wrote, of which only the pages in use are in memory.

    Attributes
    ----------
    folder
        Where ``values.npy``, ``uses.npy``, ``offsets.npy`` and ``required.npy`` lie, for every worker.
    first
        The job of the whole instance that the folder's first job is.
    """

    folder: str
    first: int = 0

    def __call__(self, first: int, last: int) -> Part:
        """Return the menus of a range of jobs."""
        low, high = first - self.first, last - self.first
        offsets = np.array(self._map("offsets")[low : high + 1])
        if low < 0 or offsets.size != high - low + 1:
            raise InvalidOption(f"{self.folder} does not hold jobs {first} to {last - 1}")
        start, stop = int(offsets[0]), int(offsets[-1])
        return Part(
            self._map("values")[start:stop],
            self._map("uses")[start:stop],
            offsets - start,
            np.array(self._map("required")[low:high]),
        )

    def _map(self, name: str) -> NDArray[Any]:
        mapped: NDArray[Any] = np.load(Path(self.folder) / f"{name}.npy", mmap_mode="r")
        return mapped


def store(parts: Iterable[Part], folder: str | os.PathLike[str]) -> int:
    """Write menus part by part into a new folder for `StoredMenus`; return the number of jobs.

    The folder appears under its name only when it is complete. Memory is that of one part.

    Raises
    ------
    OSError
        If the folder exists or cannot be written.
    """
    target = Path(folder)
    if target.exists():
        raise FileExistsError(f"{target} exists already")
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    jobs, options = 0, 0
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
    raw = {
        name: (unfinished / f"{name}.raw").open("wb") for name in ("values", "uses", "offsets", "required")
    }
    try:
        raw["offsets"].write(np.zeros(1, dtype="<i8").tobytes())
        for part in parts:
            size = part.offsets.size - 1
            uses = np.ascontiguousarray(part.uses, dtype="<i8").reshape(part.values.size, -1)
            raw["values"].write(np.ascontiguousarray(part.values, dtype="<f8").tobytes())
            raw["uses"].write(uses.tobytes())
            raw["offsets"].write((part.offsets[1:] + options).astype("<i8").tobytes())
            raw["required"].write(np.broadcast_to(np.asarray(part.required), (size,)).astype("?").tobytes())
            jobs, options = jobs + size, options + part.values.size
            shapes["uses"] = ("<i8", (options, uses.shape[1]))
    finally:
        for file in raw.values():
            file.close()
    shapes |= {"values": ("<f8", (options,)), "offsets": ("<i8", (jobs + 1,)), "required": ("|b1", (jobs,))}
    shapes.setdefault("uses", ("<i8", (0, 1)))
    for name, (kind, shape) in shapes.items():
        _give_header(unfinished / f"{name}.raw", unfinished / f"{name}.npy", kind, shape)
    unfinished.rename(target)
    return jobs


def _give_header(raw: Path, target: Path, kind: str, shape: tuple[int, ...]) -> None:
    with raw.open("rb") as source, target.open("wb") as file:
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        while data := source.read(1 << 24):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    raw.unlink()


@dataclass(frozen=True, slots=True)
class GeneratedMenus:
    """Menus made from a seed, every range without what precedes it.

    Attributes
    ----------
    seed
        Random seed of the whole instance.
    options
        Options per job.
    capacities
        How many capacities they use.
    largest_use
        Uses are integers, uniform in 1 .. `largest_use`.
    law
        ``"uncorrelated"``: values uniform in 0 .. 1000; ``"alike"``: the jobs are of twenty types, so that
        whole types tie at one price.
    """

    seed: int
    options: int = 8
    capacities: int = 1
    largest_use: int = 1000
    law: Literal["uncorrelated", "alike"] = "uncorrelated"

    def __post_init__(self) -> None:
        one_of("law", self.law, ("uncorrelated", "alike"))

    def __call__(self, first: int, last: int) -> Part:
        """Return the menus of a range of jobs."""
        blocks = [self._block(index) for index in range(first // _BLOCK, -(-last // _BLOCK))]
        width, skipped = self.options, (first % _BLOCK) * self.options
        length = (last - first) * width
        if len(blocks) == 1:
            values, uses = blocks[0]
        else:
            values = np.concatenate([np.zeros(0), *(block[0] for block in blocks)])
            none = np.zeros((0, self.capacities), dtype=np.int64)
            uses = np.concatenate([none, *(block[1] for block in blocks)])
        offsets = np.arange(last - first + 1, dtype=np.int64) * width
        return Part(values[skipped : skipped + length], uses[skipped : skipped + length], offsets, True)

    def room(self, num_jobs: int, share: float = 0.25) -> tuple[int, ...]:
        """Return capacities this share of the way from the expected least to the expected greatest uses.

        The expected least of n uniform integers in 1..R is about R / (n + 1), the greatest R n / (n + 1).
        """
        least = self.largest_use / (self.options + 1)
        each = least + share * (self.largest_use * self.options / (self.options + 1) - least)
        if self.capacities > 1:  # one option for all capacities: near the mean there is a choice that fits
            each = 0.8 * self.largest_use / 2
        return (int(num_jobs * each),) * self.capacities

    def _block(self, index: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        count = _BLOCK * self.options
        if self.law == "alike":
            rng = np.random.default_rng(self.seed)
            kinds = 20
            value = 1000.0 * rng.random((kinds, self.options))
            use = rng.integers(1, self.largest_use, (kinds, self.options, self.capacities), endpoint=True)
            own = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(index,)))
            kind = own.integers(0, kinds, _BLOCK)
            return value[kind].reshape(-1), use[kind].reshape(count, self.capacities)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(index,)))
        values = 1000.0 * rng.random(count)
        return values, rng.integers(1, self.largest_use, (count, self.capacities), endpoint=True)
