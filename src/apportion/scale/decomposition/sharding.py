"""A knapsack whose menus live elsewhere: shards of jobs, each with the means to read its part.

Menus as rectangles that one numpy call can price, and the small changes of price that break ties.

A job that may be left out has one more column, worth 0 and using nothing; short menus are padded with
columns worth minus infinity, in one rectangle per power of two of their length.

Where thousands of jobs are alike, all change their mind at one price, and no price uses just the capacity.
Every job j therefore pays ``lambda_k + reference_k xi_jk`` with ``xi_jk`` in 0..1 from Weyl's sequence in
the job's number and a reference of about 1e-6 of the price: alike jobs change one after the other.

The blocks of `apportion.solvers.knapsack.menu_blocks` take one multiplier of one capacity, in cached chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Sense

__all__ = ["Block", "MenuSource", "NoOption", "Part", "Shard", "ShardedKnapsack", "blocks", "spread"]


class NoOption(ValueError):
    """A job that must get an option has none: nothing is feasible."""


@dataclass(slots=True, eq=False)
class Block:
    """Jobs with menus of about one length.

    Attributes
    ----------
    value
        float64 [jobs, columns], to be maximised; ``-inf`` where there is no option.
    use
        int64 [jobs, columns, capacities].
    jobs
        int64 [jobs]: positions in the part; ``None`` for all of it.
    number
        int64 [jobs]: positions in the whole instance.
    out
        The column that leaves a job out, or ``None``.
    """

    value: NDArray[np.float64]
    use: NDArray[np.int64]
    jobs: NDArray[np.int64] | None
    number: NDArray[np.int64]
    out: int | None

    def scores(
        self, price: NDArray[np.float64], xi: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return float64 [jobs, columns]: value less what the uses cost at a price."""
        score = self.value.copy()
        cost = np.empty(score.shape)
        for k in range(price.size):
            each = price[k] + reference[k] * xi[:, k]
            np.multiply(self.use[:, :, k], each[:, None], out=cost)
            score -= cost
        return score

    def positions(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chosen positions in the menus, -1 for left out."""
        return columns if self.out is None else np.where(columns == self.out, -1, columns)


def spread(numbers: NDArray[np.int64], num_capacities: int) -> NDArray[np.float64]:
    """Return float64 [jobs, capacities] in 0..1, evenly spread over the jobs, by their number alone.

    Weyl's sequence with the ratios of Roberts' R_d sequence, in 64-bit integers: exact for any number.
    """
    ratio = 2.0
    for _ in range(60):  # the root of x ** (d + 1) = x + 1
        ratio = (1.0 + ratio) ** (1.0 / (num_capacities + 1.0))
    found = np.empty((numbers.size, num_capacities))
    for k in range(num_capacities):
        factor = np.uint64(int(2.0**64 * ratio ** -(k + 1.0)) | 1)
        found[:, k] = (numbers.astype(np.uint64) + np.uint64(1)) * factor * 2.0**-64
    return found


def blocks(model: MultipleChoiceKnapsack, first: int, sign: float) -> list[Block]:
    """Return the menus of a part as rectangles.

    Parameters
    ----------
    model
        The part.
    first
        The number of its first job in the whole instance.
    sign
        1 to maximise, -1 to minimise.

    Raises
    ------
    NoOption
        If a required job has no option.
    """
    counts = np.diff(model.offsets)
    if bool((model.required & (counts == 0)).any()):
        job = first + int(np.argmax(model.required & (counts == 0)))
        raise NoOption(f"job {job} is required and has no option")
    value = model.values if sign > 0 else -model.values
    if not counts.size:
        return []
    width, everyone = int(counts[0]), bool(model.required.all())
    if everyone and int(counts.min()) == width == int(counts.max()):
        rectangle = model.uses.reshape(counts.size, width, model.num_capacities)
        numbers = np.arange(first, first + counts.size, dtype=np.int64)
        return [Block(value.reshape(-1, width), rectangle, None, numbers, None)]
    made = []
    for jobs in model.jobs_by_length():
        width = int(counts[jobs].max())
        columns = width if everyone else width + 1
        values = np.full((jobs.size, columns), -np.inf)
        uses = np.zeros((jobs.size, columns, model.num_capacities), dtype=np.int64)
        inside, rows = model.cells(jobs, columns)
        values[inside], uses[inside] = value[rows], model.uses[rows]
        if not everyone:
            values[~model.required[jobs], width] = 0.0
        made.append(Block(values, uses, jobs, first + jobs, None if everyone else width))
    return made


class Part(NamedTuple):
    """The menus of some consecutive jobs, as ragged arrays.

    Attributes
    ----------
    values
        float64 [options].
    uses
        int64 [options, capacities].
    offsets
        int64 [jobs + 1], from 0.
    required
        bool [jobs], or one bool for all.
    """

    values: NDArray[np.float64]
    uses: NDArray[np.int64]
    offsets: NDArray[np.int64]
    required: NDArray[np.bool_] | bool


class MenuSource(Protocol):
    """Reads or makes menus where it is called; picklable, and the same answer every time."""

    def __call__(self, first: int, last: int) -> Part:
        """Return the menus of jobs ``first .. last - 1`` of the whole instance."""
        ...


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive jobs and where their menus come from.

    Attributes
    ----------
    first, last
        The jobs ``first .. last - 1`` of the whole instance.
    menus
        The source; whichever worker answers for the shard calls it.
    step
        Jobs in memory at a time.
    """

    first: int
    last: int
    menus: MenuSource
    step: int = 1 << 14

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return self.last - self.first

    def ranges(self, every: int = 1, run: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield ranges of at most `step` jobs: each `every`-th of the instance, its first `run` jobs."""
        for start in range(self.first, self.last, self.step):
            if (start // self.step) % every == 0:
                stop = min(start + self.step, self.last)
                yield start, stop if run is None else min(stop, start + run)


@dataclass(frozen=True, slots=True)
class ShardedKnapsack:
    """A multiple-choice knapsack in shards.

    Attributes
    ----------
    shards
        In the order of their jobs, without gaps, from job 0.
    capacities
        What there is of each capacity, at least one of them.
    sense
        ``"maximize"`` or ``"minimize"``.
    capacity_names
        ``capacity_0``, ... by default.

    Raises
    ------
    InvalidInstance
        If the shards leave a gap or overlap, or capacities are missing or negative.
    """

    shards: tuple[Shard, ...]
    capacities: tuple[int, ...]
    sense: Sense = "maximize"
    capacity_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        size = f"{len(self.shards)} shards, {len(self.capacities)} capacities"
        return f"<ShardedKnapsack: {size}, {self.sense}>"

    def __post_init__(self) -> None:
        problems = []
        ends = [0, *(shard.last for shard in self.shards)]
        for index, (shard, start) in enumerate(zip(self.shards, ends, strict=False)):
            if shard.first != start or shard.last < shard.first or shard.step < 1:
                problems.append(Problem(f"$.shards[{index}]", f"must begin at job {start}, step at least 1"))
        if not self.shards:
            problems.append(Problem("$.shards", "must be at least one, of no jobs if need be"))
        if not self.capacities or min(self.capacities) < 0:
            problems.append(Problem("$.capacities", "must be at least one number, each at least 0"))
        if self.sense not in ("maximize", "minimize"):
            problems.append(Problem("$.sense", f"must be 'maximize' or 'minimize', not {self.sense!r}"))
        names = self.capacity_names or tuple(f"capacity_{k}" for k in range(len(self.capacities)))
        if len(names) != len(self.capacities) or len(set(names)) != len(names):
            problems.append(Problem("$.capacity_names", f"must be {len(self.capacities)} distinct names"))
        if problems:
            raise InvalidInstance(problems)
        object.__setattr__(self, "capacity_names", names)

    @classmethod
    def split(
        cls,
        menus: MenuSource,
        num_jobs: int,
        capacities: Sequence[int],
        shards: int,
        sense: Sense = "maximize",
        step: int = 1 << 14,
    ) -> ShardedKnapsack:
        """Cut the jobs of one source into shards of nearly equal size, on multiples of `step` where possible.

        Parameters
        ----------
        menus
            A source of all jobs.
        num_jobs
            How many there are.
        capacities
            What there is of each capacity.
        shards
            How many to cut; a worker answers for one at a time, so a few per worker spread the load.
        sense
            ``"maximize"`` or ``"minimize"``.
        step
            Jobs in memory at a time.
        """
        unit = step if num_jobs >= shards * step else 1
        blocks = -(-num_jobs // unit)
        cuts = [min(blocks * k // shards * unit, num_jobs) for k in range(shards)] + [num_jobs]
        made = tuple(Shard(first, last, menus, step) for first, last in pairwise(cuts))
        return cls(made, tuple(int(c) for c in capacities), sense)

    @property
    def num_jobs(self) -> int:
        """How many jobs all shards hold together."""
        return self.shards[-1].last

    @property
    def maximizes(self) -> bool:
        """Whether the sense is to maximise."""
        return self.sense == "maximize"


def read(shard: Shard, first: int, last: int, num_capacities: int) -> MultipleChoiceKnapsack:
    """Return the checked menus of some jobs of a shard; the capacities in it are 0 and mean nothing.

    Raises
    ------
    InvalidInstance
        If the source returns arrays of wrong shape, type or content.
    """
    values, uses, offsets, required = shard.menus(first, last)
    if np.ndim(offsets) != 1 or np.size(offsets) != last - first + 1:
        wrong = f"must be int64 [{last - first + 1}] for jobs {first} to {last - 1}"
        raise InvalidInstance(Problem("$.offsets", wrong))
    nothing = np.zeros(num_capacities, dtype=np.int64)
    return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, nothing, required)
