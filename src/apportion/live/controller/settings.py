"""The times and limits a controller keeps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType

from apportion.errors import InvalidOption

__all__ = ["Limits"]

_LEAST = MappingProxyType(
    {"trainers": 1, "max_nodes": 1, "failures": 1, "interval_s": 0.05, "measure_s": 0.1, "lease_s": 1}
)
"""Least values of limits that may not be 0."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, and counts.

    Attributes
    ----------
    interval_s
        The scheduler is looked at so often at least.
    gap_s
        Least time between two decisions, so that what happens together is decided together.
    grace_s
        A trainer that was told to stop is killed after this time.
    overdue_s
        A pilot whose ranks have not ended so long after that is ended by the scheduler.
    lease_s
        An agent that hears nothing for so long stops its ranks and ends; so does a controller with an agent.
    connect_s
        A pilot whose agent has not called within this time is given back.
    pending_s
        A pilot that has not started within this time is given up.
    linger_s
        A pilot that serves no job is given back after this time.
    hang_s
        A job whose samples have not risen for so long is restarted; 0: never.
    finish_s
        When one rank has ended well, the others may take so long.
    trainers
        Most jobs that share the idle nodes at a time.
    max_nodes
        Most nodes held at a time, ``None`` for no limit.
    failures
        A job that failed so often in a row, with no newer checkpoint in between, is given up.
    horizon_s
        Forward-looking time: how long nodes are expected to stay as they are.
    stall_s
        Rescale cost assumed of a job before any was measured.
    warm_up_s, measure_s
        Of the profiling advisor.
    """

    interval_s: float = 2.0
    gap_s: float = 1.0
    grace_s: float = 30.0
    overdue_s: float = 15.0
    lease_s: float = 120.0
    connect_s: float = 60.0
    pending_s: float = 15.0
    linger_s: float = 10.0
    hang_s: float = 600.0
    finish_s: float = 60.0
    trainers: int = 10
    max_nodes: int | None = None
    failures: int = 3
    stall_s: float = 15.0
    horizon_s: float = 120.0
    warm_up_s: float = 5.0
    measure_s: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "max_nodes":
                continue
            low = _LEAST.get(field.name, 0)
            if not low <= value < 1e9:
                raise InvalidOption(f"{field.name} must be from {low} to 1e9, not {value}")
