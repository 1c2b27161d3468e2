"""Is there a schedule of jobs that hold some of a pool's machines each, within a length? In integers.

A schedule in which no job can begin earlier while all others stay has every start at 0 or where another job
ends. So the search goes through the moments at which jobs end: there it begins a job that fits, or waits for
the next end. What stands idle until then is lost, and no more may be lost than machines times length exceed
the jobs' work (Lesh, Marks, McMahon, Mitzenmacher 2004, "Exhaustive approaches to 2D rectangular perfect
packings"). Nor may it wait past the moment at which a job must begin, or long enough for one to fit in. Of
two equally wide jobs that follow each other the longer goes first: they may change places. No schedule is
lost by these rules: one with the least sum of starts, weighted by the squares of the times, keeps to all.

The compiled twin `schedule_tree_c` changes the same arrays in the same way, node by node; where it is not
built or is switched off (`apportion.solvers.compiled`), the Python below runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.compiled import load
from apportion.solvers.search.depth_first import Status

__all__ = ["LARGEST", "ScheduleTree", "available"]

LARGEST = 2**62
"""Machines times length stay below."""

_DEPTH, _NODES, _LIMIT, _LEFT, _COUNT, _LENGTH, _BUDGET = range(7)
_FIELDS = 5
"""Of a level: the moment, the free machines, the idle time so far, what is next, and the job begun."""


def available() -> bool:
    """Whether the compiled search was built and is switched on."""
    return load("search.schedule_tree_c") is not None


@dataclass(slots=True, eq=False)
class ScheduleTree:
    """A search that can be stopped and taken up again; build one with `begin`.

    Attributes
    ----------
    order
        int64 [jobs]: the jobs as they are tried, the widest first and of these the longest.
    times, widths
        int64 [jobs], in that order.
    end
        int64 [jobs], in that order: when each ends, -1 before it is begun.
    level
        int64 [2 jobs + 2, 5]: the moment, the free machines, the idle time so far, what is to be tried next
        (a job, then waiting), and the job begun, or -1 for waiting.
    control
        int64 [7]: the depth, the nodes so far, the nodes at which to return, the jobs left, the machines, the
        length, and the idle time there may be in all.
    """

    order: NDArray[np.int64]
    times: NDArray[np.int64]
    widths: NDArray[np.int64]
    end: NDArray[np.int64]
    level: NDArray[np.int64]
    control: NDArray[np.int64]

    @classmethod
    def begin(
        cls, times: NDArray[np.int64], widths: NDArray[np.int64], count: int, length: int
    ) -> ScheduleTree:
        """Return a search at its root.

        Parameters
        ----------
        times
            int64 [jobs] above 0, at least one job.
        widths
            int64 [jobs] from 1 to `count`: machines that a job holds at the same time.
        count
            Machines of the pool.
        length
            When all must have ended; times `count` below `LARGEST`.
        """
        order = np.lexsort((-times, -widths))
        work = sum(time * width for time, width in zip(times.tolist(), widths.tolist(), strict=True))
        budget = count * length - work if int(times.max()) <= length else -1
        level = np.zeros((2 * times.size + 2, _FIELDS), dtype=np.int64)
        level[0, 1] = count
        return cls(
            order=order,
            times=np.ascontiguousarray(times[order], dtype=np.int64),
            widths=np.ascontiguousarray(widths[order], dtype=np.int64),
            end=np.full(times.size, -1, dtype=np.int64),
            level=level,
            control=np.array([0, 0, 0, times.size, count, length, max(budget, -1)], dtype=np.int64),
        )

    @property
    def nodes(self) -> int:
        """How many nodes were looked at so far."""
        return int(self.control[_NODES])

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64 [jobs]: when each job begins, in the order given, after `Status.FOUND`."""
        starts = np.empty_like(self.end)
        starts[self.order] = self.end - self.times
        return starts

    def run(self, nodes: int) -> Status:
        """Search on until a schedule, the end of the tree, or `nodes` more nodes."""
        if self.control[_BUDGET] < 0:
            return Status.EXHAUSTED
        self.control[_LIMIT] = self.control[_NODES] + nodes
        compiled = load("search.schedule_tree_c")
        if compiled is None:
            return self._run_uncompiled()
        return Status(compiled.run(self.times, self.widths, self.end, self.level, self.control))

    def _run_uncompiled(self) -> Status:
        times, widths, end = self.times.tolist(), self.widths.tolist(), self.end.tolist()
        level = self.level.tolist()
        depth, nodes, limit, left, count, length, budget = self.control.tolist()
        jobs, status = len(times), Status.OUT_OF_NODES
        while nodes < limit:
            now, free, idle, job, _ = at = level[depth]
            while job < jobs and not _startable(times, widths, end, now, free, job):
                job += 1
            at[3] = min(job + 1, jobs + 1)
            if job < jobs:
                nodes += 1
                end[job], at[4] = now + times[job], job
                depth, left = depth + 1, left - 1
                if left == 0:
                    status = Status.FOUND
                    break
                level[depth][:4] = now, free - widths[job], idle, job + 1
                continue
            if job == jobs:
                waited = _waited(times, widths, end, (now, free, idle), length, budget)
                if waited is not None:
                    nodes += 1
                    at[4] = -1
                    depth += 1
                    level[depth][:4] = *waited, 0
                continue
            if depth == 0:
                status = Status.EXHAUSTED
                break
            depth -= 1
            if level[depth][4] >= 0:
                end[level[depth][4]] = -1
                left += 1
        self.end[:], self.level[:] = end, level
        self.control[:] = depth, nodes, limit, left, count, length, budget
        return status


def _startable(times: list[int], widths: list[int], end: list[int], now: int, free: int, job: int) -> bool:
    """Return whether a job may begin: of alike ones the first, after no shorter one that is as wide."""
    if end[job] >= 0 or widths[job] > free:
        return False
    if job and end[job - 1] < 0 and (times[job - 1], widths[job - 1]) == (times[job], widths[job]):
        return False
    rest = range(job + 1, len(times))
    return not any(end[i] == now and widths[i] == widths[job] and times[i] < times[job] for i in rest)


def _waited(
    times: list[int], widths: list[int], end: list[int], at: tuple[int, int, int], length: int, budget: int
) -> tuple[int, int, int] | None:
    """Return the moment of the next end, the free machines and the idle time then; ``None``: no waiting."""
    now, free, idle = at
    following = min((one for one in end if one > now), default=None)
    if following is None or idle + free * (following - now) > budget:
        return None
    for time, width, over in zip(times, widths, end, strict=True):
        # too late then, or it would fit in before: begun now it is no later, and nothing else is moved
        if over < 0 and (following + time > length or (width <= free and time <= following - now)):
            return None
    freed = sum(width for width, over in zip(widths, end, strict=True) if over == following)
    return following, free + freed, idle + free * (following - now)
