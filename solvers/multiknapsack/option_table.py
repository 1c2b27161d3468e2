"""The search form of a knapsack: maximising, every job takes exactly one option, hopeless options gone.

An optional job gets an explicit *none* option worth 0 that uses nothing, so that everything below this file
deals with one rule only. Uses are kept in float64 (exact below 2**53) because every hot loop is a product
with multipliers; whether a choice fits is decided in int64 by the engine. Where capacities are many, options
too, and an option uses few of them, uses are a `scipy.sparse.csc_array`. Dominated and hopeless options can
be left out before searching. The best choice so far is checked in integers before it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.models.exact_sums import over_rows
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Ragged
from apportion.models.uses import dense
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.general.points import BestFound

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from apportion.models.uses import Uses

    Matrix = NDArray[np.float64] | csc_array[np.float64]

__all__ = [
    "EQUAL",
    "ChoiceIncumbent",
    "OptionTable",
    "among_least",
    "bound_at",
    "build",
    "in_columns",
    "noise",
    "reachable",
]


_SHORT, _MANY = 16, 30
"""Length up to which menus are gone through place by place, as numpy takes longer over short rows; and how
many there are then for every place of one, or the calls cost more than they spare."""
_MANY_CAPACITIES = 7
"""Capacities above which a dense master's work grows beyond that of a simplex,"""
_DENSITY, _CELLS = 0.4, 500_000
"""where no more than this part of the uses is not 0, and cells from which on uses are kept sparse then."""
_MANY_ALIKE, _MANY_USES, _CELLS_READ = 60, 6, 4_000_000
"""Capacities above which few bind where an option uses so many; uses that are read to tell their sets."""


