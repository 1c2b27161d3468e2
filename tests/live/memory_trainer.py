"""Trainers and pilots of the cluster in memory: what they are told, do and say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from apportion.live.channel.messages import Exited, Run
from apportion.live.cluster import PilotState

__all__ = ["MemoryPilot", "MemoryTrainer"]


@dataclass(slots=True)
class MemoryTrainer:
    """A job's trainer: what is in its checkpoint, and how it behaves.

    Attributes
    ----------
    rate
        Samples per second by node count.
    saved
        Samples in the checkpoint: what was really trained on.
    save_every_s
        A checkpoint is written so often.
    says
        What it reports in place of the true total of samples.
    claims
        The rate it claims in place of none.
    hangs
        Whether it makes no progress and does not listen to SIGTERM.
    fails
        Whether it ends with exit code 1 at once.
    """

    rate: Callable[[int], float]
    saved: int = 0
    save_every_s: float = 5.0
    says: Callable[[int], int] = int
    claims: float | None = None
    hangs: bool = False
    fails: bool = False
    made: float = 0.0
    saved_s: float = 0.0
    began_s: float | None = None


@dataclass(slots=True)
class MemoryPilot:
    """A pilot with its agent."""

    pilot: str
    node: str
    token: str
    handle: str
    state: PilotState
    ready_s: float
    run: Run | None = None
    stop_s: float | None = None
    kill_s: float | None = None
    started_s: float = 0.0
    reported_s: float | None = None
    exits: dict[tuple[str, int], Exited] = field(default_factory=dict)
    seen: set[tuple[str, int]] = field(default_factory=set)
    never: set[tuple[str, int]] = field(default_factory=set)
    silent: bool = False
    forgotten: bool = False
    left_s: float | None = None
    heard_s: float = 0.0
