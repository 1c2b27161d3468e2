"""The controller's journal: one JSON object a line, in files of bounded size, the oldest thrown away.

A file's name is a number that only grows and never changes, so that whoever reads while the controller writes
meets every line once: nothing is renamed under a reader.

`harvested` adds up from it what harvesting came to: node time idle, held and used, samples trained and lost,
to whom, and what the main queue felt of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from apportion.live.record.state import Hold, State

__all__ = ["Account", "HarvestTotals", "Harvested", "Hour", "Journal", "harvested", "read_journal"]


_HOUR_S = 3600.0


@dataclass(slots=True)
class Hour:
    """Node hours of one hour: idle and not held, held, and used by jobs' ranks."""

    idle: float = 0.0
    held: float = 0.0
    used: float = 0.0


@dataclass(slots=True)
class Harvested:
    """The sums of a stretch of time.

    Attributes
    ----------
    since_s, until_s
        The stretch, in the controller's seconds.
    watched_h
        Hours of it in which a controller ran; nothing is known of the others.
    hours
        By number of the hour since `since_s`.
    used, samples, undone
        Node hours, samples trained and samples lost, by job.
    returns_s
        Of every node that the main queue took back, seconds from when Slurm began to end the pilot to when
        the controller saw it gone. It looks now and then: the main queue waited so long at most.
    gone
        Nodes that went without a word of the agent: nothing is known of how long that took.
    troubles
        Steps at which something kept new work from being begun, by event.
    """

    since_s: float
    until_s: float
    watched_h: float = 0.0
    hours: dict[int, Hour] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)
    undone: dict[str, int] = field(default_factory=dict)
    returns_s: list[float] = field(default_factory=list)
    gone: int = 0
    troubles: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> Hour:
        """The sums of all hours."""
        every = self.hours.values()
        return Hour(*(sum(getattr(hour, name) for hour in every) for name in ("idle", "held", "used")))


_TROUBLES = frozenset({"node_lost", "not_taken", "invalid_plan", "orphan", "wrong_token", "refused"})


def harvested(events: Iterable[dict[str, Any]], since_s: float, until_s: float) -> Harvested:
    """Add up the journal's events from `since_s` to `until_s`."""
    found = Harvested(since_s, until_s)
    leaving: dict[str, float] = {}
    for event in events:
        kind, time_s = event.get("event"), float(event["time_s"])
        if not since_s <= time_s <= until_s:
            continue
        if kind == "account":
            _account(found, event, time_s)
        elif kind == "node_leaves" and not str(event.get("reason", "")).startswith("nothing heard"):
            leaving[str(event.get("pilot"))] = time_s
        elif kind in ("released", "node_gone") and (pilot := str(event.get("pilot"))) in leaving:
            found.returns_s.append(max(time_s - leaving.pop(pilot), 0.0))
        elif kind == "node_gone":
            found.gone += 1
        elif kind in _TROUBLES:
            found.troubles[str(kind)] = found.troubles.get(str(kind), 0) + 1
    return found


