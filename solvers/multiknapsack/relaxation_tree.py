"""Branch and bound over relaxations: on how many options of some value are chosen, then on single options.

Values from a handful of numbers leave a relaxation off by less than one job: it chooses 156.01 jobs of value
5, and no price of a capacity sees that 157 do not fit and 156 are worth less. Both sides can be said as one
more capacity: at most 156 options of that value; or at most `jobs - 157` of any other. A node adds one side,
solves the relaxation under all of its rows, and ends where the prices show that nothing of interest is left.
That is their word alone, over the rows and the capacities, with its rounding (`noise`). Options that the
prices rule out are left out below a node. Where no count is broken, the option that is divided most evenly is
taken or left out; a relaxation that divides none is a choice. HiGHS may solve nodes of few options as
mixed-integer programs, which is quicker and rests on its word.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import call
from apportion.solvers.multiknapsack.alike_jobs import alike_jobs
from apportion.solvers.multiknapsack.dual import overdrawn_by_all
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, bound_at, noise
from apportion.solvers.multiknapsack.proving import solve_core

__all__ = ["RelaxationTree", "count_tree"]


_VALUES = 64
"""Different values up to which counts are looked at,"""
_JOBS_PER_VALUE = 4
"""and so many jobs for each of them at least."""
_OPTIONS = 100_000
"""Options up to which a relaxation is solved at a node."""
_BROKEN = 1e-4
"""By how much a count is no whole number."""
_WHOLE = 1e-6
"""By how much a share of an option is off a whole number that counts as one."""
_LEAF = 150
"""Different options up to which HiGHS solves a node,"""
_FIRST_SECONDS = 0.5
"""for so long at first, and so much longer whenever it comes to a node again: after all others."""
_LONGER = 4.0
_SECONDS_PER_NODE = 1e-2
"""What deterministic mode charges for a relaxation, and for a node of HiGHS."""


@dataclass(frozen=True, slots=True, eq=False)
class _Count:
    """At most, or at least, so many options of some value or more."""

    value: float
    at_most: bool
    number: int

    @property
    def other(self) -> _Count:
        """The other side of at most."""
        return _Count(self.value, not self.at_most, self.number + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """Options of the whole menus, under some counts; `seconds` is what HiGHS may take for it."""

    options: NDArray[np.int64]
    counts: tuple[_Count, ...]
    seconds: float


class _Relaxed(NamedTuple):
    """What a relaxation shows: `divided` is the option that it divides most evenly, -1 if none is known."""

    bound: float
    live: NDArray[np.bool_]
    broken: _Count | None
    divided: int


def count_tree(menus: OptionTable, best: ChoiceIncumbent, clock: Clock, seed: int) -> RelaxationTree | None:
    """Return a tree that counts; ``None`` where values are many or on no grid, or options too many."""
    if best.step <= 0.0 or menus.num_options > _OPTIONS or menus.num_jobs == 0:
        return None
    values = np.unique(menus.values)
    if values.size > min(_VALUES, menus.num_jobs // _JOBS_PER_VALUE):
        return None
    return RelaxationTree(menus, best, clock, seed, values[1:])


class RelaxationTree:
    """One search of the tree, taken up again and again: the node of greatest bound of those never given up.

    Parameters
    ----------
    menus
        All options within reach of what is better than the incumbent.
    best
        The incumbent, raised by what is found.
    clock
        Charged for every relaxation and every node of HiGHS.
    seed
        Of HiGHS.
    values
        float64 [values], rising: from which on options are counted.

    Attributes
    ----------
    seconds
        Of the clock, spent so far.
    relaxations, mip_calls, mip_nodes
        Counted so far.
    by_solver
        Whether a node ended by what HiGHS says.
    """

    def __init__(
        self,
        menus: OptionTable,
        best: ChoiceIncumbent,
        clock: Clock,
        seed: int,
        values: NDArray[np.float64],
    ) -> None:
        self._menus, self._values, self._best = menus, values, best
        self._clock, self._seed, self._order = clock, seed, count()
        self.seconds, self.relaxations, self.mip_calls, self.mip_nodes = 0.0, 0, 0, 0
        self.by_solver = False
        self._open: list[tuple[float, float, int, _Node]] = []
        self._push(math.inf, _Node(np.arange(menus.num_options), (), _FIRST_SECONDS))

    @property
    def bound(self) -> float:
        """What nothing better than the incumbent exceeds, maximising; minus infinity if nothing is open."""
        return max((-lost for _, lost, _, _ in self._open), default=-math.inf)

    def run(self, seconds: float) -> bool:
        """Go through nodes for so many seconds of the clock; true if none is left."""
        began = self._clock.elapsed
        try:
            while self._open:
                _, lost, _, node = self._open[0]
                self._branch(node, -lost)  # an interruption leaves the node where it is
                if self._best.close or self._clock.stopped() is not None:
                    return not self._open
                if self._clock.elapsed - began >= seconds:
                    break
            return not self._open
        finally:
            self.seconds += self._clock.elapsed - began

    def _push(self, bound: float, node: _Node) -> None:
        heapq.heappush(self._open, (node.seconds, -bound, next(self._order), node))

    def _branch(self, node: _Node, bound: float) -> None:
        """Replace the first open node by its parts."""
        parts = list(self._parts(node, bound))
        heapq.heappop(self._open)
        for part_bound, part in parts:
            self._push(part_bound, part)

    def _parts(self, node: _Node, bound: float) -> Iterator[tuple[float, _Node]]:
        """Yield the parts of a node that are still open, with bounds; raise the incumbent on the way."""
        menus = self._table(node)
        if (np.diff(menus.offsets) == 0).any():  # none of a job's options can be in a better choice
            return
        relaxed = self._relaxed(menus, bound)
        if relaxed is None:
            return
        bound = min(bound, relaxed.bound)
        options = node.options[relaxed.live]
        live = menus.keep(relaxed.live)
        if self._by_highs(live, relaxed) and self._solved(live, node.seconds):
            return
        if relaxed.broken is not None:
            for side in (relaxed.broken, relaxed.broken.other):
                yield bound, replace(node, options=options, counts=(*node.counts, side))
        elif relaxed.divided >= 0:
            at, job = relaxed.divided, menus.job[relaxed.divided]
            taken = (menus.job != job) | (np.arange(menus.num_options) == at)
            left_out = np.arange(menus.num_options) != at
            for side_of in (taken, left_out):
                yield bound, replace(node, options=node.options[relaxed.live & side_of])
        else:
            yield bound, replace(node, options=options, seconds=_LONGER * node.seconds)

    def _by_highs(self, live: OptionTable, relaxed: _Relaxed) -> bool:
        """Return whether HiGHS is to solve a node: no count is broken, or options are few."""
        return relaxed.broken is None or alike_jobs(live).menus.num_options <= _LEAF

    def _table(self, node: _Node) -> OptionTable:
        """Return the options of a node under its counts, every count as one more capacity."""
        kept = np.zeros(self._menus.num_options, dtype=np.bool_)
        kept[node.options] = True
        menus = self._menus.keep(kept)
        jobs, room = menus.num_jobs, list(menus.capacities)
        rows = list[tuple[NDArray[np.int64], NDArray[np.float64]]]()
        for one in node.counts:
            counted = menus.values >= one.value
            own = np.flatnonzero(counted if one.at_most else ~counted)
            rows.append((own, np.ones(own.size)))
            room.append(float(one.number if one.at_most else jobs - one.number))
        return menus.with_rows(rows, np.array(room))

    def _relaxed(self, menus: OptionTable, bound: float) -> _Relaxed | None:
        """Return what the relaxation's prices show; ``None`` where nothing of interest is left."""
        alike, clock = alike_jobs(menus), self._clock
        model = alike.written()
        settings: dict[str, object] = {"threads": 1, "presolve": "off"}
        if (left := clock.uncounted) is not None:
            settings["time_limit"] = left
        everything = _Relaxed(bound, np.ones(menus.num_options, dtype=np.bool_), None, -1)
        try:
            said = call(replace(model, integer=np.zeros(model.cost.size, dtype=np.bool_)), settings)
        except BackendUnavailable:
            return everything
        finally:
            self.relaxations += 1
            clock.charge(1, _SECONDS_PER_NODE)
        classes = alike.menus.num_jobs
        if said.ray is not None and overdrawn_by_all(menus, np.abs(said.ray[classes:])):
            return None
        if said.duals is None or said.point is None:
            return everything
        whole = np.abs(said.point - np.rint(said.point)) <= _WHOLE
        if whole.all() and (choice := alike.outward(said.point)) is not None:
            self._best.take(menus.rows[choice])
        prices = np.maximum(said.duals[classes:], 0.0)
        shown = bound_at(menus, prices)
        margin = noise(menus, prices)
        live, floor = everything.live, self._best.floor
        if floor is not None:
            if shown + margin < floor:
                return None
            live = menus.loss(prices) <= shown + margin - floor
        broken = self._broken(alike.menus.values, said.point)
        off = np.where(alike.counts[alike.menus.job] == 1, np.abs(said.point - np.rint(said.point)), 0.0)
        at = int(np.argmax(off))
        return _Relaxed(shown + margin, live, broken, -1 if off[at] <= _WHOLE else int(alike.menus.rows[at]))

    def _broken(self, values: NDArray[np.float64], point: NDArray[np.float64]) -> _Count | None:
        """Return the count nearest to a whole number that is none, as its side of at most."""
        if not self._values.size:
            return None
        order = np.argsort(values)
        above = np.append(np.cumsum(point[order][::-1])[::-1], 0.0)
        numbers = above[np.searchsorted(values[order], self._values)]
        off = np.abs(numbers - np.rint(numbers))
        off[off <= _BROKEN] = 1.0
        at = int(np.argmin(off))
        return None if off[at] == 1.0 else _Count(float(self._values[at]), True, math.floor(numbers[at]))

    def _solved(self, menus: OptionTable, seconds: float) -> bool:
        """Let HiGHS solve a node; return whether nothing in it is better than the incumbent then."""
        clock, best = self._clock, self._best
        left = clock.seconds_of(1.0)
        if left <= 0.0 and not clock.counted:
            return False  # HiGHS begins all the same, and large nodes take it seconds
        answer = solve_core(
            menus,
            start=None,
            seconds=None if clock.counted else max(0.0, min(seconds, left)),
            nodes=max(1, int(seconds / _SECONDS_PER_NODE)) if clock.counted else None,
            step=best.step,
            threads=1,
            seed=self._seed,
        )
        clock.charge(max(1, answer.nodes), (1 + answer.nodes) * _SECONDS_PER_NODE)
        self.mip_calls += 1
        self.mip_nodes += answer.nodes
        if answer.choice is not None:
            rows = menus.rows[answer.choice]
            best.take(rows)
            if not best.fits(rows):
                return False
        self.by_solver |= answer.proven
        return answer.proven
