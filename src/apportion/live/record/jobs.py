"""Malleable jobs as they are submitted, and the record the controller keeps of each."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from apportion.core.errors import InvalidInstance, Problem

__all__ = ["DISTRUST", "ENDED", "JOB_ID", "Job", "JobSpec", "JobState", "Point"]

DISTRUST = 3
"""After so many contradictions nothing is learnt from a job's reports any more."""

JOB_ID = re.compile(r"\A[a-z0-9][a-z0-9-]{0,31}\Z")
_TYPE = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_VARIABLE = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]*\Z")
_NODES_LIMIT = 100_000
_CPUS_LIMIT, _MEMORY_LIMIT = 2**16, 2**40
_BYTES_LIMIT = 64 * 1024
"""Of a command, and of an environment: with every character escaped both fit a line to an agent."""


class JobState(StrEnum):
    """What a job is doing."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    """Its ranks were told to stop, to be resized, restarted or cancelled."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a user submits.

    Attributes
    ----------
    command
        The trainer as an argument list; no shell ever sees it.
    min_nodes, max_nodes
        It runs on so many nodes, or on so many GPUs where these are taken one by one, or not at all.
    allowed_counts
        The only counts from min to max that it runs on, rising; empty for all of them.
    directory
        Where it runs, the same path on every node.
    checkpoint
        Folder of its checkpoints, shared by all nodes.
    samples
        Total of samples to train on; ``None``: until the command ends by itself.
    name
        For people.
    environment
        Further environment variables of the trainer.
    curve
        Samples per second by node count, where the user knows them: `[[1, 100.0], [2, 190.0]]`; believed
        until something else is measured.
    curves
        The same for every type of node that it runs on; it runs on no other then. A type of which nothing is
        known has no points.
    cpus_per_rank, memory_mib_per_rank
        What every rank needs, on a whole node or beside its GPU; ``None`` for a share like the others'.

    Raises
    ------
    InvalidInstance
        With every problem found and its JSON path.
    """

    command: tuple[str, ...]
    min_nodes: int
    max_nodes: int
    directory: str
    checkpoint: str
    samples: int | None = None
    name: str = ""
    environment: dict[str, str] = {}
    curve: tuple[tuple[int, float], ...] = ()
    cpus_per_rank: int | None = None
    memory_mib_per_rank: int | None = None
    curves: dict[str, tuple[tuple[int, float], ...]] = {}
    allowed_counts: tuple[int, ...] = ()

    def runs_on_count(self, count: int) -> bool:
        """Return whether the job runs on so many nodes."""
        listed = not self.allowed_counts or count in self.allowed_counts
        return listed and self.min_nodes <= count <= self.max_nodes

    def runs_on(self, type: str) -> bool:
        """Return whether the job runs on a type of node: on any, unless it names some."""
        return not self.curves or type in self.curves

    def curve_on(self, type: str) -> tuple[tuple[int, float], ...]:
        """Return what the user knows of the job's speed on a type of node."""
        return self.curves.get(type, ()) if self.curves else self.curve

    def __post_init__(self) -> None:
        problems = [
            *self._of_command(),
            *self._of_counts(),
            *self._of_paths(),
            *self._of_environment(),
            *self._of_curve(),
            *self._of_needs(),
        ]
        if problems:
            raise InvalidInstance(problems)

    def _of_command(self) -> list[Problem]:
        if not self.command or not self.command[0]:
            return [Problem("$.command", "needs at least the program to run")]
        problems = [
            Problem(f"$.command[{index}]", "holds a NUL character")
            for index, word in enumerate(self.command)
            if "\0" in word
        ]
        if sum(map(len, self.command)) > _BYTES_LIMIT:
            problems.append(Problem("$.command", f"is longer than {_BYTES_LIMIT} characters"))
        return problems

    def _of_counts(self) -> list[Problem]:
        problems = []
        if not 1 <= self.min_nodes <= _NODES_LIMIT:
            problems.append(Problem("$.min_nodes", f"must be from 1 to {_NODES_LIMIT}, not {self.min_nodes}"))
        if not self.min_nodes <= self.max_nodes <= _NODES_LIMIT:
            wrong = f"must be from min_nodes to {_NODES_LIMIT}, not {self.max_nodes}"
            problems.append(Problem("$.max_nodes", wrong))
        counts = self.allowed_counts
        if list(counts) != sorted(set(counts)) or any(
            not self.min_nodes <= count <= self.max_nodes for count in counts
        ):
            problems.append(Problem("$.allowed_counts", "must rise, from min_nodes to max_nodes"))
        if self.samples is not None and not 1 <= self.samples <= 2**53:
            problems.append(Problem("$.samples", f"must be from 1 to 2**53, not {self.samples}"))
        return problems

    def _of_paths(self) -> list[Problem]:
        problems = []
        for key, path in (("directory", self.directory), ("checkpoint", self.checkpoint)):
            if not path.startswith("/") or "\0" in path or len(path) > 4096:
                problems.append(Problem(f"$.{key}", f"must be an absolute path, not {path[:80]!r}"))
        if len(self.name) > 200 or not self.name.isprintable():
            problems.append(Problem("$.name", "must be printable and of at most 200 characters"))
        return problems

    def _of_environment(self) -> list[Problem]:
        problems = []
        for key, value in self.environment.items():
            if not _VARIABLE.match(key) or key.startswith("APPORTION_"):
                wrong = "is no name for a variable" if not _VARIABLE.match(key) else "is set by apportion"
                problems.append(Problem(f"$.environment[{key[:80]!r}]", wrong))
            elif "\0" in value:
                problems.append(Problem(f"$.environment.{key}", "holds a NUL character"))
        if sum(len(key) + len(value) for key, value in self.environment.items()) > _BYTES_LIMIT:
            problems.append(Problem("$.environment", f"is longer than {_BYTES_LIMIT} characters"))
        return problems

    def _of_curve(self) -> list[Problem]:
        problems = _of_points("$.curve", self.curve)
        if self.curve and self.curves:
            problems.append(Problem("$.curves", "cannot stand beside curve, which is of any type"))
        for type, points in self.curves.items():
            path = f"$.curves[{type[:80]!r}]"
            if not _TYPE.match(type):
                problems.append(Problem(path, "is no type of node: letters, digits, and any of . _ -"))
            problems += _of_points(path, points)
        return problems

    def _of_needs(self) -> list[Problem]:
        return [
            Problem(f"$.{key}", f"must be from 1 to {most}, not {value}")
            for key, value, most in (
                ("cpus_per_rank", self.cpus_per_rank, _CPUS_LIMIT),
                ("memory_mib_per_rank", self.memory_mib_per_rank, _MEMORY_LIMIT),
            )
            if value is not None and not 1 <= value <= most
        ]


