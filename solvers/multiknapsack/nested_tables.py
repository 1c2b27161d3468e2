"""Tables over the capacities that are open: exact where most capacities concern a few jobs each, and nest.

Jobs are decided one after the other. A capacity is open from the first job that touches it to the last, and
a state is what is left of the open ones:

    F_j(room) = max_i v_ji + F_(j+1)(room - u_ji)

Where the jobs of a tenant stand together, the limits and floors of all other tenants are closed, and a table
has an entry per room of the common capacities and of one tenant's own. This is dynamic programming with an
order of elimination (Bertele and Brioschi, *Nonserial Dynamic Programming*, Academic Press, 1972); whatever
linear relaxations leave open, its answer is the optimum.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .option_table import OptionTable

__all__ = ["NestedTables", "nested_tables"]

_MOST_JOBS = 400
_MOST_OPTIONS = 255
"""Options of a menu: which one is best is kept in a byte."""
_MOST_ENTRIES = 400_000_000
"""Entries of all tables together, a byte each,"""
_LARGEST = 8_000_000
"""and of one table, whose values are kept as well."""
_MOST_COMMON = 8
"""Capacities that may be taken as open throughout when jobs are ordered."""
_SECONDS_PER_ENTRY = 3e-9
"""Of an entry looked at for one option."""

_Table = NDArray[np.float64]
_Pieces = list[tuple[slice, slice]]


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """One capacity in whole steps: room that is left, or what is still needed, whichever has fewer states.

    Attributes
    ----------
    uses
        int64 [options]: what an option takes of the room, or adds to what is needed.
    amount
        The room, or what is needed.
    is_need
        Whether what is needed is counted: of the largest uses so much must be forgone.
    """

    uses: NDArray[np.int64]
    amount: int
    is_need: bool

    def after(self, state: int, use: int) -> int:
        """Return the state that an option leaves; below 0 where it does not fit."""
        return max(0, state - use) if self.is_need else state - use

    def pieces(self, use: int) -> _Pieces:
        """Return where states before an option lie, and those after it, where both are kept."""
        size = self.amount + 1
        if not use:
            return [(slice(None), slice(None))]
        if not self.is_need:
            return [(slice(use, size), slice(0, size - use))] if use < size else []
        met = (slice(0, min(use, size)), slice(0, 1))
        return [met, (slice(use, size), slice(0, size - use))] if use < size else [met]

    def closing(self, use: int) -> slice:
        """Return the states from which an option of the last job keeps the capacity."""
        return slice(0, use + 1) if self.is_need else slice(use, None)


@dataclass(frozen=True, eq=False)
class NestedTables:
    """Menus whose optimum tables can find.

    Attributes
    ----------
    menus
        The menus.
    rows
        The capacities.
    order
        The order in which jobs are decided.
    open_before
        Of every place in the order, and of the end: which capacities are open.
    """

    menus: OptionTable
    rows: list[_Row]
    order: list[int]
    open_before: list[list[int]]

    @cached_property
    def _sizes(self) -> list[int]:
        return [_size(self.rows, opened) for opened in self.open_before]

    @property
    def entries(self) -> int:
        """How many entries are looked at, one for every option."""
        counts = np.diff(self.menus.offsets).tolist()
        return sum(size * counts[job] for size, job in zip(self._sizes, self.order, strict=False))

    @property
    def seconds(self) -> float:
        """Seconds that a processor by itself takes, about."""
        return self.entries * _SECONDS_PER_ENTRY

    @property
    def affordable(self) -> bool:
        """Whether the tables fit into memory."""
        return sum(self._sizes) <= _MOST_ENTRIES and max(self._sizes) <= _LARGEST

    def best(self, late: Callable[[], bool]) -> tuple[bool, NDArray[np.int64] | None]:
        """Return whether the tables were filled, and the best choice, int64 [jobs], if one fits."""
        values: _Table = np.zeros(())
        taken: list[NDArray[np.uint8]] = []
        for place in reversed(range(len(self.order))):
            if late():
                return False, None
            values, best = self._filled(place, values)
            taken.append(best)
        if not np.isfinite(values[()]):
            return True, None
        choice = np.full(self.menus.num_jobs, -1, dtype=np.int64)
        state = {k: row.amount for k, row in enumerate(self.rows)}
        for place, best in enumerate(reversed(taken)):
            job = self.order[place]
            at = tuple(state[k] for k in self.open_before[place])
            option = int(self.menus.offsets[job]) + int(best[at])
            choice[job] = option
            for k, row in enumerate(self.rows):
                state[k] = row.after(state[k], int(row.uses[option]))
        return True, choice

    def _filled(self, place: int, later: _Table) -> tuple[_Table, NDArray[np.uint8]]:
        """Return the table of what is best from a place on, and which option of its job that takes."""
        menus, before, after = self.menus, self.open_before[place], self.open_before[place + 1]
        shape = tuple(self.rows[k].amount + 1 for k in before)
        values, best = np.full(shape, -np.inf), np.zeros(shape, dtype=np.uint8)
        rooms = np.empty(values.size), np.empty(values.size, dtype=np.bool_)
        start, end = menus.offsets[self.order[place]], menus.offsets[self.order[place] + 1]
        for number, option in enumerate(range(int(start), int(end))):
            used = [int(row.uses[option]) for row in self.rows]
            if any(
                row.after(row.amount, use) < 0 for row, use in zip(self.rows, used, strict=True)
            ) or not self._kept_alone(used, place):
                continue
            # what opens here is at its full amount
            source = later[
                tuple(
                    slice(None) if k in before else self.rows[k].after(self.rows[k].amount, used[k])
                    for k in after
                )
            ]
            parts: list[list[tuple[slice, slice | None]]] = []
            for k in before:
                if k in after:
                    parts.append(list(self.rows[k].pieces(used[k])))
                else:
                    parts.append([(self.rows[k].closing(used[k]), None)])
            for piece in itertools.product(*parts):
                into: tuple[Any, ...] = (..., *(target for target, _ in piece))
                most, taken = values[into], best[into]
                found, better = (room[: most.size].reshape(most.shape) for room in rooms)
                np.add(source[(..., *(origin for _, origin in piece))], menus.values[option], out=found)
                np.greater(found, most, out=better)
                np.copyto(most, found, where=better)
                np.copyto(taken, np.uint8(number), where=better)
        return values, best

    def _kept_alone(self, used: list[int], place: int) -> bool:
        """Return whether an option meets what its job alone must meet."""
        before, after = self.open_before[place], self.open_before[place + 1]
        job = self.order[place]
        return all(
            used[k] >= row.amount
            for k, row in enumerate(self.rows)
            if row.is_need and k not in before and k not in after and self._touches(k, job)
        )

    def _touches(self, k: int, job: int) -> bool:
        start, end = self.menus.offsets[job], self.menus.offsets[job + 1]
        return bool(self.rows[k].uses[start:end].any())


def nested_tables(menus: OptionTable) -> NestedTables | None:
    """Return the tables of some menus; ``None`` where they are too many or too large."""
    sizes = np.diff(menus.offsets)
    if menus.num_jobs > _MOST_JOBS or int(sizes.max(initial=0)) > _MOST_OPTIONS:
        return None
    rows = _rows(menus)
    if rows is None:
        return None
    touched = np.zeros((len(rows), menus.num_jobs), dtype=np.bool_)
    for k, row in enumerate(rows):
        touched[k, menus.job[row.uses > 0]] = True
    # what is open for long comes last in a table: there it is walked along
    few_first = np.argsort(touched.sum(axis=1), kind="stable")
    rows, touched = [rows[k] for k in few_first.tolist()], touched[few_first]
    widest = np.argsort(-touched.sum(axis=1), kind="stable")[:_MOST_COMMON]
    orders = [_ordered(rows, touched, widest[:count]) for count in range(widest.size + 1)]
    found = min((NestedTables(menus, rows, *order) for order in orders), key=lambda one: one.entries)
    return found if found.affordable else None


def _rows(menus: OptionTable) -> list[_Row] | None:
    """Return the capacities in the coarsest whole steps, each once; ``None`` where one cannot be kept."""
    uses = menus.uses.astype(np.int64)
    uses -= np.minimum.reduceat(uses, menus.offsets[:-1], axis=1)[:, menus.job]
    most = np.maximum.reduceat(uses, menus.offsets[:-1], axis=1)
    rooms = [
        int(amount) - int(menus.smallest(use).sum())
        for amount, use in zip(menus.capacities, menus.uses, strict=True)
    ]
    if any(room < 0 for room in rooms):
        return None
    forgone = most[:, menus.job] - uses
    needs = [int(all_used) - room for all_used, room in zip(most.sum(axis=1), rooms, strict=True)]
    found, tightest = dict[bytes, _Row](), dict[bytes, int]()
    for k in range(len(rooms)):
        if _is_implied(menus, forgone, needs, k):
            continue
        step = int(np.gcd.reduce(uses[k]))
        use, room, ample = uses[k] // step, rooms[k] // step, most[k] // step
        if (key := use.tobytes()) in tightest and tightest[key] <= room:
            continue
        need = int(ample.sum()) - room
        if need <= 0:
            continue
        tightest[key] = room
        found[key] = _Row(ample[menus.job] - use, need, True) if need < room else _Row(use, room, False)
    return list(found.values())


def _is_implied(menus: OptionTable, forgone: NDArray[np.int64], needs: list[int], k: int) -> bool:
    """Return whether what others need, of fewer jobs each and no job twice, adds up to what one needs.

    Of another's need, what its options count beyond what they count here is left out.
    """
    most = np.maximum.reduceat(forgone, menus.offsets[:-1], axis=1)
    touched = (most > 0).sum(axis=1)
    covered = np.zeros(menus.num_jobs, dtype=np.bool_)
    total = 0
    for other in np.argsort(touched, kind="stable").tolist():
        if other == k or touched[other] >= touched[k] or covered[most[other] > 0].any():
            continue
        beyond = np.maximum.reduceat(np.maximum(forgone[other] - forgone[k], 0), menus.offsets[:-1])
        counted = needs[other] - int(beyond.sum())
        if counted > 0:
            total += counted
            covered |= most[other] > 0
    least = np.minimum.reduceat(forgone[k], menus.offsets[:-1])
    return total + int(least[~covered].sum()) >= needs[k]


def _ordered(
    rows: list[_Row], touched: NDArray[np.bool_], common: NDArray[np.int64]
) -> tuple[list[int], list[list[int]]]:
    """Return an order of the jobs, next always one that leaves the smallest table, and what is open.

    Common capacities are not put off: they count as open from the beginning.
    """
    grows = np.log(np.array([row.amount + 1.0 for row in rows]))
    grows[common] = 0.0
    left = touched.sum(axis=1)
    opened = np.zeros(len(rows), dtype=np.bool_)
    waiting = np.ones(touched.shape[1], dtype=np.bool_)
    order, open_before = list[int](), [list[int]()]
    for _ in range(touched.shape[1]):
        # after a job a row is open that was or that it touches, unless it is the last to touch it
        stays = (opened[:, None] | touched) & (left[:, None] - touched > 0)
        size = np.where(waiting, grows @ stays, np.inf)
        job = int(size.argmin())
        waiting[job] = False
        left = left - touched[:, job]
        opened = stays[:, job]
        order.append(job)
        open_before.append(np.flatnonzero(opened).tolist())
    return order, open_before


def _size(rows: list[_Row], opened: list[int]) -> int:
    size = 1
    for k in opened:
        size *= rows[k].amount + 1
    return size
