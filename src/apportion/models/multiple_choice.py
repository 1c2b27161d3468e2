"""The multiple-choice knapsack: each job picks one option from its menu; options use capacities.

With one capacity it is the MCKP, with several the MMKP of Kellerer, Pferschy and Pisinger, *Knapsack
Problems* (Springer, 2004), chapter 11. Menus are ragged arrays, never lists of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.outcome import Report, Violation
from apportion.core.solution import GoalResult
from apportion.models.exact_sums import accurate_sum, over_columns
from apportion.models.splice import Splice
from apportion.models.uses import dense, sparse, total

if TYPE_CHECKING:
    from apportion.models.uses import Uses

__all__ = ["Goal", "MultipleChoiceKnapsack", "Present", "Ragged", "Sense", "check_sum_of_values"]


_LARGEST_SUM = 2.0**1020
"""Magnitudes of all values together: sums, differences and their margins then stay finite doubles."""


def check_sum_of_values(values: NDArray[np.float64]) -> None:
    """Refuse finite values whose sums would be no finite double.

    Raises
    ------
    InvalidInstance
        If the magnitudes add up to more than 2^1020.
    """
    with np.errstate(over="ignore"):
        total = float(np.abs(values).sum())
    if not total <= _LARGEST_SUM:
        raise InvalidInstance(
            Problem("$.values", "are so large that their sum is beyond 64-bit floats: use a larger unit")
        )


class Ragged:
    """Rows of jobs behind one another: job ``j`` owns the rows ``offsets[j]:offsets[j + 1]``.

    Attributes
    ----------
    values
        float64 [options].
    offsets
        int64 [jobs + 1], from 0 to the number of options, never falling.
    """

    __slots__ = ()
    values: NDArray[np.float64]
    offsets: NDArray[np.int64]

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return int(self.offsets.size - 1)

    @property
    def num_options(self) -> int:
        """How many options all jobs have together."""
        return int(self.values.size)

    def job_of_option(self) -> NDArray[np.int64]:
        """Return int64 [options]: the job each option belongs to."""
        return np.repeat(np.arange(self.num_jobs, dtype=np.int64), np.diff(self.offsets))

    def jobs_by_length(self) -> list[NDArray[np.int64]]:
        """Return the jobs in groups, one per power of two of the length: padding never doubles a group."""
        power = np.frexp(np.maximum(np.diff(self.offsets) - 1, 0).astype(np.float64))[1]
        return [np.flatnonzero(power == exponent) for exponent in np.unique(power).tolist()]

    def cells(self, jobs: NDArray[np.int64], columns: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return where the options of some jobs lie in a rectangle, bool [jobs, columns], and their rows."""
        inside = np.arange(columns) < np.diff(self.offsets)[jobs, None]
        return inside, (self.offsets[jobs, None] + np.arange(columns))[inside]


Sense = Literal["maximize", "minimize"]

