"""What one solve call was asked and in which formulation, and its log: seconds by phase, what was refused."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from apportion.core.extension_points import loaded
from apportion.core.options import SolveOptions
from apportion.instances.kinds import Instance, ProblemType, kind_of
from apportion.instances.tenants.ledger import is_tenanted
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.compiled_model import ARRAYS, ASSIGNMENT
from apportion.solving.registry import FORMULATIONS, FormulationEntry, formulation

__all__ = ["Call", "Log", "Subject", "alternative", "entry_of", "kind_of_any", "levels_entry_of"]


Subject = Instance | MultipleChoiceKnapsack | Assignment
"""Whatever may be solved."""


def kind_of_any(subject: Subject) -> ProblemType:
    """Return the kind of an instance or of a bare model; ``TypeError`` for anything else."""
    if isinstance(subject, Assignment):
        return ASSIGNMENT
    return ARRAYS if isinstance(subject, MultipleChoiceKnapsack) else kind_of(subject)


def entry_of(subject: Subject, name: str | None) -> FormulationEntry:
    """Return the formulation of a name; without one the first of the kind that takes what is solved.

    Raises
    ------
    InvalidOption
        If the kind has none of that name.
    """
    kind = kind_of_any(subject)
    first = formulation(kind.name, name)
    for which in first.where_large if name is None else ():
        if (other := alternative(subject, which)) is not None:
            return other
    if name is not None or first.produces == "knapsack" or not is_tenanted(subject):
        return first
    sums = kind.option_set is not None and kind.option_set.sums(subject)
    entries = FORMULATIONS[kind.name].values()
    return next(one for one in entries if (one.produces == "knapsack" if sums else one.levels is not None))


def levels_entry_of(subject: Subject, name: str | None) -> FormulationEntry:
    """Return the formulation in which the levels of tenants are asked; see `entry_of`."""
    entry = entry_of(subject, name)
    return entry if entry.levels is None else entry.levels


def alternative(subject: Subject, which: tuple[str, str] | None) -> FormulationEntry | None:
    """Return the formulation that an entry names where what it asks of an instance is so, else ``None``."""
    if which is None or not loaded(which[0])(subject):
        return None
    return formulation(kind_of_any(subject).name, which[1])


class Log:
    """Seconds by phase and notes in words, written down as they come.

    Attributes
    ----------
    times
        Wall-clock seconds by phase.
    notes
        What was refused on the way, in words.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self.times: dict[str, float] = {}
        self.notes: list[str] = []

    @property
    def elapsed(self) -> float:
        """Wall-clock seconds since the call began."""
        return time.perf_counter() - self._began

    def lap(self, phase: str) -> None:
        """Book the time since the last lap under a phase, on top of what stands there."""
        self.times[phase] = self.times.get(phase, 0.0) + self.elapsed - sum(self.times.values())

    def note(self, text: str) -> None:
        """Write a note down."""
        self.notes.append(text)


@dataclass(frozen=True, slots=True)
class Call:
    """One solve call.

    Attributes
    ----------
    instance, kind
        What is to be solved, as it was given.
    options
        As they were given; see `remaining`.
    log
        What the steps write down.
    """

    instance: Subject
    kind: ProblemType
    options: SolveOptions
    log: Log = field(default_factory=Log)

    @property
    def maximizes(self) -> bool:
        """Whether a larger objective is better."""
        return self.kind.maximizes(self.instance)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left of the time limit, a millisecond at least; ``None`` without one."""
        limit = self.options.time_limit
        return None if limit is None else max(limit - self.log.elapsed, 1e-3)

    def remaining(self) -> SolveOptions:
        """Return the options with the time that is left of the limit."""
        left = self.seconds_left
        return self.options if left is None else self.options.within(left)

    def within(self, seconds: float) -> Call:
        """Return the same call with a limit so many seconds from now."""
        return replace(self, options=self.options.within(self.log.elapsed + seconds))

    def is_late(self) -> bool:
        """Return whether the time is up."""
        left = self.seconds_left
        return left is not None and left <= 2e-3
