"""What harvesting came to: node time idle, held and used, samples trained and lost, added up step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from apportion.live.record.state import Hold, State

__all__ = ["Account", "Ledger"]

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


class Ledger:
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