_MOST_GAINED = 2**52
"""Sums of goals stay below this, where doubles hold them."""
_LARGEST_TOTAL = 2**62
"""Sums of uses stay below this, so that int64 arithmetic never wraps."""


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """Something else that a choice is to have much or little of, in whole numbers.

    Attributes
    ----------
    name
        What it is called.
    worth
        int64 [options]: what every option adds to it; a job that is left out adds nothing.
    sense
        Whether much or little is wanted.
    base
        What it is where every job is left out.
    """

    name: str
    worth: NDArray[np.int64]
    sense: Sense = "maximize"
    base: int = 0

    @classmethod
    def of(cls, name: str, worth: ArrayLike, options: int, sense: Sense = "maximize") -> Goal:
        """Return a goal of checked whole numbers.

        Raises
        ------
        InvalidInstance
            If they are no whole numbers, one an option, or add up to more than 2^52.
        """
        given = np.asarray(worth)
        if given.shape != (options,) or not (
            given.dtype.kind in "iub" or (given.dtype.kind == "f" and bool((given == np.rint(given)).all()))
        ):
            said = f"must be whole numbers, one for each of the {options} options"
            raise InvalidInstance(Problem(f"$.goals.{name}", said))
        if given.size and float(np.abs(given.astype(np.float64)).sum()) > _MOST_GAINED:
            raise InvalidInstance(Problem(f"$.goals.{name}", "adds up to more than 2^52: use a larger unit"))
        if sense not in ("maximize", "minimize"):
            raise InvalidInstance(Problem(f"$.goals.{name}", "its sense must be 'maximize' or 'minimize'"))
        return cls(name, given.astype(np.int64), sense)

    @property
    def gain(self) -> NDArray[np.int64]:
        """What every option adds, the other way round where little is wanted."""
        return self.worth if self.sense == "maximize" else -self.worth

    def gained(self, choice: NDArray[np.int64]) -> int:
        """Return the sum of gains of a choice."""
        total = int(self.worth[choice[choice >= 0]].sum())
        return total if self.sense == "maximize" else -total

    def result(self, gained: int, limit: int | None, seconds: float) -> GoalResult:
        """Return what becomes of it where so much is gained, and at most so much can be."""
        sign = 1 if self.sense == "maximize" else -1
        bound = None if limit is None else self.base + sign * limit
        return GoalResult(self.name, self.sense, self.base + sign * gained, bound, seconds)


class Present(NamedTuple):
    """What jobs have now.

    Attributes
    ----------
    rows
        int64 [jobs]: an option that leaves the job as it is, -1 where there is none.
    running
        bool [jobs]: who runs, although it may not be left as it is.
    current, waiting
        bool [options]: what leaves its job as it is, and what means that its job does not run.
    """

    rows: NDArray[np.int64]
    running: NDArray[np.bool_]
    current: NDArray[np.bool_]
    waiting: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: NDArray[np.int64], waiting: NDArray[np.bool_]) -> Present:
        """Return what jobs have now that have one option each, or none."""
        current = np.zeros(waiting.size, dtype=np.bool_)
        current[rows[rows >= 0]] = True
        return cls(rows, ~np.append(waiting, True)[rows], current, waiting)


