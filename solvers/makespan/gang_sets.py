"""Whom each pool gets, and whether it can end in time: a master without starts, then one pool at a time.

Logic-based Benders decomposition (Hooker 2007, "Planning and scheduling by logic-based Benders
decomposition"). The master says who runs where, by how much time and width they fill. Each pool's jobs are
then scheduled by themselves, by lists and by a tree (`search.schedule_tree`), to end before the best schedule
known. Where a pool cannot, jobs are taken from it while it still cannot, and the master is told of those that
are left: a schedule that gives the pool only some of them ends sooner by the times of the others at most, for
these could follow it. Where a pool stays open, its set is left out from then on, and the bound stays.

The master is a model of CP-SAT's without starts. Beside a job that takes a pool alone nothing runs, so these
may be moved behind all others: they form a chain, and what is left of the time is all that the others have.
Widths rounded by a dual feasible function fill a pool too (Fekete and Schepers 2004), and jobs that each last
longer than half the time all run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from apportion.models.packing import pack
from apportion.solvers.general.cp_sat_call import Limits, call, new_model, weighted_sum
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.schedule_tree import LARGEST, ScheduleTree, available

__all__ = ["Master", "SetSearch", "alone"]


_PARTS = (1, 2, 3)
"""Of the dual feasible functions of widths: into how many parts a pool is cut, less one."""


class Master:
    """Who runs where as CP-SAT's model, a relaxation of the makespan on pools, and the way back.

    Parameters
    ----------
    model
        A makespan on pools.
    time
        int64 [entries]: times in whole units.
    low, top
        Bounds on the makespan, in whole units; it is made least.
    hint
        int64 [jobs]: an entry of every job to begin with.

    Attributes
    ----------
    native
        What `cp_sat_call.call` takes.
    end
        Its variable of the makespan.
    """

    def __init__(
        self,
        model: Assignment,
        time: NDArray[np.int64],
        low: int,
        top: int,
        hint: NDArray[np.int64],
    ) -> None:
        self.native = native = new_model()
        self._model, self._time, self._top = model, time, top
        self.end = native.new_int_var(min(max(low, 0), top), top, "")
        self._taken = [native.new_bool_var("") for _ in range(model.num_options)]
        for first, last in zip(model.offsets[:-1].tolist(), model.offsets[1:].tolist(), strict=True):
            native.add_exactly_one(self._taken[first:last])
        for pool in range(model.num_machines):
            self._pool(np.flatnonzero(model.machine == pool), int(model.counts[pool]))
        chosen = hint[model.job_of_option()]
        for row, taken in enumerate(self._taken):
            native.add_hint(taken, bool(chosen[row] == row))
        native.minimize(self.end)

    def choice(self, value: Any) -> NDArray[np.int64]:
        """Return int64 [jobs]: the entries of a solution."""
        return self._model.chosen(np.flatnonzero([bool(value(taken)) for taken in self._taken]))

    def at_least(self, rows: NDArray[np.int64], length: int) -> None:
        """Add that these entries of one pool end no sooner; without some, their times are saved at most."""
        spent = int(self._time[rows].sum())
        self.native.add(self.end - self._sum(rows, self._time[rows]) >= length - spent)

    def forbid(self, rows: NDArray[np.int64]) -> None:
        """Add that not all of these entries are taken."""
        self.native.add_bool_or([~self._taken[row] for row in rows.tolist()])

    def _pool(self, rows: NDArray[np.int64], count: int) -> None:
        """Write one pool: the chain of those that take it alone, and what runs in the rest of the time."""
        native, gpus = self.native, self._model.gpus
        for row in rows[self._time[rows] > self._top].tolist():
            native.add(self._taken[row] == 0)
        rows = rows[self._time[rows] <= self._top]
        if not rows.size:
            return
        apart = alone(gpus[rows], count)
        chain, rest = rows[apart], rows[~apart]
        left = self.end
        if rest.size:
            left = native.new_int_var(0, self._top, "")
        native.add(self._sum(chain, self._time[chain]) + (left if rest.size else 0) <= self.end)
        if not rest.size:
            return
        for row in rest.tolist():
            native.add(int(self._time[row]) <= left).only_enforce_if(self._taken[row])
        for widths, whole in _rounded(gpus[rest], count):
            native.add(self._sum(rest, self._time[rest] * widths) <= whole * left)
        long = rows[2 * self._time[rows] > self._top]
        if long.size > 1:
            native.add(self._sum(long, gpus[long]) <= count)

    def _sum(self, rows: NDArray[np.int64], weights: NDArray[np.int64]) -> Any:
        return weighted_sum([self._taken[row] for row in rows.tolist()], weights.tolist())


def alone(gpus: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return bool [entries]: beside which of a pool's entries no other job fits."""
    return np.asarray(gpus + gpus.min() > count, dtype=np.bool_)


