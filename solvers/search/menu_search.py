"""Exact search over menus: rows of several multiplier vectors, jobs ordered, vectors fitted.

The first vector is that of the linear relaxation; others are drawn around it, because a vector that is a
little off at the root is often the better bound deep in the tree, where little is left of some capacity and
much of another. Whenever the tree has grown past a limit that rises geometrically, vectors are fitted to the
place the search has reached (the linear relaxation of what is open there), and the search begins again with
more rows and a higher floor. So the last tree alone is the proof: one order, one set of vectors, one floor.

The search is run on rows of whole numbers. For whole multipliers Lambda >= 0 in units of 1/P of a unit of
worth, weak duality says of every choice that keeps the capacities

    P worth  <=  Lambda . C + sum_j best_j - sum_j loss_j,   best_j = max_i (P w_ji - Lambda . u_ji)

with ``loss_j >= 0`` the distance of the chosen option from the best of its menu. So a choice worth at least
``floor + 1`` loses at most ``Lambda . C + sum_j best_j - P (floor + 1)`` in all: that is a row. Everything
is computed in whole numbers below 2**62; where a budget exceeds 30 bits, budget and costs are shifted to the
right and rounded down, which can only let more choices pass: ``sum floor(c / 2**s) <= floor(budget / 2**s)``.

Values are exact where 62 bits hold them, and rounded up where they do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.depth_first import LARGEST, DepthFirst, Status
from apportion.solvers.search.slices import Crew, SideBySide

__all__ = [
    "LARGEST_WORTH",
    "Bounds",
    "MenuSearch",
    "Record",
    "ScaledMenus",
    "Settings",
    "Unit",
    "bounds",
    "power_of",
    "unit_of",
    "whole_multipliers",
]


LARGEST_WORTH = 2**60
"""No choice's worth reaches this, whichever option every job takes."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one unit of worth is in units of value.

    Attributes
    ----------
    size
        Positive.
    exact
        Whether every value is a whole number of units. Otherwise worths are rounded up.
    """

    size: Fraction
    exact: bool

    def worths(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return int64 [options]: every value in units, rounded up unless exact."""
        if self.size.numerator == 1 or self.size.denominator == 1:
            shift = _power(self.size)
            if shift is not None:
                whole = np.ceil(np.ldexp(values, -shift))
                # a value that underflows on the way is still worth more than nothing
                return np.where(values > 0, np.maximum(whole, 1.0), whole).astype(np.int64)
        return np.rint(values / float(self.size)).astype(np.int64)

    def floor(self, values: NDArray[np.float64]) -> int:
        """Return the largest number of units that the sum of some values surely reaches."""
        # what is worth less than all that is searched may be beyond 64 bits
        if self.exact and float(np.abs(values).sum()) < LARGEST_WORTH * float(self.size):
            return int(self.worths(values).sum())
        return math.floor(sum(map(Fraction, values.tolist()), Fraction(0)) / self.size)


def _power(size: Fraction) -> int | None:
    """Return the exponent of a power of two, ``None`` for any other number."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if Fraction(2) ** exponent == size else None


def unit_of(values: NDArray[np.float64], jobs: int, step: float) -> Unit:
    """Choose the unit in which the values of a knapsack are counted.

    Parameters
    ----------
    values
        float64 [options], finite.
    jobs
        How many values a choice adds up at most.
    step
        All sums of values are multiples of this (they may miss it by rounding, as 0.1 does); 0 if none is
        known.

    Returns
    -------
    Unit
        `step` where it is small enough; else the power of two that divides every value, where sums stay
        below 2**60; else the smallest power of two for which they do, with worths rounded up.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if step > 0 and largest / step * jobs < LARGEST_WORTH / 4:
        tens = (10**d for d in range(4) if 0 < round(step * 10**d) == round(step * 10**d, 6))
        ten = next(tens, None)  # none of whole numbers that a power of two has scaled: these are exact
        return Unit(Fraction(step) if ten is None else Fraction(round(step * ten), ten), True)
    if largest == 0.0:
        return Unit(Fraction(1), True)
    # A sum of `jobs` values below 2**top is below 2**(top + bits of jobs); keep that below 2**60.
    top = math.frexp(largest)[1]
    least = top + max(1, jobs).bit_length() - 60
    mantissas, exponents = np.frexp(values[values != 0.0])
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    zeros = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    finest = int((exponents.astype(np.int64) - 53 + zeros).min())
    return Unit(Fraction(2) ** max(finest, least), finest >= least)


