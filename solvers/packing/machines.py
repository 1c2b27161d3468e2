"""Put jobs onto the alike machines of a pool, or show that they do not fit there.

Jobs that use alike are dealt out one machine after another, which is exact. Others are counted first (of the
jobs that use t or more of a machine, at most capacity // t lie on each), then searched, the largest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from apportion.models.packing import MachinePacking
from apportion.solvers.packing.few_moves import Placement

__all__ = ["pack_machines"]

_STEPS = 200_000
"""Places tried until a packing counts as undecided."""
_CORE_STEPS = 5_000
"""The same for every attempt to show as much with fewer jobs."""
_CORE_JOBS = 40
"""Jobs up to which fewer of them are looked for that do not fit either."""

_Held = list[tuple[int, ...]]


def pack_machines(packing: MachinePacking) -> Placement:
    """Place the jobs of one pool.

    Returns
    -------
    Placement
        Without nodes either `weights`, the one number t that refutes by counting, or `core`, the jobs that do
        not fit together; neither where the search was given up.
    """
    size = _count_refutes(packing)
    if size is not None:
        return Placement(None, proven=True, weights=(size,))
    found = _searched(packing, _STEPS)
    if found.held is not None or not found.complete:
        return Placement(found.held, proven=found.complete)
    return Placement(None, proven=True, core=_core(packing))


def _count_refutes(packing: MachinePacking) -> int | None:
    """Return a use that too many jobs reach, ``None`` where counting shows nothing."""
    for size in sorted({use for use in packing.uses if use}, reverse=True):
        held = sum(gpus for gpus, use in zip(packing.gpus, packing.uses, strict=True) if use >= size)
        if held > packing.count * (packing.capacity // size):
            return size
    return None


@dataclass(slots=True)
class _Search:
    """A search for places, the machines told apart by the room that is left on them alone."""

    packing: MachinePacking
    order: list[int]
    steps: int
    complete: bool = True
    held: _Held | None = None
    dead: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def go(self, at: int, room: list[int], held: dict[int, tuple[int, ...]]) -> bool:
        """Return whether the jobs from a place of the order on were placed."""
        if at == len(self.order):
            self.held = [held[job] for job in range(len(self.order))]
            return True
        known = (at, tuple(sorted(room)))
        if known in self.dead:
            return False
        job = self.order[at]
        for machines in _ways(room, self.packing.gpus[job], self.packing.uses[job]):
            if self.steps <= 0:
                self.complete = False
                return False
            self.steps -= 1
            for one in machines:
                room[one] -= self.packing.uses[job]
            held[job] = machines
            if self.go(at + 1, room, held):
                return True
            for one in machines:
                room[one] += self.packing.uses[job]
        if self.complete:
            self.dead.add(known)
        return False


def _searched(packing: MachinePacking, steps: int) -> _Search:
    order = sorted(
        range(len(packing.jobs)), key=lambda job: (-packing.uses[job], -packing.gpus[job], packing.jobs[job])
    )
    search = _Search(packing, order, steps)
    machines = min(packing.count, sum(packing.gpus))
    if len({use for use in packing.uses if use}) <= 1:
        search.held = _dealt(packing, machines)
        return search
    if len(order) > 300:  # deeper than Python goes
        search.complete = False
        return search
    search.go(0, [packing.capacity] * machines, {})
    return search


def _dealt(packing: MachinePacking, machines: int) -> _Held:
    """Return a round-robin start; for equal uses it is feasible whenever the counting bound holds."""
    found, at = _Held(), 0
    for gpus, use in zip(packing.gpus, packing.uses, strict=True):
        if use:
            found.append(tuple(sorted((at + k) % machines for k in range(gpus))))
            at += gpus
        else:
            found.append(tuple(range(gpus)))
    return found


def _ways(room: list[int], gpus: int, use: int) -> list[tuple[int, ...]]:
    """Return every choice of machines that differs in the room on them, the fullest machines first."""
    alike = [
        list(group)
        for _, group in groupby(
            sorted((k for k, left in enumerate(room) if left >= use), key=lambda k: (room[k], k)),
            key=lambda k: room[k],
        )
    ]

    def chosen(at: int, left: int) -> list[tuple[int, ...]]:
        if left == 0:
            return [()]
        if at == len(alike) or left > sum(map(len, alike[at:])):
            return []
        most = min(left, len(alike[at]))
        return [
            (*alike[at][:taken], *rest)
            for taken in range(most, -1, -1)
            for rest in chosen(at + 1, left - taken)
        ]

    return [tuple(sorted(one)) for one in chosen(0, gpus)]


def _core(packing: MachinePacking) -> tuple[int, ...]:
    """Return jobs that do not fit together, fewer than all where that shows quickly."""
    kept = list(range(len(packing.jobs)))
    for job in sorted(kept, key=lambda one: packing.uses[one] * packing.gpus[one]):
        if len(packing.jobs) > _CORE_JOBS:
            break
        fewer = [one for one in kept if one != job]
        part = _part(packing, fewer)
        if _count_refutes(part) is not None:
            kept = fewer
            continue
        tried = _searched(part, _CORE_STEPS)
        if tried.held is None and tried.complete:
            kept = fewer
    return tuple(packing.jobs[one] for one in kept)


def _part(packing: MachinePacking, kept: Sequence[int]) -> MachinePacking:
    def those(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(values[one] for one in kept)

    return replace(packing, jobs=those(packing.jobs), gpus=those(packing.gpus), uses=those(packing.uses))