@dataclass(frozen=True, slots=True, eq=False)
class OptionTable(Ragged):
    """Menus in search form.

    Attributes
    ----------
    values
        float64 [options], to be maximised.
    matrix
        Uses, float64 [capacities, options]: an array contiguous per capacity, or a sparse one.
    offsets
        int64 [jobs + 1]; no menu is empty.
    job
        int64 [options]: the job of each option.
    rows
        int64 [options]: the row in the model, -1 for *none*.
    capacities
        float64 [capacities]: only those that could be exceeded at all.
    binding
        int64 [capacities]: which of the model's capacities they are.
    width
        The length of every menu where all are equally long, else ``None``.
    """

    values: NDArray[np.float64]
    matrix: Matrix
    offsets: NDArray[np.int64]
    job: NDArray[np.int64]
    rows: NDArray[np.int64]
    capacities: NDArray[np.float64]
    binding: NDArray[np.int64]
    width: int | None = None

    @property
    def num_capacities(self) -> int:
        """How many capacities can be exceeded."""
        return int(self.capacities.size)

    @property
    def uses(self) -> NDArray[np.float64]:
        """Uses as an array, float64 [capacities, options], which is made where they are sparse."""
        return self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.toarray()

    @property
    def is_sparse(self) -> bool:
        """Whether uses are kept sparse."""
        return not isinstance(self.matrix, np.ndarray)

    @property
    def has_sparse_rows(self) -> bool:
        """Whether there are many capacities of which an option uses few."""
        if self.num_capacities <= _MANY_CAPACITIES:
            return False
        return self.num_entries <= _DENSITY * self.num_capacities * self.num_options

    @property
    def few_bind(self) -> bool:
        """Whether capacities are many, and options use few different sets of many: limits of sets of tenants.

        Of periods every option uses a set of its own. Random sums tell sets apart.
        """
        if self.num_capacities <= _MANY_ALIKE or self.num_entries < _MANY_USES * self.num_options:
            return False
        stride = 1 + self.num_options * self.num_capacities // _CELLS_READ
        used = self._columns(np.arange(0, self.num_options, stride)) != 0
        sums = np.random.default_rng(0).integers(1, 2**30, self.num_capacities) @ used
        return bool(np.unique(np.asarray(sums)).size < self.num_capacities)

    @property
    def num_entries(self) -> int:
        """How many uses are not 0."""
        return int(np.count_nonzero(self.matrix) if isinstance(self.matrix, np.ndarray) else self.matrix.nnz)

    def entries_of(self, chosen: NDArray[np.bool_]) -> int:
        """Return how many uses of some options are not 0."""
        if isinstance(self.matrix, np.ndarray):
            return int(np.count_nonzero(self.matrix[:, chosen]))
        return int(np.diff(self.matrix.indptr)[chosen].sum())

    def dense(self) -> OptionTable:
        """Return the menus with their uses as an array."""
        return replace(self, matrix=self.uses) if self.is_sparse else self

    def keep(self, mask: NDArray[np.bool_]) -> OptionTable:
        """Return the menus with only the options of `mask`; jobs stay, and may become empty."""
        index = np.flatnonzero(mask)
        job = self.job[index]
        offsets = _offsets(np.bincount(job, minlength=self.num_jobs))
        kept = self.values[index], self._columns(index), offsets, job, self.rows[index]
        return OptionTable(*kept, self.capacities, self.binding)

    def under(self, kept: NDArray[np.bool_]) -> OptionTable:
        """Return the menus under some of the capacities only, bool [capacities]."""
        capacities, binding = self.capacities[kept], self.binding[kept[: self.binding.size]]
        return replace(self, matrix=self.matrix[kept], capacities=capacities, binding=binding)

    def part(self, jobs: NDArray[np.int64], capacities: NDArray[np.float64]) -> OptionTable:
        """Return the menus of some jobs, in their order (rising), under other capacities."""
        chosen = np.zeros(self.num_jobs, dtype=np.bool_)
        chosen[jobs] = True
        index = np.flatnonzero(chosen[self.job])
        sizes = np.diff(self.offsets)[jobs]
        return OptionTable(
            self.values[index],
            self._columns(index),
            _offsets(sizes),
            np.repeat(np.arange(jobs.size, dtype=np.int64), sizes),
            index,
            capacities,
            self.binding,
        )

    def every(self, stride: int) -> OptionTable:
        """Return the menus of one in so many jobs, under their share of the capacities."""
        jobs = np.arange(0, self.num_jobs, stride)
        return self.part(jobs, self.capacities * (jobs.size / self.num_jobs))

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return capacity, option and use of everything that is used, capacity by capacity."""
        begins, option, use = self.by_capacity()
        return np.repeat(np.arange(self.num_capacities), np.diff(begins)), option.astype(np.int64), use

    def by_capacity(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
        """Return where each capacity's part begins of the options that use it, and of what they use."""
        if isinstance(self.matrix, np.ndarray):
            at = np.flatnonzero(self.matrix.ravel() != 0.0)
            capacity, option = np.divmod(at, max(1, self.num_options))
            begins = np.searchsorted(capacity, np.arange(self.num_capacities + 1))
            return begins, option, self.matrix.ravel()[at]
        rows = self.matrix.tocsr()
        return rows.indptr, rows.indices, rows.data

    def entries_by_option(
        self, options: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return capacity, option (its place among those given, if any are) and use, option by option."""
        matrix = self.matrix if options is None else self._columns(options)
        if isinstance(matrix, np.ndarray):
            option, capacity = np.nonzero(matrix.T)
            return capacity, option, matrix[capacity, option]
        option = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
        return matrix.indices.astype(np.int64), option, matrix.data

    def _columns(self, options: NDArray[np.int64]) -> Matrix:
        if isinstance(self.matrix, np.ndarray):
            return self.matrix.take(options, axis=1)
        return self.matrix[:, options]

    def uses_of(self, options: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [capacities, options]: what some options use."""
        found = self._columns(options)
        return found if isinstance(found, np.ndarray) else found.toarray()

    def within(
        self, room: NDArray[np.float64], options: NDArray[np.int64] | None = None
    ) -> NDArray[np.bool_]:
        """Return bool [options], of some or all: whether each by itself uses no more than there is room."""
        found = np.ones(self.num_options if options is None else options.size, dtype=np.bool_)
        found[self.above(room, options)[1]] = False
        return found

    def used(self, choice: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [capacities]: what a choice (one option index per job) uses."""
        return np.asarray(self._columns(choice).sum(axis=1), dtype=np.float64)

    def paid(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options]: the price of what an option uses."""
        return over_rows(weights, self.matrix)

    @property
    def greatest_use(self) -> float:
        """The greatest use of any capacity."""
        matrix = self.matrix
        return float((matrix if isinstance(matrix, np.ndarray) else matrix.data).max(initial=0.0))

    def above(
        self, amounts: NDArray[np.float64], options: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return capacity and option of every use, of some or all options, that exceeds an amount."""
        matrix = self.matrix if options is None else self._columns(options)
        if isinstance(matrix, np.ndarray):
            capacity, option = np.nonzero(matrix > amounts[:, None])
            return capacity, option
        at = np.flatnonzero(matrix.data > amounts[matrix.indices])
        return matrix.indices[at], np.searchsorted(matrix.indptr, at, side="right") - 1

    def with_rows(
        self, rows: list[tuple[NDArray[np.int64], NDArray[np.float64]]], capacities: NDArray[np.float64]
    ) -> OptionTable:
        """Return the menus under further rows, each as options and what they use, and amounts of all."""
        if not rows:
            return replace(self, capacities=capacities)
        option, use = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        begins = _offsets(np.array([own.size for own, _ in rows]))
        if isinstance(self.matrix, np.ndarray):
            below = np.zeros((len(rows), self.num_options))
            below[np.repeat(np.arange(len(rows)), np.diff(begins)), option] = use
            return replace(self, matrix=np.vstack((self.matrix, below)), capacities=capacities)
        from scipy.sparse import csr_array

        own = self.matrix.tocsr()  # scipy stacks such arrays by sorting all entries
        indptr = np.concatenate((own.indptr, own.indptr[-1] + begins[1:]))
        entries = np.concatenate((own.data, use)), np.concatenate((own.indices, option)), indptr
        matrix = csr_array(entries, shape=(indptr.size - 1, self.num_options)).tocsc()
        return replace(self, matrix=matrix, capacities=capacities)

    def largest(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [jobs]: the largest score of each menu."""
        return self._outermost(np.maximum, scores)

    def smallest(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [jobs]: the smallest score of each menu."""
        return self._outermost(np.minimum, scores)

    def _outermost(self, outer: np.ufunc, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the larger, or smaller, of all scores of each menu: of many short menus place by place."""
        width = self.width
        if width is None or width > _SHORT or self.num_jobs < _MANY * width:
            return np.asarray(outer.reduceat(scores, self.offsets[:-1]), dtype=np.float64)
        found = scores[::width].copy()
        for place in range(1, width):
            outer(found, scores[place::width], out=found)
        return found

    def per_option(self, per_job: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options]: each job's entry repeated over its menu."""
        return np.repeat(per_job, self.width) if self.width is not None else per_job[self.job]

    def first_at(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return int64 [jobs]: the first option of each menu where `mask` holds (it must hold somewhere)."""
        index = np.flatnonzero(mask)
        job = self.job[index]
        first = np.ones(index.size, dtype=np.bool_)
        first[1:] = job[1:] != job[:-1]
        return index[first]

    def best_choice(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return int64 [jobs]: the option of the largest score in each menu, the first among equals."""
        if self.width is not None:
            wide: NDArray[np.int64] = scores.reshape(-1, self.width).argmax(axis=1) + self.offsets[:-1]
            return wide
        return self.first_at(scores == self.largest(scores)[self.job])

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options]: what an option is worth beyond the price of what it uses."""
        return self.values - self.paid(weights)

    def loss(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options] >= 0: how far below its menu's best an option is at these multipliers."""
        scores = self.scores(weights)
        return self.per_option(self.largest(scores)) - scores

    def locate(self, chosen_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [jobs]: where the model's rows stand here, -1 for a row that is not here."""
        place = np.full(self.num_jobs, -1, dtype=np.int64)
        hit = np.flatnonzero(self.rows == chosen_rows[self.job])
        place[self.job[hit]] = hit
        return place

    def restrict(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the entries of the model's multipliers that concern the capacities here."""
        return np.maximum(multipliers[self.binding], 0.0)

    def expand(self, weights: NDArray[np.float64], num_capacities: int) -> NDArray[np.float64]:
        """Return multipliers for all the model's capacities, 0 for those that cannot be exceeded."""
        full = np.zeros(num_capacities)
        full[self.binding] = weights[: self.binding.size]
        return full


def build(model: MultipleChoiceKnapsack) -> OptionTable | None:
    """Bring a model into search form; ``None`` proves that it has no feasible choice.

    An option goes if, with every other job at its smallest use, it breaks a capacity. This is repeated while
    it removes something; a required job with an empty menu, or smallest uses that do not fit, is the proof.
    Capacities that even the largest uses respect go as well.
    """
    values = model.values if model.sense == "maximize" else -model.values
    num_jobs, num_caps = model.num_jobs, model.num_capacities
    sizes = np.diff(model.offsets)
    optional = ~model.required
    counts = sizes + optional
    if (counts == 0).any():
        return None
    width = int(counts[0]) if num_jobs and (counts == counts[0]).all() else None
    offsets = _offsets(counts)
    job = np.repeat(np.arange(num_jobs, dtype=np.int64), counts)
    total = int(offsets[-1])
    capacities = model.capacities.astype(np.float64)
    everything = np.arange(num_caps, dtype=np.int64)
    # *none* stands first in its menu: among equals the job that stays out costs no capacity.
    rows, value = np.full(total, -1, dtype=np.int64), np.zeros(total)
    real = np.ones(total, dtype=np.bool_)
    real[offsets[:-1][optional]] = False
    rows[real] = np.arange(model.num_options)
    value[real] = values
    if _kept_sparse(model):
        from scipy.sparse import csr_array

        matrix = in_columns(csr_array(model.matrix), real)
    elif width is not None and optional.all():
        matrix, blocks = np.empty((num_caps, total)), model.uses.reshape(num_jobs, width - 1, num_caps)
        for k in range(num_caps):
            menu = matrix[k].reshape(num_jobs, width)
            menu[:, 0], menu[:, 1:] = 0.0, blocks[:, :, k]
    else:
        matrix = in_columns(model.uses, real)
    menus = OptionTable(value, matrix, offsets, job, rows, capacities, everything, width)
    if num_jobs == 0:
        return menus
    return _without_misfits(menus)


def _kept_sparse(model: MultipleChoiceKnapsack) -> bool:
    """Return whether uses are sparse enough to be kept so, and many enough to gain by it."""
    cells = model.num_options * model.num_capacities
    if model.num_capacities <= _MANY_CAPACITIES or cells < _CELLS:
        return False
    matrix = model.matrix
    entries = int(np.count_nonzero(matrix) if isinstance(matrix, np.ndarray) else matrix.nnz)
    return entries <= _DENSITY * cells


def in_columns(uses: Uses, real: NDArray[np.bool_]) -> Matrix:
    """Return uses, float64 [capacities, options], 0 where not `real`; sparse where there are many."""
    shape = uses.shape[1], real.size
    if isinstance(uses, np.ndarray) or uses.shape[1] <= _MANY_CAPACITIES:
        rows = uses if isinstance(uses, np.ndarray) else dense(uses)
        found = np.zeros(shape)
        found[:, slice(None) if real.all() else real] = rows.T
        return found
    from scipy.sparse import csc_array

    sizes = np.zeros(real.size, dtype=np.int64)
    sizes[real] = np.diff(uses.indptr)
    begins = _offsets(sizes).astype(uses.indptr.dtype)
    return csc_array((uses.data.astype(np.float64), uses.indices, begins), shape=shape)


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _without_misfits(menus: OptionTable) -> OptionTable | None:
    while True:
        found = (_misfits_of_sparse if menus.is_sparse else _misfits)(menus)
        if found is None:
            return None
        fits, binding = found
        if fits is None:
            break
        menus = menus.keep(fits)
        if (np.diff(menus.offsets) == 0).any():
            return None
    return menus if binding.all() else menus.under(binding)


_Fits = tuple[NDArray[np.bool_] | None, NDArray[np.bool_]]


def _misfits(menus: OptionTable) -> _Fits | None:
    """Return which options can fit, ``None`` for all of them, and which capacities could be exceeded.

    ``None`` alone where not even the smallest uses fit.
    """
    fits: NDArray[np.bool_] | None = None
    binding = np.zeros(menus.num_capacities, dtype=np.bool_)
    for k in range(menus.num_capacities):
        use = menus.uses[k]
        least = menus.smallest(use)
        spare = menus.capacities[k] - least.sum()
        if spare < 0:
            return None
        most = menus.largest(use)
        binding[k] = most.sum() > menus.capacities[k]
        if (most - least).max() > spare:
            good = use - menus.per_option(least) <= spare
            fits = good if fits is None else fits & good
    return fits, binding


def _misfits_of_sparse(menus: OptionTable) -> _Fits | None:
    """Return the same by the entries: a job's smallest use is none where one of its options uses nothing."""
    capacity, option, use = menus.entries()
    caps, whose = menus.num_capacities, menus.job[option]
    if not use.size:
        return None, np.zeros(caps, dtype=np.bool_)
    begins = np.flatnonzero((np.diff(capacity, prepend=-1) != 0) | (np.diff(whose, prepend=-1) != 0))
    sizes = np.diff(np.append(begins, use.size))
    by_all = sizes == np.diff(menus.offsets)[whose[begins]]
    least = np.where(by_all, np.minimum.reduceat(use, begins), 0.0)
    spare = menus.capacities - np.bincount(capacity[begins], weights=least, minlength=caps)
    if (spare < 0.0).any():
        return None
    most = np.bincount(capacity[begins], weights=np.maximum.reduceat(use, begins), minlength=caps)
    fits = None
    out = use - np.repeat(least, sizes) > spare[capacity]
    if out.any():
        fits = np.ones(menus.num_options, dtype=np.bool_)
        fits[option[out]] = False
    return fits, most > menus.capacities


EQUAL = 5e-10
"""Relative difference of values that counts as none: half of what is called optimal."""


class ChoiceIncumbent(BestFound[NDArray[np.int64]]):
    """The incumbent of one solve call; its point is the chosen row of every job, -1 for none.

    Parameters
    ----------
    model
        The model whose rows choices name.
    options
        For `gap` and `on_incumbent`.
    clock
        For the seconds reported.

    Attributes
    ----------
    step
        The step of the grid on which all objectives lie, 0 where none is known.
    """

    def __init__(self, model: MultipleChoiceKnapsack, options: SolveOptions, clock: Clock) -> None:
        super().__init__(model.sense == "maximize", options, clock)
        self._model = model
        self.step = 0.0

    def of_a_part(self) -> Self:
        """Return one without a choice that nobody hears of, for a search among some of the options."""
        other = type(self)(self._model, SolveOptions(gap=self._gap), self._clock)
        other.step = self.step
        return other

    @property
    def value(self) -> float | None:
        """The incumbent's value, maximising."""
        return None if self.objective is None else self.sign * self.objective

    def distance_to(self, bound: float) -> float:
        """Return how far the incumbent is below a bound, maximising; infinity without one."""
        value = self.value
        return np.inf if value is None else bound - value

    @property
    def floor(self) -> float | None:
        """The least value of interest, maximising: one step above the incumbent, or `EQUAL` of it."""
        value = self.value
        if value is None:
            return None
        return value + (self.step if self.step > 0 else EQUAL * abs(value))

    @property
    def proven(self) -> bool:
        """Whether nothing better can exist by the bound and the grid of values."""
        floor = self.floor
        if floor is None or self.bound is None:
            return False
        ceiling = self.sign * self.bound
        return ceiling < floor - 0.5 * self.step if self.step > 0 else ceiling <= floor

    @property
    def seen_by_highs(self) -> bool:
        """Whether HiGHS, whose objectives are off by its tolerances, sees a step beyond the incumbent."""
        return self.value is not None and self.step > 2.0 * HIGHS_ERROR * abs(self.value)

    @property
    def close(self) -> bool:
        """Whether the relative gap asked for is reached."""
        return self.objective is not None and self.closes(self.objective)

    def among(self, menus: OptionTable) -> NDArray[np.int64] | None:
        """Return int64 [jobs], the incumbent's options of some menus, ``None`` where one is missing."""
        if self.point is None:
            return None
        place = menus.locate(self.point)
        return place if bool((place >= 0).all()) else None

    def fits(self, rows: NDArray[np.int64]) -> bool:
        """Return whether a choice of rows serves every required job and keeps every capacity."""
        return self._model.fits(rows)

    def values_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of the rows that are chosen, maximising."""
        return self.sign * self._model.values[rows[rows >= 0]]

    def under_all(self, menus: OptionTable) -> tuple[OptionTable, NDArray[np.bool_]]:
        """Return menus under every capacity, of which these may have some only, and which they have."""
        return menus, np.ones(menus.num_capacities, dtype=np.bool_)

    def ends(self, rows: NDArray[np.int64]) -> bool:
        """Return whether a choice would reach the relative gap asked for."""
        return self.closes(self._model.objective(rows))

    def take(self, rows: NDArray[np.int64]) -> bool:
        """Keep and report a choice of rows if it is feasible and better; return whether it was kept."""
        return self.fits(rows) and self.offer(rows, self._model.objective(rows))


def reachable(
    menus: OptionTable, weights: NDArray[np.float64], bound: float, floor: float
) -> NDArray[np.bool_]:
    """Return bool [options]: those that a choice worth at least `floor` can contain (reduced-cost fixing).

    A choice with option i is worth at most ``L(lambda) - loss_i``. L and the losses are sums of products in
    float64: `noise` bounds what they are off by.
    """
    slack = bound - floor + 1e-9 * abs(bound) + noise(menus, weights)
    found: NDArray[np.bool_] = menus.loss(weights) <= max(slack, 0.0)
    return found


def among_least(losses: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Return bool [losses]: the so many least ones, and those equal to the last of them."""
    if count >= losses.size:
        return np.ones(losses.size, dtype=np.bool_)
    found: NDArray[np.bool_] = losses <= np.partition(losses, count - 1)[count - 1]
    return found


def bound_at(menus: OptionTable, weights: NDArray[np.float64]) -> float:
    """Return L(weights) over all the options of the menus."""
    if menus.num_jobs == 0:
        return float(weights @ menus.capacities)
    scores = menus.scores(weights)
    return float(weights @ menus.capacities + menus.largest(scores).sum())


def noise(menus: OptionTable, weights: NDArray[np.float64]) -> float:
    """Return an upper bound on the rounding error of the Lagrangian bound at multipliers, and of losses.

    A score is a sum of ``K + 1`` terms and off by at most ``(K + 2) eps / 2`` of their magnitudes, a loss by
    twice that; over the jobs they add up, and the sum over jobs adds ``log2(n)`` roundings (numpy adds in
    pairs). The magnitudes are those of each menu's largest option.
    """
    size = np.abs(menus.values) + menus.paid(weights)
    total = float(menus.largest(size).sum()) + float(weights @ menus.capacities)
    roundings = 2.0 * (menus.num_capacities + 2) + float(np.log2(menus.num_jobs + 1)) + 4.0
    return roundings * 2.0**-52 * total