_TOTAL = 2.0**60
"""Totals estimated in float64 stay below this, so that the whole ones stay below 2**61."""
_FINEST = 40
"""P is at most 2 to this power: multipliers need no more digits."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaledMenus:
    """Menus in whole numbers; every job takes exactly one option.

    Attributes
    ----------
    worth
        int64 [options], to be maximised.
    uses
        int64 [capacities, options], at least 0.
    offsets
        int64 [jobs + 1]; no menu is empty.
    capacities
        int64 [capacities].
    """

    worth: NDArray[np.int64]
    uses: NDArray[np.int64]
    offsets: NDArray[np.int64]
    capacities: NDArray[np.int64]

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return int(self.offsets.size - 1)

    def spread(self, per_job: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [options, ...]: each job's entry repeated over its menu."""
        return np.repeat(per_job, np.diff(self.offsets), axis=-1)

    def take(self, options: NDArray[np.int64], sizes: NDArray[np.int64]) -> ScaledMenus:
        """Return menus of the given options; the first `sizes[0]` are those of the first job, and so on."""
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        uses = np.ascontiguousarray(self.uses.take(options, axis=1))
        return ScaledMenus(self.worth[options], uses, offsets, self.capacities)

    def largest_worth(self) -> int:
        """Return a number that no choice's worth exceeds in magnitude."""
        return int(np.maximum.reduceat(np.abs(self.worth), self.offsets[:-1]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """The bounds of several multiplier vectors over menus.

    Attributes
    ----------
    multipliers
        int64 [vectors, capacities]: Lambda.
    power
        P.
    top
        int64 [vectors]: ``Lambda . C + sum_j best_j``.
    loss
        int64 [vectors, options], at least 0.
    """

    multipliers: NDArray[np.int64]
    power: int
    top: NDArray[np.int64]
    loss: NDArray[np.int64]

    def take(self, options: NDArray[np.int64]) -> Bounds:
        """Return the same bounds with the options in another order."""
        return Bounds(self.multipliers, self.power, self.top, self.loss[:, options])

    def slack(self, floor: int) -> NDArray[np.int64]:
        """Return int64 [vectors]: the most that a choice worth more than `floor` may lose; negative: none."""
        return self.top - self.power * (floor + 1)

    def begin(self, menus: ScaledMenus, floor: int) -> tuple[DepthFirst, NDArray[np.int64]] | None:
        """Return a search for choices worth more than `floor`, and int64 [vectors], the shift of each row.

        Menus stand in the order of the search, options in the order of their loss in row 0. ``None`` if a row
        shows at once that there is no such choice.
        """
        least = np.minimum.reduceat(menus.uses, menus.offsets[:-1], axis=1)
        costs = np.concatenate((self.loss, menus.uses - menus.spread(least)))
        budgets = np.concatenate((self.slack(floor), menus.capacities - least.sum(axis=1)))
        if (budgets < 0).any():
            return None
        shifts = np.zeros(budgets.size, dtype=np.int64)
        while (over := (budgets >> shifts) > LARGEST).any():
            shifts[over] += 1
        shifted = (costs >> shifts[:, None]).T
        search = DepthFirst.begin(menus.offsets, shifted, budgets >> shifts, menus.worth, floor)
        return search, shifts


def power_of(menus: ScaledMenus) -> int:
    """Return P: the largest power of two for which P times the worth of a choice stays below 2**60."""
    return 1 << max(0, min(_FINEST, 59 - menus.largest_worth().bit_length()))


def whole_multipliers(menus: ScaledMenus, multipliers: NDArray[np.float64], power: int) -> NDArray[np.int64]:
    """Return int64 [vectors, capacities]: multipliers rounded to 1/P, without those that could overflow.

    Parameters
    ----------
    menus
        For the largest sums.
    multipliers
        float64 [vectors, capacities], at least 0, in units of worth.
    power
        P.
    """
    most = np.maximum.reduceat(menus.uses, menus.offsets[:-1], axis=1).astype(np.float64).sum(axis=1)
    rounded = np.rint(multipliers * power)
    fits = np.isfinite(rounded).all(axis=1)
    # The price of all capacities, and of the largest uses: each a total that the search adds up.
    total = rounded @ np.maximum(most, menus.capacities.astype(np.float64))
    fits &= total < _TOTAL
    whole: NDArray[np.int64] = rounded[fits].astype(np.int64)
    return whole


def bounds(menus: ScaledMenus, multipliers: NDArray[np.int64], power: int) -> Bounds:
    """Return the bounds of whole multipliers [vectors, capacities] over menus."""
    scores = power * menus.worth - multipliers @ menus.uses
    best = np.maximum.reduceat(scores, menus.offsets[:-1], axis=1)
    top = multipliers @ menus.capacities + best.sum(axis=1)
    return Bounds(multipliers, power, top, menus.spread(best) - scores)


_ALONE = 100_000
"""Nodes that one thread searches before a tree is divided."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the search does; every ingredient can be switched off to see what it is worth.

    Attributes
    ----------
    drawn
        Vectors drawn around the first one, at least; more where rows are left over.
    spread
        Standard deviation of the logarithm of a drawn multiplier over the first one's.
    fitted, later
        Vectors fitted to places in the tree: at first, and when the tree has become large.
    depths, later_depths
        At which shares of the open depth they are fitted when their time comes.
    ordering
        Whether jobs are ordered by how clearly their best option wins, else as they come.
    first_limit, growth, later_growth
        Nodes of the first tree, and by how much the limit grows while vectors are fitted.
    """

    drawn: int = 7
    spread: float = 0.3
    fitted: int = 12
    depths: tuple[float, ...] = (1.0, 0.9)
    ordering: bool = True
    first_limit: int = 200_000
    growth: float = 1.3
    later: int = 16
    later_growth: float = 2.0
    later_depths: tuple[float, ...] = (1.0, 0.95, 0.9, 0.8)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """The tree that ended a search: whoever walks it with these numbers finds that every leaf is closed.

    Attributes
    ----------
    multipliers
        int64 [vectors, capacities], in units of ``1 / power`` of a unit of worth.
    power
        P, a power of two.
    order
        int64 [jobs]: the jobs in the order in which they are decided.
    floor
        No choice is worth more units than this.
    nodes
        Nodes of this tree.
    """

    multipliers: NDArray[np.int64]
    power: int
    order: NDArray[np.int64]
    floor: int
    nodes: int


class MenuSearch:
    """A search for choices worth more than a floor that rises.

    Parameters
    ----------
    menus
        At least one job, no empty menu.
    multipliers
        float64 [capacities] >= 0: near-optimal for the linear relaxation, in units of worth.
    floor
        Only choices worth more are looked for; ``None``: any.
    fit
        Given int64 [decided jobs], the options chosen so far, returns multipliers fitted to what is open.
    seed
        For the vectors that are drawn.
    threads
        Among how many a tree is divided; the answer repeats for the same number.
    """

    def __init__(
        self,
        menus: ScaledMenus,
        multipliers: NDArray[np.float64],
        floor: int | None,
        fit: Callable[[NDArray[np.int64]], NDArray[np.float64]],
        seed: int = 0,
        settings: Settings | None = None,
        threads: int = 1,
    ) -> None:
        self._menus = menus
        self._crew = Crew(threads)
        self._fit = fit
        self._settings = settings = Settings() if settings is None else settings
        self._power = power_of(menus)
        self.floor = -menus.largest_worth() - 1 if floor is None else floor
        self.fitted = 0
        capacities = menus.capacities.size
        lanes = -(-(1 + settings.drawn + capacities) // 4) * 4
        drawn = lanes - 1 - capacities if settings.drawn else 0
        noise = np.random.default_rng(seed).standard_normal((drawn, capacities))
        around = multipliers * np.exp(settings.spread * noise)
        self._multipliers = whole_multipliers(menus, np.concatenate((multipliers[None], around)), self._power)
        if not self._multipliers.size:
            self._multipliers = np.zeros((1, capacities), dtype=np.int64)
        self._order = np.arange(menus.num_jobs)
        self._tree: SideBySide[DepthFirst] | None = None
        self._shifts = np.zeros(0, dtype=np.int64)
        self._earlier = 0
        self._limit = settings.first_limit
        self._begin()

    @property
    def nodes(self) -> int:
        """How many nodes all trees had so far."""
        return self._earlier + (self._tree.nodes if self._tree is not None else 0)

    def record(self) -> Record:
        """Return what the present tree is made of; a proof once `run` has said ``EXHAUSTED``."""
        nodes = 0 if self._tree is None else self._tree.nodes
        return Record(self._multipliers, self._power, self._order, self.floor, nodes)

    def raise_floor(self, floor: int) -> None:
        """Look only for choices worth more than this from now on."""
        if floor <= self.floor:
            return
        if self._tree is not None:
            # The budget of every row of values shrinks by P units a unit of worth: rounded down to the row's
            # own unit, so that no row becomes shorter than it may be.
            rise = self._power * (floor - self.floor)
            shrunk = np.zeros(self._shifts.size, dtype=np.int64)
            vectors = self._multipliers.shape[0]
            shrunk[:vectors] = rise >> self._shifts[:vectors]
            for part in self._tree.parts:
                part.raise_floor(floor, shrunk)
        self.floor = floor

    def run(self, nodes: int) -> Status:
        """Search on for so many nodes; ``FOUND`` if a choice was found: see `leaf`."""
        if self._tree is None:
            return Status.EXHAUSTED
        if self._tree.nodes >= self._limit:
            self._renew()
            if self._tree is None:
                return Status.EXHAUSTED
        return self._tree.run(min(nodes, self._limit - self._tree.nodes))

    def leaf(self) -> NDArray[np.int64]:
        """Return int64 [jobs]: the option of every job, in their own order, of the choice just found."""
        assert self._tree is not None
        choice = np.empty(self._menus.num_jobs, dtype=np.int64)
        choice[self._order] = self._options[self._tree.finder.leaf]
        return choice

    def _renew(self) -> None:
        """Fit vectors to where the search is, and begin again; once all are fitted, go on without a limit."""
        assert self._tree is not None
        tree = self._tree.parts[0]
        settings = self._settings
        many = self.fitted >= settings.fitted
        if self.fitted >= settings.fitted + settings.later:
            self._limit = 1 << 62
            return
        growth, depths = (
            (settings.later_growth, settings.later_depths) if many else (settings.growth, settings.depths)
        )
        self._limit = max(self._limit + 1, int(self._limit * growth))
        self.fitted += len(depths)
        first = int(np.argmax(np.diff(tree.offsets) > 1))
        vectors = []
        for share in depths:
            depth = first + int((tree.depth - first) * share)
            if depth > first:
                vectors.append(self._fit(self._options[tree.decided(depth)]))
        if not vectors:
            return
        more = whole_multipliers(self._menus, np.array(vectors), self._power)
        self._multipliers = np.concatenate((self._multipliers, more))
        self._earlier += self._tree.nodes
        self._begin()

    def _begin(self) -> None:
        """Order the jobs and start a tree; none is needed where a row is negative from the first."""
        menus = self._menus
        bound = bounds(menus, self._multipliers, self._power)
        sizes = np.diff(menus.offsets)
        job = np.repeat(np.arange(menus.num_jobs), sizes)
        first = bound.loss[0]
        options = np.lexsort((first, job))
        if self._settings.ordering:
            # How clearly the best option wins: the loss of the second; a job without a choice comes first.
            clear = np.full(menus.num_jobs, np.iinfo(np.int64).max)
            open_jobs = sizes > 1
            clear[open_jobs] = first[options[menus.offsets[:-1][open_jobs] + 1]]
            self._order = np.argsort(-clear, kind="stable")
            rank = np.empty_like(self._order)
            rank[self._order] = np.arange(self._order.size)
            options = options[np.argsort(rank[job[options]], kind="stable")]
        self._options = options
        begun = bound.take(options).begin(menus.take(options, sizes[self._order]), self.floor)
        if begun is None:
            self._tree = None
            return
        tree, self._shifts = begun
        self._tree = SideBySide(tree, self._crew, _ALONE)
