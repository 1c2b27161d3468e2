"""A knapsack whose menus live elsewhere: shards of jobs, each with the means to read its part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Sense

__all__ = ["MenuSource", "Part", "Shard", "ShardedKnapsack"]


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
