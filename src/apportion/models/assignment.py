"""The assignment as arrays: every job goes to one of the machines it may run on.

Per job a ragged menu of entries, each on one machine. Minimise the makespan or a cost, or maximise a value;
a machine with a capacity bounds the sum of the uses on it. Machines of one pool are alike.

A point is a choice, int64 [jobs]. Of a makespan it may have a second row, the turns in which the jobs of a
pool are placed: any schedule of gangs is a list of them, but not always the longest or the widest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import InvalidInstance, Problem, did_you_mean
from apportion.core.outcome import Report, Violation
from apportion.models.exact_sums import accurate_sum
from apportion.models.multiple_choice import Ragged, Sense, check_sum_of_values
from apportion.models.packing import pool_ends

__all__ = ["LARGEST_ROOM", "Assignment", "Goal", "in_turn"]

Goal = Literal["makespan", "cost", "value"]
LARGEST_ROOM = 2**63 - 1
"""What a capacity beyond 64 bits is cut off at: no sum of uses reaches it, but a price of it would show."""
_LARGEST_TOTAL = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Assignment(Ragged):
    """Jobs and the machines each may run on, as arrays; build one with `from_arrays` or `from_matrix`.

    Attributes
    ----------
    goal
        ``"makespan"``, ``"cost"`` or ``"value"``.
    values
        float64 [entries]: time, cost or value of each entry.
    machine
        int64 [entries]: the machine of each entry.
    offsets
        int64 [jobs + 1]: job j has the entries ``offsets[j]:offsets[j + 1]``.
    uses
        int64 [entries]: what the entry takes of its machine's capacity.
    gpus
        int64 [entries]: how many of the machine's `counts` units it holds at the same time (makespan).
    counts
        int64 [machines]: identical units behind each machine (makespan).
    capacities
        int64 [machines]; meaningless where not `limited`.
    limited
        bool [machines]: whether there is a capacity.
    required
        bool [jobs]: whether the job must run.
    pool
        int64 [machines]: the pool each machine belongs to; certificates price pools.
    pool_names
        One name per pool.
    divisible
        Whether jobs run by shares (makespan): a point is then float64 [entries], shares of work.
    job_names
        Names of the jobs, ``None`` for plain indices.
    """

    goal: Goal
    values: NDArray[np.float64]
    machine: NDArray[np.int64]
    offsets: NDArray[np.int64]
    uses: NDArray[np.int64]
    gpus: NDArray[np.int64]
    counts: NDArray[np.int64]
    capacities: NDArray[np.int64]
    limited: NDArray[np.bool_]
    required: NDArray[np.bool_]
    pool: NDArray[np.int64]
    pool_names: tuple[str, ...]
    divisible: bool = False
    job_names: Sequence[str] | None = None

    if TYPE_CHECKING:

        @property
        def _planned(self) -> NDArray[np.int64] | NDArray[np.float64]: ...

    def __repr__(self) -> str:
        shares = ", in shares" if self.divisible else ""
        return (
            f"<Assignment: {self.num_jobs} jobs, {self.num_options} entries on {self.num_machines} machines, "
            f"{self.goal}{shares}>"
        )

    def __post_init__(self) -> None:
        goals = ("makespan", "cost", "value")
        if self.goal not in goals:
            problem = f"must be 'makespan', 'cost' or 'value', not {self.goal!r}"
            raise _invalid("goal", problem + did_you_mean(self.goal, goals))

    @classmethod
    def from_arrays(
        cls,
        goal: Goal,
        values: ArrayLike,
        machine: ArrayLike,
        offsets: ArrayLike,
        num_machines: int,
        *,
        uses: ArrayLike = 1,
        gpus: ArrayLike = 1,
        counts: ArrayLike = 1,
        capacities: ArrayLike | None = None,
        limited: ArrayLike = True,
        required: ArrayLike = True,
        pool: ArrayLike | None = None,
        pool_names: Sequence[str] | None = None,
        divisible: bool = False,
        job_names: Sequence[str] | None = None,
    ) -> Assignment:
        """Check the arrays once; see the attributes for their shapes.

        Raises
        ------
        InvalidInstance
            If a shape or a value is wrong; the message names the array.
        """
        try:
            value = np.ascontiguousarray(values, dtype=np.float64)
        except (OverflowError, TypeError, ValueError) as error:
            raise _invalid("values", f"must be finite numbers in one dimension: {error}") from None
        offset = np.ascontiguousarray(offsets, dtype=np.int64)
        if value.ndim != 1 or not np.isfinite(value).all():
            raise _invalid("values", "must be finite numbers in one dimension")
        check_sum_of_values(value)
        if goal == "makespan" and (value < 0).any():
            raise _invalid("values", "must be times of at least 0")
        if offset.ndim != 1 or offset.size == 0 or offset[0] != 0 or offset[-1] != value.size:
            raise _invalid("offsets", f"must rise from 0 to the number of entries, {value.size}")
        if (np.diff(offset) < 0).any():
            raise _invalid("offsets", "must not fall")
        jobs = offset.size - 1
        on = _spread("machine", machine, value.size)
        if value.size and not 0 <= on.min() <= on.max() < num_machines:
            raise _invalid("machine", f"must be from 0 to {num_machines - 1}")
        of_pool = np.arange(num_machines) if pool is None else _spread("pool", pool, num_machines)
        pools = int(of_pool.max(initial=-1)) + 1
        names = tuple(f"machine_{k}" for k in range(pools)) if pool_names is None else tuple(pool_names)
        use = _spread("uses", uses, value.size)
        if use.size and (use.min() < 0 or float(use.max()) * max(jobs, 1) >= _LARGEST_TOTAL):
            raise _invalid("uses", "must be at least 0 and add up in 64 bits")
        unit = _spread("gpus", gpus, value.size)
        units = _spread("counts", counts, num_machines)
        must = np.broadcast_to(np.asarray(required, dtype=np.bool_), (jobs,))
        if units.size and units.min() < 1:
            raise _invalid("counts", "must be at least 1: a machine without units is none")
        if value.size and unit.min() < 1:
            raise _invalid("gpus", "must be at least 1")
        if goal == "makespan" and value.size and (unit > units[on]).any():
            entry = int(np.argmax(unit > units[on]))
            raise _invalid(
                "gpus", f"entry {entry} wants {unit[entry]} of the {units[on[entry]]} units of its machine"
            )
        if divisible and goal != "makespan":
            raise _invalid("divisible", f"is for a makespan alone, not for a {goal}")
        if divisible and not must.all():
            raise _invalid("required", "must hold for all jobs where work is divisible: leave the others out")
        if goal == "makespan" and _repeats(on, offset, num_machines):
            raise _invalid(
                "machine", "must be another one in every entry of a job, where times are scheduled"
            )
        has_capacity = np.broadcast_to(np.asarray(limited, dtype=np.bool_), (num_machines,))
        if capacities is None:
            has_capacity = np.zeros(num_machines, dtype=np.bool_)
        room = _spread("capacities", 0 if capacities is None else capacities, num_machines)
        if has_capacity.any() and room[has_capacity].min() < 0:
            raise _invalid("capacities", "must be at least 0")
        if divisible and has_capacity.any():
            raise _invalid("capacities", "must be None where work is divisible: shares of time use none")
        return cls(
            goal=goal,
            values=value,
            machine=on,
            offsets=offset,
            uses=use,
            gpus=unit,
            counts=units,
            capacities=room,
            limited=has_capacity,
            required=must,
            pool=of_pool,
            pool_names=names,
            divisible=divisible,
            job_names=job_names,
        )

    @classmethod
    def from_matrix(
        cls, goal: Goal, values: ArrayLike, capacities: ArrayLike | None = None, uses: ArrayLike = 1
    ) -> Assignment:
        """Return the assignment of a dense matrix [jobs, machines]; NaN forbids a pair.

        Examples
        --------
        >>> model = Assignment.from_matrix("cost", [[1.0, 3.0], [2.0, 9.0]], capacities=1)
        >>> model.check([1, 2]).objective
        5.0
        """
        matrix = np.asarray(values, dtype=np.float64)
        allowed = ~np.isnan(matrix)
        use = np.broadcast_to(np.asarray(uses, dtype=np.int64), matrix.shape)
        return cls.from_arrays(
            goal,
            matrix[allowed],
            np.nonzero(allowed)[1],
            np.concatenate(([0], np.cumsum(allowed.sum(axis=1)))),
            matrix.shape[1],
            uses=use[allowed],
            capacities=capacities,
        )

    @property
    def sense(self) -> Sense:
        """``"maximize"`` for a value, else ``"minimize"``."""
        return "maximize" if self.goal == "value" else "minimize"

    @property
    def num_machines(self) -> int:
        """How many machines there are."""
        return int(self.pool.size)

    @property
    def priced(self) -> NDArray[np.int64]:
        """The pools a certificate prices: all for a makespan, else those with a capacity."""
        if self.goal == "makespan":
            return np.arange(len(self.pool_names))
        return np.unique(self.pool[self.limited])

    @property
    def capacity_names(self) -> tuple[str, ...]:
        """Names of what a certificate prices; a divisible instance also prices its jobs."""
        names = tuple(self.pool_names[k] for k in self.priced)
        if not self.divisible:
            return names
        jobs = tuple(f"job:{j}" for j in self.job_names or range(self.num_jobs))
        return (*(f"machine:{name}" for name in names), *jobs)

    @property
    def num_capacities(self) -> int:
        """How many prices a certificate has."""
        return int(self.priced.size) + (self.num_jobs if self.divisible else 0)

    @property
    def repeats(self) -> bool:
        """Whether a job has two entries on one machine, as it may where values or costs add up."""
        return _repeats(self.machine, self.offsets, self.num_machines)

    def nameless(self) -> Assignment:
        """Return the model without the names of its jobs."""
        return replace(self, job_names=None)

    def chosen(self, taken: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the choice of some entries, at most one of a job; jobs without one are placed nowhere."""
        choice = np.full(self.num_jobs, -1, dtype=np.int64)
        choice[self.job_of_option()[taken]] = taken
        return choice

    def of_options(self, kept: NDArray[np.int64]) -> Assignment:
        """Return the assignment with some entries, int64 in ascending order."""
        return replace(
            self,
            values=self.values[kept],
            machine=self.machine[kept],
            offsets=np.searchsorted(kept, self.offsets),
            uses=self.uses[kept],
            gpus=self.gpus[kept],
        )

    def of_jobs(self, kept: NDArray[np.bool_]) -> Assignment:
        """Return the assignment of some jobs, bool [jobs], on the same machines; itself where all stay."""
        if kept.all():
            return self
        names = self.job_names
        return replace(
            self.of_options(np.flatnonzero(kept[self.job_of_option()])),
            offsets=np.concatenate(([0], np.cumsum(np.diff(self.offsets)[kept]))).astype(np.int64),
            required=self.required[kept],
            job_names=None if names is None else [names[job] for job in np.flatnonzero(kept).tolist()],
        )

    def matrix(self) -> NDArray[np.float64]:
        """Return the values as float64 [jobs, machines], NaN where there is no entry."""
        dense = np.full((self.num_jobs, self.num_machines), np.nan)
        dense[self.job_of_option(), self.machine] = self.values
        return dense

    def rows(self) -> NDArray[np.int64]:
        """Return int64 [jobs, machines]: the entry of each pair, -1 where there is none."""
        dense = np.full((self.num_jobs, self.num_machines), -1, dtype=np.int64)
        dense[self.job_of_option(), self.machine] = np.arange(self.num_options)
        return dense

    def used(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [machines]: what a choice uses of each machine's capacity."""
        taken = choice[choice >= 0]
        total = np.zeros(self.num_machines, dtype=np.int64)
        np.add.at(total, self.machine[taken], self.uses[taken])
        return total

    def objective(self, point: NDArray[Any]) -> float:
        """Return the makespan (pools packed by `pool_ends`), the cost or the value of a point."""
        if self.divisible:
            return self._divided(np.asarray(point, dtype=np.float64))
        choice, turns = in_turn(point)
        placed = choice >= 0
        taken = choice[placed]
        if self.goal != "makespan":
            return accurate_sum(self.values[taken])
        turn = None if turns is None else turns[placed]
        ends = pool_ends(self.values[taken], self.machine[taken], self.gpus[taken], self.counts, turn)
        return float(ends.max(initial=0.0))

    def check(self, point: ArrayLike) -> Report:
        """Check a point against the model alone; at most twenty violations are listed per rule."""
        given = np.asarray(point)
        if self.divisible:
            return self._check_shares(given)
        shapes = [(self.num_jobs,), *([(2, self.num_jobs)] if self.goal == "makespan" else [])]
        if given.dtype.kind not in "iu" or given.shape not in shapes:
            message = f"must be int64 [{self.num_jobs}], is {given.dtype} {list(given.shape)}"
            return Report(None, (Violation("shape", "choice", message),))
        point = given.astype(np.int64, copy=False)
        choice, _ = in_turn(point)
        taken = choice != -1
        foreign = taken & ((choice < self.offsets[:-1]) | (choice >= self.offsets[1:]))
        if foreign.any():
            return Report(
                None,
                tuple(
                    Violation("option", f"job {j}", f"entry {choice[j]} is not its own")
                    for j in np.flatnonzero(foreign)[:20]
                ),
            )
        violations = [
            Violation("required", f"job {j}", "must run on one of its machines")
            for j in np.flatnonzero(self.required & ~taken)[:20]
        ]
        used = self.used(choice)
        violations += [
            Violation("capacity", f"machine {k}", f"uses {used[k]} of {self.capacities[k]}")
            for k in np.flatnonzero(self.limited & (used > self.capacities))[:20]
        ]
        return Report(self.objective(point), tuple(violations))

    def _check_shares(self, given: NDArray[Any]) -> Report:
        if given.dtype.kind not in "fiu" or given.shape != (self.num_options,):
            return Report(None, (Violation("shape", "shares", f"must be float64 [{self.num_options}]"),))
        shares = given.astype(np.float64)
        done = np.bincount(self.job_of_option(), weights=shares, minlength=self.num_jobs)
        wrong = np.flatnonzero(~(np.abs(done - 1) <= 1e-6))
        violations = [Violation("required", f"job {j}", f"is done to {done[j]:.12g}") for j in wrong[:20]]
        if not (shares >= -1e-9).all():
            violations.append(Violation("shares", "shares", "must be at least 0"))
        return Report(None if violations else self._divided(shares), tuple(violations))

    def _divided(self, shares: NDArray[np.float64]) -> float:
        seconds = shares * self.values
        alone = np.bincount(self.job_of_option(), weights=seconds, minlength=self.num_jobs)
        busy = np.bincount(self.machine, weights=seconds * self.gpus, minlength=self.num_machines)
        return float(max(alone.max(initial=0.0), (busy / self.counts).max(initial=0.0)))


def in_turn(point: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the choice of a point, and its turns where it has any."""
    return (point[0], point[1]) if point.ndim == 2 else (point, None)


def _invalid(name: str, message: str) -> InvalidInstance:
    return InvalidInstance(Problem(f"$.{name}", message))


def _repeats(machine: NDArray[np.int64], offsets: NDArray[np.int64], num_machines: int) -> bool:
    """Return whether a job has two entries on one machine."""
    owner = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    if ((np.diff(machine) > 0) | (np.diff(owner) > 0)).all():  # in ascending order
        return False
    return bool(np.unique(owner * num_machines + machine).size < machine.size)


def _spread(name: str, raw: ArrayLike, size: int) -> NDArray[np.int64]:
    array = np.asarray(raw)
    if array.size and array.dtype.kind not in "iu":
        raise _invalid(name, "must be integers")
    if array.shape not in ((), (size,)):
        raise _invalid(name, f"must be one integer or {size}")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 1 << 63:
        raise _invalid(name, "must be integers of 64 bits")
    return np.broadcast_to(array.astype(np.int64), (size,))