def _of_points(path: str, points: tuple[tuple[int, float], ...]) -> list[Problem]:
    counts = [count for count, _ in points]
    if counts != sorted(set(counts)) or any(not 1 <= count <= _NODES_LIMIT for count in counts):
        return [Problem(path, "needs node counts that rise from at least 1")]
    if any(not 0 < rate < 1e15 for _, rate in points):
        return [Problem(path, "needs rates above 0 and finite")]
    return []


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measured point of a job's scaling curve.

    Attributes
    ----------
    rate
        Samples per second.
    seconds
        Time over which it was measured.
    """

    rate: float
    seconds: float


@dataclass(slots=True)
class Job:
    """The record of one job.

    Attributes
    ----------
    number
        Order of submission; what policies know it by.
    id
        What users know it by.
    token
        Secret of the running generation's reports.
    rendezvous
        ``HOST:PORT`` at which the running generation's ranks meet.
    generation
        How many times its ranks were started; a change of nodes starts the next one.
    samples
        Samples trained on, by the newest report; falls back to `durable` when ranks end without a
        checkpoint.
    durable
        Samples in the newest checkpoint reported.
    said
        Samples and durable samples by the newest report of every rank that reported in this generation.
    reporter
        The rank whose reports the speed is measured by: the first whose samples rose; ``None`` before.
    claimed
        Samples that the last generation said were in its checkpoint when it stopped; ``None`` if it did not.
    heard_s
        When samples last rose.
    done_rank
        The rank that reported the work complete in this generation.
    type
        Of the nodes that it ran on last; empty where types do not matter.
    curve
        Measured points by node count, on this type.
    curves
        Measured points on other types.
    error
        Relative standard error of the fitted rate by node count, where it was measured or asked for.
    up_s, down_s
        Measured standstill when growing or shrinking; ``None``: not measured yet.
    failures
        Failures in a row without a newer checkpoint in between.
    restarts
        Generations ended so far, for whatever reason.
    inconsistent
        Reports that contradicted others and were not believed.
    dropped
        Reports thrown away because there were too many or they were not valid.
    not_before_s
        It is not started again before this time.
    changed_s
        When `state` was entered.
    why
        Why it was told to stop; empty unless it is stopping.
    hung
        Whether it is being stopped because it reported no progress.
    cancel
        Whether its user cancelled it.
    message
        The last thing worth telling about it.
    """

    number: int
    id: str
    spec: JobSpec
    submitted_s: float
    state: JobState = JobState.QUEUED
    token: str = ""
    rendezvous: str = ""
    generation: int = 0
    samples: int = 0
    durable: int = 0
    said: dict[int, tuple[int, int]] = field(default_factory=dict)
    reporter: int | None = None
    claimed: int | None = None
    heard_s: float = 0.0
    done_rank: int | None = None
    type: str = ""
    curve: dict[int, Point] = field(default_factory=dict)
    curves: dict[str, dict[int, Point]] = field(default_factory=dict)
    error: dict[int, float] = field(default_factory=dict)
    up_s: float | None = None
    down_s: float | None = None
    failures: int = 0
    restarts: int = 0
    inconsistent: int = 0
    dropped: int = 0
    not_before_s: float = 0.0
    changed_s: float = 0.0
    started_s: float | None = None
    ended_s: float | None = None
    why: str = ""
    hung: bool = False
    cancel: bool = False
    message: str = ""

    @property
    def trusted(self) -> bool:
        """Whether the job's reports are believed enough to learn its scaling from them."""
        return self.inconsistent < DISTRUST

    @property
    def ended(self) -> bool:
        """Whether the job will never run again."""
        return self.state in ENDED

    def copy(self) -> Job:
        """Return a copy that may be changed."""
        made = copy(self)
        made.said, made.curve, made.error = dict(self.said), dict(self.curve), dict(self.error)
        made.curves = dict(self.curves)
        return made

    def known_on(self, type: str) -> dict[int, Point]:
        """Return the points measured on a type of node."""
        return self.curve if type == self.type else self.curves.get(type, {})

    def go_to(self, type: str) -> None:
        """Note the type of node that the next generation runs on."""
        if type != self.type:
            known = self.known_on(type)
            self.curves[self.type] = self.curve
            self.curves.pop(type, None)
            self.type, self.curve, self.error = type, known, {}

    def enter(self, state: JobState, now_s: float, message: str | None = None) -> None:
        """Change the state."""
        self.state, self.changed_s = state, now_s
        if state is not JobState.STOPPING:
            self.why, self.hung = "", False
        if message is not None:
            self.message = message[:2000]
        if self.ended:
            self.ended_s = now_s
