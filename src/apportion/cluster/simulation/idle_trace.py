"""A trace of idle nodes: which node was idle from when to when, and when the idle set changed.

On disk it is an ``.npz`` archive of plain arrays (nothing is unpickled): ``node`` (index into
``node_names``), ``start_s`` and ``end_s`` of every idle interval, ``event_s``, ``node_names`` and ``t0``,
the wall-clock time of second 0 as text. Further arrays are ignored.

A replay walks through it in rows: every instant at which the idle set of the chosen nodes changes, with who
leaves and who joins; the first row is the start, where the nodes idle then join. These are the rows of
BFTrainer's replayer (arXiv:2106.12091), duplicates removed. For those who have no recorded trace one is drawn
after the published figures of Summit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, InvalidOption, Problem, reason
from apportion.instances.gap_filling.generator import spell_lengths

__all__ = [
    "IdleTrace",
    "NodeChanges",
    "generated_trace",
    "node_changes",
    "read_idle_trace",
]


_ARRAYS = {
    "node": ("iu", 1, "integers [intervals]"),
    "start_s": ("iuf", 1, "numbers [intervals]"),
    "end_s": ("iuf", 1, "numbers [intervals]"),
    "event_s": ("iuf", 1, "numbers [events]"),
    "node_names": ("U", 1, "text [nodes]"),
    "t0": ("U", 0, "one text"),
}


@dataclass(frozen=True, slots=True, eq=False)
class IdleTrace:
    """Idle intervals of the nodes of a machine; build one with `from_arrays`.

    Attributes
    ----------
    node
        int64 [intervals]: index of the node in `names`; ordered by node, then by start.
    start_s, end_s
        float64 [intervals]: the node is idle in [start, end), seconds since `t0`.
    event_s
        float64 [events]: the instants at which the idle set changed, strictly increasing.
    names
        Name of every node of the machine.
    t0
        Wall-clock time of second 0.
    name
        A name for reports.
    """

    node: NDArray[np.int64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    event_s: NDArray[np.float64]
    names: tuple[str, ...]
    t0: str = ""
    name: str = "trace"

    def __repr__(self) -> str:
        return f"<IdleTrace {self.name!r}: {len(self.names)} nodes, {self.node.size} idle intervals>"

    @classmethod
    def from_arrays(
        cls, node: Any, start_s: Any, end_s: Any, event_s: Any, names: Any, t0: str = "", name: str = "trace"
    ) -> IdleTrace:
        """Check the arrays once, order the intervals by node and start, and keep read-only copies.

        Raises
        ------
        InvalidInstance
            If shapes disagree, a node index or name is wrong, an interval is empty or overlaps another of its
            node, or the events do not strictly increase.
        """
        nodes = np.asarray(node).astype(np.int64)
        starts, ends, events = (np.asarray(array).astype(np.float64) for array in (start_s, end_s, event_s))
        labels = tuple(str(label) for label in names)
        problems = _problems(nodes, starts, ends, events, labels)
        if problems:
            raise InvalidInstance(problems)
        before = (nodes[:-1] < nodes[1:]) | ((nodes[:-1] == nodes[1:]) & (starts[:-1] < starts[1:]))
        if not before.all():
            order = np.lexsort((starts, nodes))
            nodes, starts, ends = nodes[order], starts[order], ends[order]
        overlap = (nodes[1:] == nodes[:-1]) & (starts[1:] < ends[:-1])
        if overlap.any():
            where = int(np.argmax(overlap))
            twice = f"{starts[where]:.12g} and {starts[where + 1]:.12g} s"
            raise InvalidInstance(
                Problem("$.start_s", f"node {labels[nodes[where]]!r} has overlapping intervals from {twice}")
            )
        for array in (nodes, starts, ends, events):
            array.flags.writeable = False
        return cls(nodes, starts, ends, events, labels, t0, name)

    @property
    def first_s(self) -> float:
        """The first event: the trace says who is idle from here on."""
        return float(self.event_s[0])

    @property
    def last_s(self) -> float:
        """The last event: the trace says who is idle before it, not at it."""
        return float(self.event_s[-1])

    def idle_at(self, seconds: float) -> NDArray[np.int64]:
        """Return the indices of the nodes idle at an instant, in the order of `names`.

        Raises
        ------
        InvalidOption
            If the instant is not in [first_s, last_s).
        """
        if not self.first_s <= seconds < self.last_s:
            span = f"from {self.first_s:.12g} up to but not including {self.last_s:.12g} s"
            raise InvalidOption(
                f"the trace {self.name!r} covers {span} since {self.t0 or 't0'}, not {seconds:.12g}"
            )
        return self.node[(self.start_s <= seconds) & (seconds < self.end_s)]

    def previous_event(self, seconds: float) -> float | None:
        """Return the last event strictly before an instant; ``None`` if there is none."""
        position = int(np.searchsorted(self.event_s, seconds, side="left"))
        return float(self.event_s[position - 1]) if position else None

    def mean_idle(self) -> float:
        """Return the time average of the number of idle nodes from `first_s` to `last_s`."""
        inside = np.minimum(self.end_s, self.last_s) - np.maximum(self.start_s, self.first_s)
        return float(np.maximum(inside, 0.0).sum() / (self.last_s - self.first_s))


def read_idle_trace(path: str | Path) -> IdleTrace:
    """Read a trace from an ``.npz`` archive; its name is the file's stem.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, is no such archive, or an array is missing or wrong; every missing or
        misshapen array is listed.
    """
    path = Path(path)
    arrays = _archive(path)
    problems = []
    for key, (kinds, ndim, expected) in _ARRAYS.items():
        array = arrays.get(key)
        if array is None:
            problems.append(Problem(f"$.{key}", f"is missing; expected {expected}"))
        elif not isinstance(array, np.ndarray):
            problems.append(Problem(f"$.{key}", f"expected {expected}, found no array"))
        elif array.dtype.kind not in kinds or array.ndim != ndim:
            found = f"{array.dtype} {list(array.shape)}"
            problems.append(Problem(f"$.{key}", f"expected {expected}, found {found}"))
    if problems:
        raise InvalidInstance(problems)
    return IdleTrace.from_arrays(
        arrays["node"],
        arrays["start_s"],
        arrays["end_s"],
        arrays["event_s"],
        arrays["node_names"].tolist(),
        str(arrays["t0"]),
        path.stem,
    )


def _archive(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.lib.npyio.NpzFile):
                return {key: archive[key] for key in _ARRAYS if key in archive.files}
    except OSError as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    except Exception as error:  # zipfile, zlib and numpy raise a dozen unrelated kinds on damaged files
        raise InvalidInstance(
            Problem(str(path), f"cannot be read as an .npz archive: {reason(error)}")
        ) from error
    raise InvalidInstance(Problem(str(path), "must be an .npz archive of arrays, is a single array"))


def _problems(
    node: NDArray[np.int64],
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    event_s: NDArray[np.float64],
    names: tuple[str, ...],
) -> list[Problem]:
    if not node.shape == start_s.shape == end_s.shape or node.ndim != 1:
        shapes = f"{list(node.shape)}, {list(start_s.shape)}, {list(end_s.shape)}"
        return [Problem("$.node", f"node, start_s and end_s must be equally long lists, are {shapes}")]
    problems: list[Problem] = []
    if node.size and not (node.min() >= 0 and node.max() < len(names)):
        bad = int(np.argmax((node < 0) | (node >= len(names))))
        problems.append(Problem(f"$.node[{bad}]", f"must be from 0 to {len(names) - 1}, is {node[bad]}"))
    ordered = np.isfinite(start_s) & np.isfinite(end_s) & (start_s < end_s)
    if not ordered.all():
        bad = int(np.argmin(ordered))
        message = f"must exceed start_s {start_s[bad]:.12g}, is {end_s[bad]:.12g}"
        problems.append(Problem(f"$.end_s[{bad}]", message))
    if event_s.ndim != 1 or event_s.size < 2 or not np.isfinite(event_s).all():
        problems.append(Problem("$.event_s", "must hold at least two finite instants"))
    elif (np.diff(event_s) <= 0).any():
        bad = int(np.argmax(np.diff(event_s) <= 0)) + 1
        problems.append(
            Problem(f"$.event_s[{bad}]", f"{event_s[bad]:.12g} does not exceed the event before it")
        )
    if len(set(names)) != len(names) or "" in names:
        problems.append(Problem("$.node_names", "must be distinct names, none empty"))
    return problems


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


_EVENTS_PER_HOUR = ((256, 23.0), (512, 30.6), (1024, 40.6), (2048, 51.5), (4734, 66.7))
"""Published: trace rows per hour on the first nodes of the machine."""
_JOIN_SHARE = 0.55
"""Groups that join per row: 41.0 of the 66.7 rows per hour have joins and 30.8 have departures."""
_JOINS_PER_NODE_HOUR = 1182 / 4734
_WARM_UP_S = 360_000


def generated_trace(seed: int, nodes: int = 1024, days: float = 14.0) -> IdleTrace:
    """Return a trace with the spell and event statistics published for Summit's idle nodes.

    Nodes fall idle in groups, as when a large job ends, and a group leaves together: groups arrive as a
    Poisson process, their sizes are geometric with the mean that gives the published rates of joins and of
    events, their spells follow `apportion.instances.gap_filling.generator.spell_lengths`. The trace
    begins in the steady state. The published number of idle nodes varies more over time than this one.

    Parameters
    ----------
    seed
        Seed of `numpy.random.default_rng`, which draws the trace.
    nodes, days
        Size of the machine and length of the trace.

    Raises
    ------
    InvalidOption
        If a number is out of range.
    """
    if not 0 < days <= 3660 or nodes < 1:
        raise InvalidOption("need days from 0 to 3660 and nodes >= 1")
    rng = np.random.default_rng(seed)
    end_s = max(round(days * 86_400), 60)
    sizes, rates = np.array(_EVENTS_PER_HOUR).T
    per_hour = float(np.exp(np.interp(np.log(nodes), np.log(sizes), np.log(rates)))) * _JOIN_SHARE
    mean_size = max(_JOINS_PER_NODE_HOUR * nodes / per_hour, 1.0)
    per_hour = _JOINS_PER_NODE_HOUR * nodes / mean_size
    count = rng.poisson(per_hour * (end_s + _WARM_UP_S) / 3600)
    begin = np.sort(rng.integers(-_WARM_UP_S, end_s, count) // 10 * 10)
    length = np.maximum(spell_lengths(rng, count) // 10 * 10, 70)
    size = np.minimum(rng.geometric(1.0 / mean_size, count), nodes)
    free_s = np.full(nodes, -np.inf)
    node: list[NDArray[np.int64]] = []
    kept: list[int] = []
    for group in range(count):
        busy = np.flatnonzero(free_s < begin[group])
        first = int(rng.integers(nodes))
        chosen = busy[np.arange(first, first + min(int(size[group]), busy.size)) % max(busy.size, 1)]
        free_s[chosen] = begin[group] + length[group]
        node.append(chosen)
        kept.append(chosen.size)
    start = np.repeat(begin, kept)
    stop = np.minimum(start + np.repeat(length, kept), end_s)
    start = np.maximum(start, 0)
    inside = stop > start
    events = np.unique(np.concatenate(([0, end_s], start[inside], stop[inside])))
    return IdleTrace.from_arrays(
        np.concatenate(node)[inside] if node else [],
        start[inside],
        stop[inside],
        events,
        [f"n{index:04d}" for index in range(nodes)],
        "",
        f"generated seed={seed}",
    )
