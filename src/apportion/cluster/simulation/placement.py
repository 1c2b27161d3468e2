"""Which node was idle when, derived from a log of jobs that says how many nodes each had, not which.

The placement rule, in full:

- Jobs are placed in order of start (of the log among equals), ends before starts at the same second.
- A job gets the free nodes of the lowest numbers (first fit); what exceeds the free ones is cut (logs with
  shared nodes or clock errors overbook the machine).
- A node is idle whenever no job is on it, from the first start to the last end.
- *Maintenance is dropped*: while fewer than 2 % of the nodes are busy, nobody knows that the machine is up;
  all spells are cut out of such windows if they last at least half an hour.
- Spells shorter than 70 s are dropped, as in BFTrainer's Summit trace (arXiv:2106.12091).

First fit keeps high numbers free longest, so spell lengths depend on the rule; counts of idle nodes do not.
"""

from __future__ import annotations

import heapq
import logging

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.cluster.simulation.job_logs import JobLog
from apportion.core.errors import InvalidInstance, Problem

__all__ = ["idle_trace_of_jobs"]

_SHORTEST_S = 70.0
_DOWN_SHARE = 0.02
_DOWN_S = 1800.0
_MOST_NODES = 1_000_000
_MOST_PLACES = 2.0**28
"""Nodes of all jobs together: a spell takes 24 bytes."""


def idle_trace_of_jobs(log: JobLog, machine_nodes: int | None = None) -> IdleTrace:
    """Return the trace of idle nodes of a job log; the module says by which rule.

    Parameters
    ----------
    log
        Begin, end and node count of every job that ran.
    machine_nodes
        Nodes of the machine; by default the log's, or where it does not say the most ever busy, with a
        warning.

    Raises
    ------
    InvalidInstance
        If no idle spell is left, or the machine is larger than what can be placed.
    """
    total = machine_nodes or log.machine_nodes or _told_peak(log)
    if total > _MOST_NODES or float(np.minimum(log.nodes, total).sum(dtype=np.float64)) > _MOST_PLACES:
        wrong = f"has {total:,} nodes and too many jobs on them; at most {_MOST_NODES:,} nodes are placed"
        raise InvalidInstance(Problem(log.name, wrong))
    node, start, end = _spells(log, total)
    for low, high in _down_windows(log, total):
        node, start, end = _cut(node, start, end, low, high)
    kept = end - start >= _SHORTEST_S
    node, start, end = node[kept], start[kept], end[kept]
    if not node.size:
        raise InvalidInstance(Problem(log.name, "no node is ever idle"))
    events = np.unique(np.concatenate((start, end)))
    names = [f"n{index:05d}" for index in range(total)]
    return IdleTrace.from_arrays(node, start, end, events, names, "", log.name)


def _told_peak(log: JobLog) -> int:
    """Return the most nodes ever busy at once, and warn that the machine may have more."""
    peak = _peak(log)
    logging.getLogger("apportion").warning(
        "%s: does not say how many nodes the machine has; taken are %d, the most ever in use at once. "
        "Idle nodes beyond are missed: say how many there are (--machine-nodes)",
        log.name,
        peak,
    )
    return peak


def _peak(log: JobLog) -> int:
    at = np.concatenate((log.end_s, log.start_s))
    change = np.concatenate((-log.nodes, log.nodes))
    return int(np.cumsum(change[np.lexsort((change > 0, at))]).max(initial=1))


def _spells(log: JobLog, total: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Place every job and return the idle spells: node, start, end."""
    idle_since = np.full(total, float(log.start_s.min()))
    busy = np.zeros(total, dtype=bool)
    ends: list[tuple[float, int]] = []
    places: dict[int, NDArray[np.int64]] = {}
    spells: list[tuple[NDArray[np.int64], NDArray[np.float64], float]] = []
    for job in np.argsort(log.start_s, kind="stable").tolist():
        now_s = float(log.start_s[job])
        while ends and ends[0][0] <= now_s:
            end_s, other = heapq.heappop(ends)
            place = places.pop(other)
            busy[place] = False
            idle_since[place] = end_s
        place = np.flatnonzero(~busy)[: int(log.nodes[job])]
        ended = place[idle_since[place] < now_s]
        spells.append((ended, idle_since[ended], now_s))
        busy[place] = True
        places[job] = place
        heapq.heappush(ends, (float(log.end_s[job]), job))
    last_s = float(log.end_s.max())
    while ends:
        end_s, other = heapq.heappop(ends)
        idle_since[places[other]] = end_s
    rest = np.flatnonzero(idle_since < last_s)
    spells.append((rest, idle_since[rest], last_s))
    node = np.concatenate([nodes for nodes, _, _ in spells])
    start = np.concatenate([starts for _, starts, _ in spells])
    return node, start, np.repeat([end for *_, end in spells], [nodes.size for nodes, _, _ in spells])


def _down_windows(log: JobLog, total: int) -> list[tuple[float, float]]:
    """Return the windows in which so few nodes are busy, for so long, that the machine may be down."""
    at = np.concatenate((log.start_s, log.end_s))
    times, index = np.unique(at, return_inverse=True)
    change = np.bincount(index, weights=np.concatenate((log.nodes, -log.nodes)), minlength=times.size)
    low = np.cumsum(change)[:-1] < _DOWN_SHARE * total
    edges = np.flatnonzero(np.diff(np.concatenate(([0], low.astype(np.int8), [0]))))
    windows = [(float(times[begin]), float(times[end])) for begin, end in edges.reshape(-1, 2)]
    return [window for window in windows if window[1] - window[0] >= _DOWN_S]


def _cut(
    node: NDArray[np.int64], start: NDArray[np.float64], end: NDArray[np.float64], low: float, high: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Take a window out of the spells."""
    after = np.flatnonzero((end > high) & (start < high))
    before = np.flatnonzero((start < low) & (end > low))
    clear = np.flatnonzero((end <= low) | (start >= high))
    return (
        np.concatenate((node[clear], node[before], node[after])),
        np.concatenate((start[clear], start[before], np.full(after.size, high))),
        np.concatenate((end[clear], np.full(before.size, low), end[after])),
    )