@dataclass(frozen=True, slots=True, eq=False)
class MultipleChoiceKnapsack(Ragged):
    """Menus of options as ragged arrays; build one with `from_arrays`.

    Row ``i`` of `values` and `matrix` is an option; the options of job ``j`` are the rows
    ``offsets[j]:offsets[j + 1]``. A *choice* is an int64 array with the chosen row per job, -1 for none.

    Attributes
    ----------
    values
        float64 [options], finite: what an option is worth (or costs, when minimising).
    matrix
        int64 [options, capacities], at least 0: what an option takes of each capacity; sparse where it was
        given so.
    offsets
        int64 [jobs + 1], from 0 to the number of options, never falling.
    capacities
        int64 [capacities], at least 0.
    required
        bool [jobs]: whether the job must get one of its options; otherwise it may be left out, worth 0.
    sense
        ``"maximize"`` or ``"minimize"`` the sum of the chosen values.
    capacity_names
        One name per capacity, used in reports and certificates.
    goals
        What is wanted after the values, in strict order.

    Examples
    --------
    Two jobs share four GPUs; the first wants two or four, the second exactly two.

    >>> model = MultipleChoiceKnapsack.from_arrays(
    ...     values=[3.0, 4.0, 2.0], uses=[2, 4, 2], offsets=[0, 2, 3], capacities=[4]
    ... )
    >>> model.check([0, 2]).objective
    5.0
    >>> [str(violation) for violation in model.check([1, 2]).violations]
    ['capacity[capacity_0]: uses 6 of 4']
    """

    values: NDArray[np.float64]
    matrix: Uses
    offsets: NDArray[np.int64]
    capacities: NDArray[np.int64]
    required: NDArray[np.bool_]
    sense: Sense = "maximize"
    capacity_names: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()

    if TYPE_CHECKING:

        @property
        def _planned(self) -> NDArray[np.int64]: ...

    def __repr__(self) -> str:
        return (
            f"<MultipleChoiceKnapsack: {self.num_jobs} jobs, {self.num_options} options, "
            f"{self.num_capacities} capacities, {self.sense}>"
        )

    @classmethod
    def from_arrays(
        cls,
        values: ArrayLike,
        uses: Any,
        offsets: ArrayLike,
        capacities: ArrayLike,
        required: ArrayLike = True,
        sense: Sense = "maximize",
        capacity_names: Sequence[str] | None = None,
        goals: Sequence[Goal] = (),
    ) -> MultipleChoiceKnapsack:
        """Check the arrays once and keep read-only views of them (nothing is copied if dtypes fit).

        Parameters
        ----------
        values
            float64 [options]; or [options, goals], whose further columns are whole numbers: goals in strict
            order after the first one, in the same sense.
        uses
            int64 [options, capacities], or a `scipy.sparse` array of this shape, which stays sparse: for
            many capacities of which an option uses few. [options] is accepted for one capacity.
        offsets
            int64 [jobs + 1].
        capacities
            int64 [capacities]; a single integer is accepted for one capacity.
        required
            bool [jobs], or one bool for all.
        sense
            ``"maximize"`` or ``"minimize"``.
        capacity_names
            Names of the capacities; ``capacity_0``, ``capacity_1``, ... by default.
        goals
            Goals in strict order after the values, with names.

        Raises
        ------
        InvalidInstance
            If a shape, a dtype or a value is wrong; the message names the array.
        """
        value, further = _goals(values, sense)
        if not np.isfinite(value).all():
            raise _invalid("values", f"row {int(np.argmin(np.isfinite(value)))} is not finite")
        check_sum_of_values(value)
        capacity = _counts("capacities", np.atleast_1d(np.asarray(capacities)), 1)
        use = _uses(uses, alone=capacity.size == 1)
        if use.shape != (value.size, capacity.size):
            raise _invalid(
                "uses",
                f"shape is {use.shape}; expected [options, capacities] = {(value.size, capacity.size)}",
            )
        offset = _counts("offsets", offsets, 1)
        if offset.size == 0 or offset[0] != 0 or offset[-1] != value.size or (np.diff(offset) < 0).any():
            raise _invalid(
                "offsets", f"must rise from 0 to the number of options, {value.size}, without falling"
            )
        num_jobs = offset.size - 1
        need = np.asarray(required)
        if need.dtype != np.bool_ or need.shape not in ((), (num_jobs,)):
            raise _invalid("required", f"must be one bool or one per job ({num_jobs})")
        if sense not in ("maximize", "minimize"):
            raise _invalid("sense", f"must be 'maximize' or 'minimize', not {sense!r}")
        names = (
            tuple(f"capacity_{k}" for k in range(capacity.size))
            if capacity_names is None
            else tuple(capacity_names)
        )
        if len(names) != capacity.size or len(set(names)) != len(names):
            raise _invalid("capacity_names", f"must be {capacity.size} distinct names")
        _check_total(use, num_jobs)
        return cls(
            values=_frozen(value),
            matrix=_frozen_uses(use),
            offsets=_frozen(offset),
            capacities=_frozen(capacity),
            required=_frozen(np.broadcast_to(need, (num_jobs,)).copy()),
            sense=sense,
            capacity_names=names,
            goals=(*further, *goals),
        )

    def with_capacities(self, capacities: NDArray[np.int64]) -> MultipleChoiceKnapsack:
        """Return these menus under other amounts of the capacities, int64 [capacities], which are checked."""
        return replace(self, capacities=_frozen(capacities))

    def under(self, uses: ArrayLike, capacities: ArrayLike, names: Sequence[str]) -> MultipleChoiceKnapsack:
        """Return these menus under other capacities; arrays and errors are those of `from_arrays`."""
        return MultipleChoiceKnapsack.from_arrays(
            self.values,
            uses,
            self.offsets,
            capacities,
            required=self.required,
            sense=self.sense,
            capacity_names=names,
            goals=self.goals,
        )

    def without_capacities(self) -> MultipleChoiceKnapsack:
        """Return these menus where everybody may have anything."""
        return self.under(np.zeros((self.num_options, 0), np.int64), np.zeros(0, np.int64), ())

    def spliced(
        self, splice: Splice, fresh: MultipleChoiceKnapsack, capacities: NDArray[np.int64]
    ) -> MultipleChoiceKnapsack:
        """Return these menus with some jobs gone, come or changed, and other amounts of the capacities.

        These menus are given up: where the fresh ones fit into their place, they are written into the same
        arrays.

        Parameters
        ----------
        splice
            Where every job comes from.
        fresh
            The menus of the fresh jobs, of the same sense and capacities.
        capacities
            int64 [capacities], checked.

        Raises
        ------
        InvalidInstance
            If the uses are so large that their sum over the jobs would overflow.
        """
        parts = self.offsets, fresh.offsets
        if isinstance(self.matrix, np.ndarray) and splice.fits(*parts):
            _check_total(fresh.matrix, self.num_jobs)
            splice.write(self.values, fresh.values, *parts)
            splice.write(self.matrix, fresh.uses, *parts)
            splice.write(self.required, fresh.required)
            for goal, other in zip(self.goals, fresh.goals, strict=True):
                splice.write(goal.worth, other.worth, *parts)
            return replace(self, capacities=_frozen(capacities))
        uses = splice.uses(self.matrix, fresh.matrix, *parts)
        offsets = splice.offsets(*parts)
        _check_total(uses, offsets.size - 1)
        return replace(
            self,
            values=_frozen(splice.rows(self.values, fresh.values, *parts)),
            matrix=_frozen_uses(uses),
            offsets=_frozen(offsets),
            capacities=_frozen(capacities),
            required=_frozen(splice.jobs(self.required, fresh.required)),
            goals=tuple(
                replace(goal, worth=splice.rows(goal.worth, other.worth, *parts))
                for goal, other in zip(self.goals, fresh.goals, strict=True)
            ),
        )

    @property
    def num_capacities(self) -> int:
        """How many capacities the options use."""
        return int(self.capacities.size)

    @property
    def uses(self) -> NDArray[np.int64]:
        """The uses as an array, int64 [options, capacities], which is made where they are sparse."""
        return self.matrix if isinstance(self.matrix, np.ndarray) else dense(self.matrix)

    def uses_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [rows, capacities]: what some options use."""
        found = self.matrix[rows]
        return found if isinstance(found, np.ndarray) else dense(found)

    def paid(self, prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options]: what every option pays at prices of the capacities."""
        return over_columns(self.matrix, prices)

    def objective(self, choice: NDArray[np.int64]) -> float:
        """Return the sum of the chosen values, in the model's sense, off by at most 1e-13 of itself."""
        return accurate_sum(self.values[choice[choice >= 0]])

    def used(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [capacities]: what a choice uses of each capacity."""
        rows = choice[choice >= 0]
        if not isinstance(self.matrix, np.ndarray):
            return total(self.matrix, rows)
        found: NDArray[np.int64] = self.matrix[rows].sum(axis=0, dtype=np.int64)
        return found

    def used_within(self, rows: NDArray[np.int64], room: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return bool [rows]: whether an option by itself uses no more of any capacity than there is room."""
        some = self.matrix[rows]
        if isinstance(some, np.ndarray):
            within: NDArray[np.bool_] = np.all(some <= room, axis=1)
        else:
            over = np.concatenate(([0], np.cumsum(some.data > room[some.indices])))
            within = np.diff(over[some.indptr]) == 0
        return within

    def fits(self, choice: NDArray[np.int64]) -> bool:
        """Return whether a choice of rows in its jobs' menus leaves nobody out and keeps every capacity."""
        if (self.required & (choice < 0)).any():
            return False
        return bool((self.used(choice) <= self.capacities).all())

    def check(self, choice: ArrayLike) -> Report:
        """Check a choice against the model alone; at most twenty violations are listed per rule."""
        chosen = np.asarray(choice)
        if chosen.dtype.kind not in "iu" or chosen.shape != (self.num_jobs,):
            message = f"must be int64 [{self.num_jobs}], is {chosen.dtype} {list(chosen.shape)}"
            return Report(None, (Violation("shape", "choice", message),))
        chosen = chosen.astype(np.int64, copy=False)
        taken = chosen != -1
        foreign = taken & ((chosen < self.offsets[:-1]) | (chosen >= self.offsets[1:]))
        violations = [
            Violation("option", f"job {job}", f"row {chosen[job]} is not in this job's menu")
            for job in np.flatnonzero(foreign)[:20]
        ]
        if violations:
            return Report(None, tuple(violations))
        violations += [
            Violation("required", f"job {job}", "must get one of its options")
            for job in np.flatnonzero(self.required & ~taken)[:20]
        ]
        used = self.used(chosen)
        violations += [
            Violation("capacity", self.capacity_names[k], f"uses {used[k]} of {self.capacities[k]}")
            for k in np.flatnonzero(used > self.capacities)
        ]
        return Report(self.objective(chosen), tuple(violations))


def _goals(raw: ArrayLike, sense: Sense) -> tuple[NDArray[np.float64], list[Goal]]:
    """Return values, and the goals after them where they have columns."""
    given = np.asarray(raw)
    if given.ndim != 2 or not given.shape[1]:
        return _numbers("values", given, 1), []
    columns = range(1, given.shape[1])
    further = [Goal.of(f"goal {k + 1}", given[:, k], len(given), sense) for k in columns]
    return _numbers("values", given[:, 0], 1), further


def _check_total(uses: Uses, num_jobs: int) -> None:
    largest = uses if isinstance(uses, np.ndarray) else uses.data
    if largest.size and float(largest.max()) * max(num_jobs, 1) >= _LARGEST_TOTAL:
        raise _invalid("uses", "are so large that their sum over the jobs would overflow 64-bit integers")


def _uses(raw: Any, alone: bool) -> Uses:
    if hasattr(raw, "tocsr"):
        given = raw.tocoo()  # as it was given: entries that stand twice are not added up yet
        _check_counts("uses", given, given.data, 2)
        found = sparse(given)
        if found.nnz < given.nnz and float(given.data.sum(dtype=np.float64)) >= _LARGEST_TOTAL:
            raise _invalid("uses", "hold entries twice that may add up beyond 64-bit integers")
        return found
    array = np.asarray(raw)
    return _counts("uses", array.reshape(-1, 1) if alone and array.ndim == 1 else array, 2)


def _invalid(name: str, message: str) -> InvalidInstance:
    return InvalidInstance(Problem(f"$.{name}", message))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _frozen_uses(uses: Uses) -> Uses:
    if isinstance(uses, np.ndarray):
        return _frozen(uses)
    for part in (uses.data, uses.indices, uses.indptr):
        part.flags.writeable = False
    return uses


def _numbers(name: str, raw: ArrayLike, ndim: int) -> NDArray[np.float64]:
    array = np.asarray(raw)
    if array.dtype.kind not in "fiu" or array.ndim != ndim:
        raise _invalid(name, f"must be numbers in {ndim} dimension(s), not {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _check_counts(name: str, given: Any, numbers: NDArray[Any], ndim: int) -> None:
    """Check the form of an array, dense or sparse, and the numbers that it holds."""
    if given.dtype.kind not in "iu" or given.ndim != ndim:
        raise _invalid(
            name, f"must be integers in {ndim} dimension(s), not {given.dtype} {list(given.shape)}"
        )
    if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) >= _LARGEST_TOTAL):
        raise _invalid(name, "must be at least 0 and below 2**62")


def _counts(name: str, raw: ArrayLike, ndim: int) -> NDArray[np.int64]:
    array = np.asarray(raw)
    if array.size == 0:
        array = array.astype(np.int64)
    _check_counts(name, array, array, ndim)
    return np.ascontiguousarray(array, dtype=np.int64)
