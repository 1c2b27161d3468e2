"""Rows of the study's table: every policy over first come, first served, and the plan over its rivals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paper_repro.intervals import Mean
from paper_repro.model_similarity.chart import Result, interval
from paper_repro.model_similarity.policies import POLICIES

__all__ = ["pair_rows", "rows"]

_PLAN, _UNKNOWN = "similarity plan, one profile", "similarity plan, unknown jobs"
_PAIRS = (
    (_PLAN, "earliest predicted finish"),
    (_PLAN, "greedy by true speed"),
    (_PLAN, "oracle plan"),
    (_PLAN, "Gavel's makespan program"),
    ("the same, cautious", _PLAN),
    (_UNKNOWN, "earliest predicted finish"),
    (_UNKNOWN, _PLAN),
)
"""A policy, and what it is compared with on the same jobs.

`earliest predicted finish` is given the same predictions and makes no plan; the three after it are told all
true speeds.
"""


def rows(result: Result) -> Iterator[dict[str, Any]]:
    """Yield a row for every policy: its makespan over that of first come, first served."""
    mean, half = interval(result)
    for (name, _, _), ratio, spread in zip(POLICIES, mean.tolist(), half.tolist(), strict=True):
        yield _where(result) | {
            "policy": name,
            "first_come_h": float(result.hours[0]),
            "ratio": ratio,
            "half": spread,
            "less": 1.0 - ratio,
        }


def pair_rows(result: Result) -> Iterator[dict[str, Any]]:
    """Yield a row for every pair: the ratio of their makespans seed by seed, by Student's t."""
    column = {name: number for number, (name, _, _) in enumerate(POLICIES)}
    for ours, theirs in _PAIRS:
        mean = Mean.of((result.relative[:, column[ours]] / result.relative[:, column[theirs]]).tolist())
        yield _where(result) | {
            "policy": ours,
            "over": theirs,
            "ratio": mean.value,
            "half": mean.half,
            "less": 1.0 - mean.value,
            "seeds": mean.count,
        }


def _where(result: Result) -> dict[str, Any]:
    return {"jobs": f"{result.source}: {result.name}", "load": result.jobs}
