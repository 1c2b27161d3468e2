"""Wins and losses of our solver against another, instance by instance; losses first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.reporting.records import Group, Record
from benchmarks.suite.solvers import OURS

__all__ = ["SAME_TIME", "Duel", "Reason", "Score", "duels", "scores"]

SAME_TIME = 1.25
"""Times within this factor are a tie: machines are shared."""
Result = Literal["lost", "tied", "won"]
Reason = Literal["plan", "quality", "proof", "time", "neither"]


@dataclass(frozen=True, slots=True)
class Duel:
    """One instance, ours and another's.

    Attributes
    ----------
    ours, other
        The two records.
    result, reason
        Decided by the first that differs: who has a plan that passed the check, the better plan (beyond the
        gap asked for, at least 1e-6), a proof, less time (by more than `SAME_TIME`).
    ratio
        The other's seconds over ours; ``None`` where one of them did not end by itself.
    """

    group: Group
    ours: Record
    other: Record
    result: Result
    reason: Reason
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """All duels with one solver.

    Attributes
    ----------
    other
        The solver.
    duels
        All of them.
    mean_ratio
        Geometric mean of the time ratios where both plans are as good as the reference; ``None`` without.
    not_run
        Instances on which the other was not run, with the reason of the first.
    """

    other: str
    duels: tuple[Duel, ...]
    mean_ratio: float | None
    not_run: int
    why_not: str

    def count(self, result: Result, reason: Reason | None = None) -> int:
        """Return how many duels ended so."""
        return sum(d.result == result and reason in (None, d.reason) for d in self.duels)

    @property
    def losses(self) -> list[Duel]:
        """The lost ones, the worst kind first, then the largest factor."""
        order = ("plan", "quality", "proof", "time")
        lost = [d for d in self.duels if d.result == "lost"]
        return sorted(lost, key=lambda d: (order.index(d.reason), d.ratio if d.ratio is not None else 0.0))


def duels(groups: Sequence[Group], other: str, ours: str = OURS) -> list[Duel]:
    """Return the duels with one solver, where both ran."""
    found = []
    for group in groups:
        mine, theirs = group.records.get(ours), group.records.get(other)
        if mine is not None and theirs is not None and mine.ran and theirs.ran:
            found.append(_decided(group, mine, theirs))
    return found


def scores(groups: Sequence[Group], others: Sequence[str]) -> list[Score]:
    """Return the scores against several solvers: those we lose most to first, then the closest."""
    made = [_score(groups, other) for other in others]
    return sorted(made, key=lambda s: (-_share(s), s.mean_ratio or math.inf, s.other))


def _share(score: Score) -> float:
    return score.count("lost") / len(score.duels) if score.duels else -1.0


def _score(groups: Sequence[Group], other: str) -> Score:
    fought = duels(groups, other)
    logs = [
        math.log(d.ratio)
        for d in fought
        if d.ratio is not None and d.ours.good and d.other.good and d.ratio > 0
    ]
    absent = [r for g in groups if (r := g.records.get(other)) is not None and not r.ran]
    return Score(
        other=other,
        duels=tuple(fought),
        mean_ratio=math.exp(math.fsum(logs) / len(logs)) if logs else None,
        not_run=len(absent),
        why_not="" if not absent else f"{absent[0].row['termination']}: {absent[0].row.get('told', '')}",
    )


def _decided(group: Group, ours: Record, other: Record) -> Duel:
    ratio = None
    if ours.seconds and other.seconds and other.row["termination"] != "killed":
        ratio = other.seconds / ours.seconds

    def ended(result: Result, reason: Reason) -> Duel:
        return Duel(group, ours, other, result, reason, ratio)

    if ours.gap is None or other.gap is None:
        if ours.gap is None and other.gap is None:
            return ended("tied", "neither")
        return ended("lost" if ours.gap is None else "won", "plan")
    if abs(ours.gap - other.gap) > ours.tolerance:
        return ended("lost" if ours.gap > other.gap else "won", "quality")
    if ours.proven != other.proven:
        return ended("won" if ours.proven else "lost", "proof")
    if ratio is None or 1 / SAME_TIME <= ratio <= SAME_TIME:
        return ended("tied", "time")
    return ended("won" if ratio > 1 else "lost", "time")
