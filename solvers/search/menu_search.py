"""Exact search over menus: rows of several multiplier vectors, jobs ordered, vectors fitted.

The first vector is that of the linear relaxation; others are drawn around it, because a vector that is a
little off at the root is often the better bound deep in the tree, where little is left of some capacity and
much of another. Whenever the tree has grown past a limit that rises geometrically, vectors are fitted to the
place the search has reached (the linear relaxation of what is open there), and the search begins again with
more rows and a higher floor. So the last tree alone is the proof: one order, one set of vectors, one floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .crew import Crew
from .depth_first import DepthFirst
from .rows import WholeMenus, bounds, power_of, whole_multipliers
from .side_by_side import SideBySide
from .status import Status

__all__ = ["MenuSearch", "Record", "Settings"]

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
        menus: WholeMenus,
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
