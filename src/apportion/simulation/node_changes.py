"""A trace of idle nodes as the rows a replay walks through: who leaves and who joins at every change.

A row stands for an instant at which the idle set of the chosen nodes changes; the first row is the start,
where the nodes idle then join. These are the rows of BFTrainer's replayer (arXiv:2106.12091), duplicates
removed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidOption
from apportion.simulation.idle_trace import IdleTrace

__all__ = ["NodeChanges", "node_changes"]


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanges:
    """Changes of an idle set, in order of time.

    Attributes
    ----------
    time_s
        float64 [rows], strictly increasing.
    left, joined
        int64: node ids, row after row; ascending within a row.
    left_at, joined_at
        int64 [rows + 1]: row ``k`` has ``left[left_at[k]:left_at[k + 1]]``.
    num_nodes
        Nodes of the machine; ids are below it.
    end_s
        Where the record ends: the last row lasts until then.
    name
        A name for reports.
    """

    time_s: NDArray[np.float64]
    left: NDArray[np.int64]
    left_at: NDArray[np.int64]
    joined: NDArray[np.int64]
    joined_at: NDArray[np.int64]
    num_nodes: int
    end_s: float
    name: str = "trace"

    def __repr__(self) -> str:
        size = f"{self.time_s.size} changes of {self.num_nodes} nodes"
        return f"<NodeChanges {self.name!r}: {size} in {self.end_s:.6g} s>"

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.time_s.size)

    def row(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nodes that leave and those that join at a row."""
        left = self.left[self.left_at[index] : self.left_at[index + 1]]
        return left, self.joined[self.joined_at[index] : self.joined_at[index + 1]]

    def idle_counts(self) -> NDArray[np.int64]:
        """Return int64 [rows]: how many nodes are idle from each row on."""
        return np.cumsum(np.diff(self.joined_at) - np.diff(self.left_at))


def node_changes(
    trace: IdleTrace, num_nodes: int | None = None, start_s: float | None = None, end_s: float | None = None
) -> NodeChanges:
    """Return the changes of the first nodes of a trace over a span of time.

    Parameters
    ----------
    trace
        The intervals in which every node is idle.
    num_nodes
        Only the first this many nodes; all by default.
    start_s, end_s
        Span, seconds since the trace's t0; the trace's own by default.

    Raises
    ------
    InvalidOption
        If the span is not within the trace or `num_nodes` is out of range.
    """
    total = len(trace.names)
    size = total if num_nodes is None else num_nodes
    begin = trace.first_s if start_s is None else float(start_s)
    end = trace.last_s if end_s is None else float(end_s)
    if not 1 <= size <= total:
        raise InvalidOption(f"nodes must be from 1 to {total}, not {num_nodes}")
    if not trace.first_s <= begin < end <= trace.last_s:
        whole = f"{trace.first_s:.12g} to {trace.last_s:.12g} s"
        raise InvalidOption(f"the span must lie within {whole}, not be {begin:.12g} to {end:.12g}")
    inside = (trace.node < size) & (trace.end_s > begin) & (trace.start_s < end)
    node, start, stop = trace.node[inside], trace.start_s[inside], trace.end_s[inside]
    touching = np.flatnonzero((node[1:] == node[:-1]) & (start[1:] == stop[:-1]))
    first, last = np.ones(node.size, dtype=bool), np.ones(node.size, dtype=bool)
    first[touching + 1] = last[touching] = False
    joined, join_s = node[first], np.maximum(start[first], begin)
    left, leave_s = node[last], stop[last]
    left, leave_s = left[leave_s < end], leave_s[leave_s < end]
    times = np.unique(np.concatenate(([begin], join_s, leave_s)))
    left, left_at = _rows(times, leave_s, left)
    joined, joined_at = _rows(times, join_s, joined)
    return NodeChanges(times, left, left_at, joined, joined_at, size, end, trace.name)


def _rows(
    times: NDArray[np.float64], at_s: NDArray[np.float64], node: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.lexsort((node, at_s))
    offsets = np.searchsorted(at_s[order], times, side="left")
    return node[order], np.concatenate((offsets, [node.size])).astype(np.int64)
