"""Which node was idle when, derived from a log of jobs that says which nodes each had, or how many.

A log that names nodes is taken at its word: a node is busy while any job is on it. Where it only counts them,
jobs are placed by this rule:

- Jobs are placed in order of start (of the log among equals), ends before starts at the same second.
- A job gets the free nodes of the lowest numbers (first fit); what exceeds the free ones is cut. Clock errors
  overbook a machine by a little; if more than 1 % of the node hours are cut, jobs shared nodes or the machine
  is larger, and the log is refused.

In both:

- A node is idle whenever no job is on it, from the first start to the last end.
- *Maintenance is dropped*: while fewer than 2 % of the nodes are busy, nobody knows that the machine is up;
  all spells are cut out of such windows if they last at least half an hour.
- Spells shorter than 70 s are dropped, as in BFTrainer's Summit trace (arXiv:2106.12091).

First fit keeps high numbers free longest, so spell lengths depend on the rule; counts of idle nodes do not.
"""

from __future__ import annotations

import heapq
import logging
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.cluster.simulation.job_logs import JobLog
from apportion.core.errors import InvalidInstance, Problem

__all__ = ["MOST_CUT", "idle_trace_of_jobs"]

_SHORTEST_S = 70.0
_DOWN_SHARE = 0.02
_DOWN_S = 1800.0
MOST_CUT = 0.01
"""Share of the node hours of a log that may not fit the machine, unless more is allowed."""
_MOST_NODES = 1_000_000
_MOST_PLACES = 2.0**28
"""Nodes of all jobs together: a spell takes 24 bytes."""


def idle_trace_of_jobs(
    log: JobLog, machine_nodes: int | None = None, most_cut: float = MOST_CUT
) -> IdleTrace:
    """Return the trace of idle nodes of a job log; the module says by which rule.

    Parameters
    ----------
    log
        Begin, end and node count of every job that ran.
    machine_nodes
        Nodes of the machine; by default the log's, or where it does not say the most ever busy, with a
        warning.
    most_cut
        Share of the recorded node hours that may not fit the machine.

    Raises
    ------
    InvalidInstance
        If no idle spell is left, the machine is larger than what can be placed or smaller than what the log
        names, or more of the node hours than `most_cut` do not fit it.
    """
    total = machine_nodes or log.machine_nodes or _told_peak(log)
    if total < len(log.node_names):
        wrong = f"names {len(log.node_names):,} nodes, the machine is said to have {total:,}"
        raise InvalidInstance(Problem(log.name, wrong))
    if total > _MOST_NODES or float(np.minimum(log.nodes, total).sum(dtype=np.float64)) > _MOST_PLACES:
        wrong = f"has {total:,} nodes and too many jobs on them; at most {_MOST_NODES:,} nodes are placed"
        raise InvalidInstance(Problem(log.name, wrong))
    if log.places is None:
        spells, busy = _placed(log, total)
    else:
        spells, busy = _named(log, log.places, total)
    recorded = float(np.dot(log.nodes, log.end_s - log.start_s)) if log.places is None else busy.node_seconds
    logging.getLogger("apportion").info(
        "%s: %d rows, %d jobs; %.6g node hours recorded, %.6g placed on %d nodes",
        *(log.name, log.rows, log.start_s.size, recorded / 3600, busy.node_seconds / 3600, total),
    )
    if busy.node_seconds < (1 - most_cut) * recorded:
        wrong = (
            f"its jobs had {recorded / 3600:,.1f} node hours, of which {busy.node_seconds / 3600:,.1f} fit "
            f"on {total:,} nodes: jobs shared nodes (then name them, NodeList of sacct), rows count cores "
            "(--cores-per-node), or the machine is larger (--machine-nodes); --most-cut lets it be"
        )
        raise InvalidInstance(Problem(log.name, wrong))
    node, start, end = spells
    for low, high in _down_windows(busy, total):
        node, start, end = _cut(node, start, end, low, high)
    kept = end - start >= _SHORTEST_S
    node, start, end = node[kept], start[kept], end[kept]
    if not node.size:
        raise InvalidInstance(Problem(log.name, "no node is ever idle"))
    events = np.unique(np.concatenate((start, end)))
    names = [*log.node_names, *(f"n{index:05d}" for index in range(total - len(log.node_names)))]
    if len(set(names)) < total:  # made names that the log has, too
        names[len(log.node_names) :] = [f"unnamed {index}" for index in range(total - len(log.node_names))]
    return IdleTrace.from_arrays(node, start, end, events, names, "", log.name)