def _account(found: Harvested, event: dict[str, Any], time_s: float) -> None:
    seconds = float(event["seconds"])
    found.watched_h += seconds / _HOUR_S
    hour = found.hours.setdefault(int((time_s - found.since_s) // _HOUR_S), Hour())
    hour.idle += event["idle"] / _HOUR_S
    hour.held += event["held"] / _HOUR_S
    hour.used += sum(event["used"].values()) / _HOUR_S
    for job, node_s in event["used"].items():
        found.used[job] = found.used.get(job, 0.0) + node_s / _HOUR_S
    for name in ("samples", "undone"):
        sums = getattr(found, name)
        for job, count in event[name].items():
            sums[job] = sums.get(job, 0) + count


_LONGEST_S = 60.0
"""A step that took longer was none: the machine slept, and what nodes did meanwhile is not known."""


@dataclass(slots=True)
class Account:
    """Sums over a stretch of time.

    Attributes
    ----------
    seconds
        How long it was.
    idle, held, lost
        Node seconds: idle and not held; held by pilots; held on nodes that are out of reach (part of `held`).
    used
        Node seconds on which a job's ranks ran, by job.
    samples, undone
        Samples trained, and samples lost because no checkpoint held them, by job.
    """

    seconds: float = 0.0
    idle: float = 0.0
    held: float = 0.0
    lost: float = 0.0
    used: dict[str, float] = field(default_factory=dict)
    samples: Counter[str] = field(default_factory=Counter)
    undone: Counter[str] = field(default_factory=Counter)

    def event(self, now_s: float) -> dict[str, object]:
        """Return the account as an event of the journal."""
        rounded = {job: round(node_s, 3) for job, node_s in self.used.items()}
        return {
            "time_s": round(now_s, 3),
            "event": "account",
            **{name: round(getattr(self, name), 3) for name in ("seconds", "idle", "held", "lost")},
            "used": rounded,
            "samples": dict(self.samples),
            "undone": dict(self.undone),
        }


class HarvestTotals:
    """Adds up what nodes and jobs did from one step to the next.

    Attributes
    ----------
    open
        The account since `close` was last called.
    nodes
        Nodes, or GPUs where these are taken one by one, at the last step: idle, held, used and lost.
    """

    def __init__(self) -> None:
        self.open = Account()
        self.nodes = {"idle": 0, "held": 0, "used": 0, "lost": 0}
        self._users: Counter[str] = Counter()
        self._samples: dict[str, int] = {}
        self._at_s: float | None = None

    def step(self, state: State, idle: Collection[str], now_s: float) -> None:
        """Take in a step: the state after it, and the idle nodes last seen."""
        self._add(now_s)
        live = [pilot for pilot in state.pilots.values() if pilot.live]
        ranks = [rank for rank in state.ranks.values() if rank.live]
        taking = Counter(pilot.node for pilot in live if pilot.hold is Hold.TAKING)
        whole = {pilot.node for pilot in live if pilot.share is None}
        self.nodes = {
            "idle": (Counter(node for node in idle if node not in whole) - taking).total(),
            "held": len(live),
            "used": len({rank.pilot for rank in ranks}),
            "lost": sum(pilot.lost_s is not None for pilot in live),
        }
        self._users = Counter(state.jobs[rank.job].id for rank in ranks if rank.job in state.jobs)
        for job in state.jobs.values():
            more = job.samples - self._samples.get(job.id, job.samples if self._at_s is None else 0)
            if more:
                (self.open.samples if more > 0 else self.open.undone)[job.id] += abs(more)
            self._samples[job.id] = job.samples
        self._at_s = now_s

    def close(self) -> Account:
        """Return the account and begin the next one."""
        closed, self.open = self.open, Account()
        return closed

    def _add(self, now_s: float) -> None:
        seconds = 0.0 if self._at_s is None else now_s - self._at_s
        if not 0.0 < seconds <= _LONGEST_S:
            return
        self.open.seconds += seconds
        for name in ("idle", "held", "lost"):
            setattr(self.open, name, getattr(self.open, name) + seconds * self.nodes[name])
        for job, count in self._users.items():
            self.open.used[job] = self.open.used.get(job, 0.0) + seconds * count


_FOLDER = "journal"
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class Journal:
    """Writes a state folder's journal; the folder's lock is the caller's.

    A disk that is full costs lines and nothing else: nodes are not left because a journal cannot be written.

    Parameters
    ----------
    folder
        The state folder.
    limit
        Bytes of a file; the line that goes beyond it is its last.
    kept
        How many files are kept, the one that is written included.

    Attributes
    ----------
    lost
        Lines that could not be written.
    """

    def __init__(self, folder: Path, limit: int, kept: int) -> None:
        self._folder, self._limit, self._kept = folder / _FOLDER, limit, kept
        self.lost = 0
        self._file: int | None = None
        self._number = max(_numbers(self._folder), default=0)

    def write(self, events: Iterable[Mapping[str, object]]) -> None:
        """Append events, all of them in one file."""
        lines = [_ENCODER.encode(event) + b"\n" for event in events]
        if not lines:
            return
        try:
            self._append(b"".join(lines))
        except OSError:
            self.lost += len(lines)
            self.close()

    def close(self) -> None:
        """Close the file; the next line opens a new one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, data: bytes) -> None:
        if self._file is not None and os.fstat(self._file).st_size >= self._limit:
            self.close()
        if self._file is None:
            self._file = self._opened()
        written = 0
        while written < len(data):
            written += os.write(self._file, data[written:])

    def _opened(self) -> int:
        """Open the newest file if there is room in it, else the next one, and throw the oldest away."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        newest = _path(self._folder, self._number)
        if newest.exists() and newest.stat().st_size < self._limit:
            file = os.open(newest, _FLAGS)
            if newest.read_bytes()[-1:] not in (b"", b"\n"):
                os.write(file, b"\n")  # it ends in half a line
            return file
        self._number += 1
        file = os.open(_path(self._folder, self._number), _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        for number in _numbers(self._folder):
            if number <= self._number - self._kept:
                _path(self._folder, number).unlink(missing_ok=True)
        return file


def read_journal(folder: Path, since_s: float = 0.0) -> Iterator[dict[str, Any]]:
    """Yield the events of a state folder from a time on, in the order in which they were written.

    A controller may write meanwhile. Half a line, of a machine that went down or a full disk, is left out.
    """
    for number in _numbers(folder / _FOLDER):
        try:
            lines = _path(folder / _FOLDER, number).read_bytes().split(b"\n")
        except FileNotFoundError:  # thrown away since it was listed
            continue
        for line in lines[:-1]:
            try:
                event = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            time_s = event.get("time_s")
            if isinstance(time_s, int | float) and time_s >= since_s:
                yield event


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdecimal())


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:08d}.jsonl"
