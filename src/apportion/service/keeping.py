"""What a service answers when a deadline passed: the last plan, as far as it still fits, checked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from apportion import stored
from apportion.api import check
from apportion.outcome import Termination
from apportion.solution import Certificate, Solution

__all__ = ["kept"]


def kept(instance: Any, plan: bytes | None, why: str) -> bytes:
    """Return a stored document for an instance that was not decided in time.

    Parameters
    ----------
    instance
        The instance.
    plan
        The session's last plan as JSON, ``None`` without one.
    why
        What happened.

    Notes
    -----
    Jobs and nodes that are gone are taken out of the plan. If the checker then refuses it, there is none.
    """
    fitted = None if plan is None else _fitted(instance, msgspec.json.decode(plan))
    report = None if fitted is None else check(instance, fitted)
    feasible = report is not None and report.feasible
    notes = [why]
    if report is not None and not feasible:
        notes.append(f"the last plan does not fit any more: {report.violations[0]}")
    solution = Solution(
        instance=instance,
        backend="last_plan",
        reason="the plan of the session's last decision",
        termination=Termination.TIME_LIMIT,
        plan=fitted if feasible else None,
        report=report if feasible else None,
        certificate=Certificate(report.objective if report and feasible else None, None, None, None, None),
        outcome=None,
        times={},
        seed=0,
        notes=tuple(notes),
    )
    return stored.encode(stored.document(solution))


def _fitted(instance: Any, plan: Mapping[str, Any]) -> dict[str, Any]:
    jobs = {job.id for job in instance.jobs}
    nodes = set(getattr(instance, "nodes", ()))

    def part(given: Any) -> Any:
        return [node for node in given if node in nodes] if isinstance(given, list) and nodes else given

    return {
        name: {job: part(given) for job, given in column.items() if job in jobs}
        if isinstance(column, Mapping)
        else column
        for name, column in plan.items()
    }