def _told_peak(log: JobLog) -> int:
    """Return the most nodes ever busy at once, and warn that the machine may have more."""
    peak = len(log.node_names) or _peak(log)
    logging.getLogger("apportion").warning(
        "%s: does not say how many nodes the machine has; taken are %d, the most ever in use. "
        "Idle nodes beyond are missed: say how many there are (--machine-nodes)",
        log.name,
        peak,
    )
    return peak


def _peak(log: JobLog) -> int:
    at = np.concatenate((log.end_s, log.start_s))
    change = np.concatenate((-log.nodes, log.nodes))
    return int(np.cumsum(change[np.lexsort((change > 0, at))]).max(initial=1))


_Spells = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Node, start and end of idle spells."""


class _Busy(NamedTuple):
    """How many nodes are busy when: `change` at `times`, and what that adds up to."""

    times: NDArray[np.float64]
    change: NDArray[np.int64]
    node_seconds: float


def _named(log: JobLog, places: NDArray[np.int64], total: int) -> tuple[_Spells, _Busy]:
    """Return the idle spells of nodes that a log names, each busy while any job is on it.

    Laid end to end, a window as long as the log for every node, all busy intervals become those of one line,
    and the greatest end so far says where none runs.
    """
    first, last = float(log.start_s.min()), float(log.end_s.max())
    window = math.ceil(last - first) + 1.0
    start, end = log.start_s[places[:, 0]] - first, log.end_s[places[:, 0]] - first
    at = places[:, 1] * window
    order = np.argsort(at + start, kind="stable")
    begins, until = (at + start)[order], np.maximum.accumulate((at + end)[order])
    opens = np.concatenate(([True], begins[1:] > until[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    node = places[order, 1][opens]
    start, end = begins[opens] - node * window + first, until[closes] - node * window + first
    busy = _Busy(
        np.concatenate((start, end)),
        np.repeat(np.array([1, -1]), node.size),
        float((end - start).sum()),
    )
    edge = np.flatnonzero(np.diff(node, prepend=-1))  # the first busy interval of every node
    tail = np.append(edge[1:], node.size) - 1
    before = np.full(node.size, first)
    before[1:] = end[:-1]
    before[edge] = first
    quiet = np.setdiff1d(np.arange(total), node)
    spells = (
        np.concatenate((node, node[tail], quiet)),
        np.concatenate((before, end[tail], np.full(quiet.size, first))),
        np.concatenate((start, np.full(tail.size + quiet.size, last))),
    )
    some = spells[1] < spells[2]
    return (spells[0][some], spells[1][some], spells[2][some]), busy


def _placed(log: JobLog, total: int) -> tuple[_Spells, _Busy]:
    """Place every job of a log that counts nodes and return the idle spells."""
    placed_s = 0.0
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
        placed_s += place.size * (float(log.end_s[job]) - now_s)
        heapq.heappush(ends, (float(log.end_s[job]), job))
    last_s = float(log.end_s.max())
    while ends:
        end_s, other = heapq.heappop(ends)
        idle_since[places[other]] = end_s
    rest = np.flatnonzero(idle_since < last_s)
    spells.append((rest, idle_since[rest], last_s))
    node = np.concatenate([nodes for nodes, _, _ in spells])
    start = np.concatenate([starts for _, starts, _ in spells])
    end = np.repeat([end for *_, end in spells], [nodes.size for nodes, _, _ in spells])
    times, change = np.concatenate((log.start_s, log.end_s)), np.concatenate((log.nodes, -log.nodes))
    return (node, start, end), _Busy(times, change, placed_s)


def _down_windows(busy: _Busy, total: int) -> list[tuple[float, float]]:
    """Return the windows in which so few nodes are busy, for so long, that the machine may be down."""
    times, index = np.unique(busy.times, return_inverse=True)
    change = np.bincount(index, weights=busy.change, minlength=times.size)
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
