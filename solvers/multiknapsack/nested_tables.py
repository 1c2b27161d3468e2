"""Tables over the capacities that are open: exact where most capacities concern a few jobs each, and nest.

Jobs are decided one after the other. A capacity is open from the first job that touches it to the last, and
a state is what is left of the open ones:

    F_j(room) = max_i v_ji + F_(j+1)(room - u_ji)

Where the jobs of a tenant stand together, the limits and floors of all other tenants are closed, and a table
has an entry per room of the common capacities and of one tenant's own. This is dynamic programming with an
order of elimination (Bertele and Brioschi, *Nonserial Dynamic Programming*, Academic Press, 1972); whatever
linear relaxations leave open, its answer is the optimum.

The last jobs of a beam pass, decided at once: their combinations are listed and matched with the states.

Matching W states with B combinations looks at W B complete choices for the price of comparisons, as in the
meeting in the middle of Horowitz and Sahni (*Computing partitions with applications to the knapsack problem*,
JACM 21(2), 1974).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.exact_sums import over_columns, product
from apportion.solvers.multiknapsack.entropic_dual import EntropicDual
from apportion.solvers.multiknapsack.option_table import OptionTable

__all__ = ["NestedTables", "Tails", "list_tails", "match", "nested_tables"]


_PER_TAIL = 6
"""Combinations weighed per combination kept."""
_BLOCK = 2_000_000
"""Pairs compared at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Combinations of options of the last jobs.

    Attributes
    ----------
    loss
        float64 [combinations].
    uses
        float64 [combinations, capacities].
    options
        int32 [combinations, tail jobs], in the order of the jobs.
    complete
        Whether no combination of loss within reach was left out.
    """

    loss: NDArray[np.float64]
    uses: NDArray[np.float64]
    options: NDArray[np.int32]
    complete: bool


def list_tails(
    menus: OptionTable,
    smoothed: EntropicDual,
    live: NDArray[np.bool_],
    jobs: NDArray[np.int64],
    spread: NDArray[np.float64],
    most: int,
    allowed: float,
    late: Callable[[], bool],
) -> Tails | None:
    """List the combinations of some jobs, the likeliest first to stay where there are too many.

    Parameters
    ----------
    menus, tilt, live
        As in the pass.
    jobs
        int64 [tail jobs].
    spread
        float64 [capacities, capacities]: covariance of these jobs' use and of the slack.
    most
        Combinations kept at most.
    allowed
        Loss beyond which a combination is of no interest.
    late
        Asked once per job; true ends the listing with ``None``.
    """
    num_caps = menus.num_capacities
    loss, uses = np.zeros(1), np.zeros((1, num_caps))
    options = np.zeros((1, 0), dtype=np.int32)
    complete = True
    metric = np.linalg.inv(spread) * (smoothed.temperature / 2)
    centre = np.zeros(num_caps)
    for job in jobs:
        if late():
            return None
        start, stop = menus.offsets[job], menus.offsets[job + 1]
        choices = np.flatnonzero(live[start:stop]) + start
        centre = centre + smoothed.mean[:, job]
        after = (loss[:, None] + smoothed.loss[choices][None, :]).ravel()
        kept = np.flatnonzero(after <= allowed)
        if kept.size > _PER_TAIL * most:
            # Too dear to weigh them all: those of least loss are.
            kept = kept[np.argpartition(after[kept], _PER_TAIL * most)[: _PER_TAIL * most]]
            complete = False
        parent, pick = np.divmod(kept, choices.size)
        total = uses[parent] + menus.uses[:, choices].T[pick]
        if kept.size > most:
            away = total - centre
            score = after[kept] + (product(away, metric) * away).sum(axis=1)
            nearest = np.argpartition(score, most)[:most]
            kept, parent, pick, total = kept[nearest], parent[nearest], pick[nearest], total[nearest]
            complete = False
        loss, uses = after[kept], total
        options = np.column_stack((options[parent], choices[pick].astype(np.int32)))
    return Tails(loss, uses, options, complete)


def match(
    residual: NDArray[np.float64],
    loss: NDArray[np.float64],
    tails: Tails,
    weights: NDArray[np.float64],
    allowed: float,
    late: Callable[[], bool],
) -> tuple[int, int] | None:
    """Return the state and the tail that fit together at the least total loss, slack included.

    Parameters
    ----------
    residual, loss
        float64 [states, capacities] and [states].
    tails
        The combinations.
    weights
        float64 [capacities]: prices of the slack left.
    allowed
        Total loss at most.
    late
        Asked once per block; true ends the comparison with the best pair so far.
    """
    fronts = loss + over_columns(residual, weights)
    backs = tails.loss - over_columns(tails.uses, weights)
    order = np.argsort(backs, kind="stable")
    backs, uses = backs[order], tails.uses[order]
    best: tuple[int, int] | None = None
    rows = max(1, _BLOCK // max(1, backs.size))
    by_front = np.argsort(fronts, kind="stable")
    for start in range(0, by_front.size, rows):
        if late():
            break
        block = by_front[start : start + rows]
        # Pairs whose total is within reach: a prefix of the sorted tails for every state.
        reach = int(np.searchsorted(backs, allowed - fronts[block[0]], side="right"))
        if reach == 0:
            break
        fits = uses[None, :reach, 0] <= residual[block, 0][:, None] + 1e-9
        fits &= backs[None, :reach] <= (allowed - fronts[block])[:, None]
        for k in range(1, min(3, residual.shape[1])):
            fits &= uses[None, :reach, k] <= residual[block, k][:, None] + 1e-9
        front, back = np.nonzero(fits)
        for k in range(3, residual.shape[1]):
            good = uses[back, k] <= residual[block[front], k] + 1e-9
            front, back = front[good], back[good]
        if front.size:
            totals = fronts[block[front]] + backs[back]
            least = int(np.argmin(totals))
            if best is None or totals[least] < allowed:
                best = (int(block[front[least]]), int(order[back[least]]))
                allowed = float(totals[least])
    return best


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
                found, better = (residual[: most.size].reshape(most.shape) for residual in rooms)
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
    if any(residual < 0 for residual in rooms):
        return None
    forgone = most[:, menus.job] - uses
    needs = [int(all_used) - residual for all_used, residual in zip(most.sum(axis=1), rooms, strict=True)]
    found, tightest = dict[bytes, _Row](), dict[bytes, int]()
    for k in range(len(rooms)):
        if _is_implied(menus, forgone, needs, k):
            continue
        step = int(np.gcd.reduce(uses[k]))
        use, residual, ample = uses[k] // step, rooms[k] // step, most[k] // step
        if (key := use.tobytes()) in tightest and tightest[key] <= residual:
            continue
        need = int(ample.sum()) - residual
        if need <= 0:
            continue
        tightest[key] = residual
        found[key] = (
            _Row(ample[menus.job] - use, need, True) if need < residual else _Row(use, residual, False)
        )
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
