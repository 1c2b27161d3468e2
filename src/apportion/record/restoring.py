"""A stored document as the solution it came from, so that it can be explained and compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.api import check
from apportion.outcome import Termination
from apportion.solution import Certificate, Solution

__all__ = ["restored"]


def restored(instance: Any, document: Mapping[str, Any]) -> Solution:
    """Return the solution that a document was written from; its plan is checked again."""
    plan, certificate = document["plan"], document["certificate"]
    report = None if plan is None else check(instance, plan)
    return Solution(
        instance=instance,
        backend=document["backend"],
        reason=document["reason"],
        termination=Termination(document["termination"]),
        plan=plan,
        report=report,
        certificate=Certificate(
            objective=None if report is None else report.objective,
            bound=document["bound"],
            source=certificate["source"],
            verified_bound=document["verified_bound"],
            multipliers=certificate["multipliers"],
        ),
        outcome=None,
        times=document["times"],
        seed=document["seed"],
        notes=tuple(document["notes"]),
        confirmed=document.get("evidence") == "by_search",
    )
