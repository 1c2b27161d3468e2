"""The multiple-choice knapsack: each job picks one option from its menu; options use capacities.

With one capacity it is the MCKP, with several the MMKP of Kellerer, Pferschy and Pisinger, *Knapsack
Problems* (Springer, 2004), chapter 11. Menus are ragged arrays, never lists of objects.

Ragged menus put together from earlier and freshly compiled ones, so that only changed menus cost time.

Where every menu keeps its length, the fresh ones are written into the arrays of the earlier ones, which are
given up to them; else what stays is copied, one run of memory after the other.

Menus of unlike lengths in one array: what every model that keeps them so can say of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.outcome import Report, Violation
from apportion.models.exact_sums import accurate_sum, over_columns
from apportion.models.uses import dense, joined, sparse, total

if TYPE_CHECKING:
    from apportion.models.uses import Uses

__all__ = ["MultipleChoiceKnapsack", "Ragged", "Sense", "Splice", "check_sum_of_values", "difference"]


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


_T = TypeVar("_T")
_BLOCK = 512
"""Jobs compared at once: the same object is equal without a look at its content."""


@dataclass(frozen=True, slots=True, eq=False)
class Splice:
    """Where the jobs of new menus come from.

    Attributes
    ----------
    runs
        Runs of jobs, in the order of the new menus: whether they are fresh, the first one's position among
        the earlier or the fresh jobs, and one past the last one's.
    fresh
        Positions of the fresh jobs among the new ones.
    """

    runs: tuple[tuple[bool, int, int], ...]
    fresh: tuple[int, ...]

    def fits(self, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]) -> bool:
        """Return whether every job has a menu where one of the same length was: nothing has to move."""
        at = 0
        for new, first, last in self.runs:
            sizes = np.diff(earlier_offsets[at : at + last - first + 1]) if new else None
            if (
                first != at
                if sizes is None
                else not np.array_equal(sizes, _sizes(fresh_offsets, first, last))
            ):
                return False
            at += last - first
        return at == earlier_offsets.size - 1

    def write(
        self,
        earlier: NDArray[Any],
        fresh: NDArray[Any],
        earlier_offsets: NDArray[np.int64] | None = None,
        fresh_offsets: NDArray[np.int64] | None = None,
    ) -> None:
        """Write the fresh part of an array where it fits.

        The array has one entry per option; without offsets, one per job.
        """
        target, at = earlier.view(), 0
        target.flags.writeable = True
        for new, first, last in self.runs:
            end = at + last - first
            if new and (earlier_offsets is None or fresh_offsets is None):
                target[at:end] = fresh[first:last]
            elif new and earlier_offsets is not None and fresh_offsets is not None:
                rows = slice(int(fresh_offsets[first]), int(fresh_offsets[last]))
                target[int(earlier_offsets[at]) : int(earlier_offsets[end])] = fresh[rows]
            at = end

    def jobs(self, earlier: NDArray[Any], fresh: NDArray[Any]) -> NDArray[Any]:
        """Return an array with one entry per job of the new menus."""
        parts = [(fresh if new else earlier)[first:last] for new, first, last in self.runs]
        return np.concatenate(parts) if parts else earlier[:0]

    def spliced_list(self, earlier: list[_T], fresh: list[_T]) -> list[_T]:
        """Return a list with one entry per job of the new menus."""
        found: list[_T] = []
        for new, first, last in self.runs:
            found += (fresh if new else earlier)[first:last]
        return found

    def rows(
        self,
        earlier: NDArray[Any],
        fresh: NDArray[Any],
        earlier_offsets: NDArray[np.int64],
        fresh_offsets: NDArray[np.int64],
    ) -> NDArray[Any]:
        """Return an array with one entry per option of the new menus."""
        parts = self._parts(earlier, fresh, earlier_offsets, fresh_offsets)
        return np.concatenate(parts) if parts else earlier[:0]

    def uses(
        self, earlier: Uses, fresh: Uses, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]
    ) -> Uses:
        """Return the uses of the new menus, sparse where the earlier ones are."""
        parts = self._parts(earlier, fresh, earlier_offsets, fresh_offsets)
        return joined([earlier[:0], *parts])

    def _parts(
        self, earlier: Any, fresh: Any, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]
    ) -> list[Any]:
        parts = list[Any]()
        for new, first, last in self.runs:
            offsets = fresh_offsets if new else earlier_offsets
            parts.append((fresh if new else earlier)[int(offsets[first]) : int(offsets[last])])
        return parts

    def offsets(
        self, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the offsets of the new menus."""
        sizes = self.jobs(np.diff(earlier_offsets), np.diff(fresh_offsets))
        offsets = np.zeros(sizes.size + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return offsets


def difference(earlier: Sequence[Any], now: Sequence[Any], stale: NDArray[np.bool_] | None = None) -> Splice:
    """Return which jobs are the same objects as before, and where they were.

    Parameters
    ----------
    earlier, now
        The jobs before and now; frozen objects, so that the same one means the same menu.
    stale
        bool [earlier jobs]: whose menus are to be compiled again although the job is the same.
    """
    if stale is not None and stale.any():
        earlier = [None if old else job for job, old in zip(earlier, stale.tolist(), strict=True)]
    earlier, now = tuple(earlier), tuple(now)
    start = _common(earlier, now)
    end = min(_common(earlier[::-1], now[::-1]), len(earlier) - start, len(now) - start)
    runs: list[tuple[bool, int, int]] = [(False, 0, start)] if start else []
    fresh: list[int] = []
    known = {id(earlier[position]): position for position in range(start, len(earlier) - end)}
    for position in range(start, len(now) - end):
        old = known.get(id(now[position]))
        if old is None:
            old, new = len(fresh), True
            fresh.append(position)
        else:
            new = False
        if runs and runs[-1][0] == new and runs[-1][2] == old:
            runs[-1] = (new, runs[-1][1], old + 1)
        else:
            runs.append((new, old, old + 1))
    if end:
        runs.append((False, len(earlier) - end, len(earlier)))
    return Splice(tuple(runs), tuple(fresh))


def _common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return how many leading jobs are the same; blocks of them are compared at once."""
    at, shorter = 0, min(len(first), len(second))
    while at < shorter and first[at : at + _BLOCK] == second[at : at + _BLOCK]:
        at += _BLOCK
    block = slice(at, at + _BLOCK)
    differing = compress(count(at), map(is_not, first[block], second[block]))
    return min(next(differing, shorter), shorter)


def _sizes(offsets: NDArray[np.int64], first: int, last: int) -> NDArray[np.int64]:
    return np.diff(offsets[first : last + 1])


Sense = Literal["maximize", "minimize"]

_LARGEST_TOTAL = 2**62
"""Sums of uses stay below this, so that int64 arithmetic never wraps."""


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
    ) -> MultipleChoiceKnapsack:
        """Check the arrays once and keep read-only views of them (nothing is copied if dtypes fit).

        Parameters
        ----------
        values
            float64 [options].
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

        Raises
        ------
        InvalidInstance
            If a shape, a dtype or a value is wrong; the message names the array.
        """
        value = _numbers("values", values, 1)
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
        )

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
