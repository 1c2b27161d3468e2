"""What was harvested in a stretch of time, to whom, and what the main queue felt of it: from the journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Harvested", "Hour", "harvested"]

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