def _rounded(gpus: NDArray[np.int64], count: int) -> list[tuple[NDArray[np.int64], int]]:
    """Return whole widths whose sum at any time is at most the number beside them.

    With parts k: a width x of 1 is ``floor((k + 1) x) / k``, or x itself where ``(k + 1) x`` is whole.
    """
    found = [(gpus, count)]
    for k in _PARTS:
        cut = (k + 1) * gpus
        widths = np.where(cut % count == 0, k * gpus, cut // count * count)
        if (widths > k * gpus).any():
            found.append((widths.astype(np.int64), k * count))
    return found


_LISTS, _SHAKEN = 60, 0.3
"""Lists tried for a pool before a tree is searched, and by how much their keys are disturbed."""
_NODES = (20_000, 200_000, 2_000_000, 20_000_000)
"""Nodes of a pool's tree, round by round: sets that stay open wait until the others had as many."""
_SHORT = _NODES[1]
"""The most of them with which a schedule that is good enough is made better."""
_TOTAL = 60_000_000
"""Nodes of all trees, after which the search ends: some ten million take a second."""
_TWIN = 100
"""By how much the uncompiled twin of the tree is slower: it has so many nodes less, but for the fewest."""
_SLICE = 100_000
"""Nodes between two looks at the clock."""
_MASTER = 2.0
"""Deterministic seconds of CP-SAT for one master, which takes hundredths."""
_OPEN = 6
"""Sets left open after which the search ends: what comes later has seldom helped."""


@dataclass(frozen=True, slots=True, eq=False)
class _Packed:
    """What is known of one pool's jobs: a bound on their end, the end of a schedule, and its turns."""

    low: int
    end: int
    turns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One pool's jobs: their entries, and the machines of the pool."""

    rows: NDArray[np.int64]
    count: int


class SetSearch:
    """The search over the sets of jobs that pools get.

    Parameters
    ----------
    model
        A makespan on pools, no capacities.
    time
        int64 [entries]: times in whole units.
    low, top
        A lower bound on the makespan, and the makespan to beat, in whole units.
    choice
        int64 [jobs]: a choice to begin with.
    seed
        Random seed.
    left
        Returns the seconds that are left, or ``None`` where the work is limited instead.

    Attributes
    ----------
    low
        The bound, raised by every master whose sets are not left out.
    ended
        ``optimal`` where the bound has met the best schedule.
    """

    def __init__(
        self,
        model: Assignment,
        time: NDArray[np.int64],
        low: int,
        top: int,
        choice: NDArray[np.int64],
        seed: int,
        left: Callable[[], float | None],
    ) -> None:
        self.low, self.ended = low, Termination.SOLUTION_LIMIT
        self._model, self._time, self._top, self._seed, self._left = model, time, top, seed, left
        self._whole = replace(model, values=time.astype(np.float64))
        self._hint = choice
        self._rng = np.random.default_rng(seed)
        self._known: dict[tuple[int, ...], _Packed] = {}
        self._cuts: list[tuple[NDArray[np.int64], int]] = []
        share = 1 if available() else _TWIN
        self._nodes = (_NODES[0], *(most // share for most in _NODES[1:] if most // share > _NODES[0]))
        self._left_open, self._nodes_left = 0, _TOTAL // share

    def schedules(self) -> Iterator[NDArray[np.int64]]:
        """Yield every better schedule: int64 [2, jobs], where the jobs run and in which turn."""
        try:
            yield from self._rounds()
        except KeyboardInterrupt:
            self.ended = Termination.INTERRUPTED

    def _rounds(self) -> Iterator[NDArray[np.int64]]:
        """Go through the sets with small trees, then with larger ones while some stay open."""
        for nodes in self._nodes:
            yield from self._round(nodes)
            if self.low >= self._top:
                self.ended = Termination.OPTIMAL
            if not self._left_open or self.ended is not Termination.SOLUTION_LIMIT or self._over():
                return

    def _round(self, nodes: int) -> Iterator[NDArray[np.int64]]:
        model, self._left_open = self._model, 0
        master = Master(model, self._time, self.low, self._top, self._hint)
        for rows, least in self._cuts:
            master.at_least(rows, least)
        while self.low < self._top and self._left_open < _OPEN and not self._over():
            said = call(master.native, Limits(seconds=self._seconds(), work=_MASTER, seed=self._seed))
            if said.interrupted:
                self.ended = Termination.INTERRUPTED
                return
            if said.bound is not None and not self._left_open:
                self.low = max(self.low, round(said.bound))
            if said.value is None or said.termination is not Termination.OPTIMAL:
                return
            length, choice = said.value(master.end), master.choice(said.value)
            if length >= self._top:
                return
            pool_of = model.machine[choice]
            pools = np.unique(pool_of).tolist()
            parts = [_Part(choice[pool_of == pool], int(model.counts[pool])) for pool in pools]
            cut = self._refuted(parts, length, nodes)
            late = [part for part in parts if self._packed(part, length).end >= self._top]
            if cut is not None:
                self._cuts.append((cut, self._top))
                master.at_least(cut, self._top)
            elif late:
                self._left_open += 1
                for part in late:
                    master.forbid(part.rows)
            else:
                self._shorten(parts, length, min(nodes, _SHORT))
                point = self._point(parts, choice, length)
                self._top = int(self._whole.objective(point))
                yield point

    def _refuted(self, parts: list[_Part], length: int, nodes: int) -> NDArray[np.int64] | None:
        """Ask the pools to end before the best, and return entries of one that cannot, if there is one."""
        for part in parts:
            if self._decided(part, length, self._top - 1, nodes).low >= self._top:
                return self._needed(part)
        return None

    def _point(self, parts: list[_Part], choice: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """Return the pools' schedules as one: where the jobs run, and in which turn."""
        ranks = np.zeros(choice.size, dtype=np.int64)
        for part in parts:
            ranks[self._model.job_of_option()[part.rows]] = self._packed(part, length).turns
        turns = np.empty_like(ranks)
        turns[np.argsort(ranks, kind="stable")] = np.arange(ranks.size)
        return np.stack((choice, turns))

    def _shorten(self, parts: list[_Part], length: int, nodes: int) -> None:
        """Let the pools that end last end sooner, halving what such trees leave open."""
        while True:
            last = max(parts, key=lambda part: self._packed(part, length).end)
            begun = self._packed(last, length).end
            low = max(self._packed(last, length).low, length)
            while low < (end := self._packed(last, length).end):
                target = (low + end - 1) // 2
                if self._decided(last, length, target, nodes).end > target:
                    low = target + 1
            if self._packed(last, length).end == begun:
                return

    def _decided(self, part: _Part, length: int, target: int, nodes: int) -> _Packed:
        """Find out whether a pool can end by the target, and return what is known of it then."""
        known = self._packed(part, length)
        if known.low <= target < known.end:
            status, turns = self._asked(part, target, nodes)
            if status is Status.EXHAUSTED:
                known = replace(known, low=target + 1)
            elif turns is not None:
                times = self._time[part.rows].astype(np.float64)
                end = int(pack(times, self._model.gpus[part.rows], part.count, turns)[2])
                known = _Packed(known.low, end, turns)
            self._known[tuple(part.rows.tolist())] = known
        return known

    def _packed(self, part: _Part, length: int) -> _Packed:
        """Return what is known of one pool's jobs, at first by lists."""
        key = tuple(part.rows.tolist())
        if key not in self._known:
            self._known[key] = self._listed(part, length)
        return self._known[key]

    def _listed(self, part: _Part, length: int) -> _Packed:
        times, gpus = self._time[part.rows].astype(np.float64), self._model.gpus[part.rows]
        keys = (times, times * gpus, gpus * (times.max() + 1.0) + times)
        last = alone(gpus, part.count)
        best: _Packed | None = None
        for turn in range(_LISTS):
            shake = _SHAKEN * self._rng.random(times.size) if turn >= len(keys) else 0.0
            turns = np.empty(times.size, dtype=np.int64)
            turns[np.lexsort((-keys[turn % len(keys)] * (1.0 + shake), last))] = np.arange(times.size)
            end = int(pack(times, gpus, part.count, turns)[2])
            if best is None or end < best.end:
                best = _Packed(0, end, turns)
            if best.end <= length:
                break
        assert best is not None
        return best

    def _needed(self, part: _Part) -> NDArray[np.int64]:
        """Return entries of a pool that cannot end before the best, as few as come without a search."""
        kept = part.rows
        for row in part.rows[np.argsort(self._time[part.rows] * self._model.gpus[part.rows])].tolist():
            fewer = _Part(kept[kept != row], part.count)
            if self._asked(fewer, self._top - 1, _NODES[0])[0] is Status.EXHAUSTED:
                kept = fewer.rows
        return kept

    def _asked(self, part: _Part, target: int, nodes: int) -> tuple[Status, NDArray[np.int64] | None]:
        """Search for a schedule that ends by the target; return its turns."""
        times, gpus = self._time[part.rows], self._model.gpus[part.rows]
        # what takes no time goes first, what takes the pool alone last
        kind = np.where(times > 0, 1 + alone(gpus, part.count), 0)
        room, starts = target - int(times[kind == 2].sum()), np.zeros_like(times)
        own = kind == 1
        status = Status.FOUND if room >= 0 else Status.EXHAUSTED
        if own.any() and room >= 0:
            if part.count * room >= LARGEST:
                return Status.OUT_OF_NODES, None
            tree = ScheduleTree.begin(times[own], gpus[own], part.count, room)
            status = self._run(tree, nodes)
            if status is Status.FOUND:
                starts[own] = tree.starts
        if status is not Status.FOUND:
            return status, None
        turns = np.empty_like(starts)
        turns[np.lexsort((starts, kind))] = np.arange(starts.size)
        return status, turns

    def _run(self, tree: ScheduleTree, nodes: int) -> Status:
        """Search until the end, a schedule, so many nodes, or a limit."""
        status = Status.OUT_OF_NODES
        while status is Status.OUT_OF_NODES and tree.nodes < nodes and not self._over():
            before = tree.nodes
            status = tree.run(min(_SLICE, nodes - before))
            self._nodes_left -= tree.nodes - before
        return status

    def _over(self) -> bool:
        return self._nodes_left <= 0 or self._seconds() == 0.0

    def _seconds(self) -> float | None:
        seconds = self._left()
        return None if seconds is None else max(seconds, 0.0)
