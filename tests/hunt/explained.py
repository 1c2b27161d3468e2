"""Hold what an explanation says against the truth of the edited instance: capacities, conflicts, ways out."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

from apportion.explanation.result import Explanation
from tests.hunt.case import Case
from tests.hunt.compare import Mismatch
from tests.hunt.truth import Truth, truth_of

__all__ = ["EXPLAINED", "misexplained"]

EXPLAINED = ("gap_filling", "multiple_choice_knapsack")
"""Kinds whose explanations are held against the truth."""
_PROOF = Fraction(2, 10**9)
"""Relative error of a difference of two optima, each proven to 1e-9 of its own size."""


def misexplained(case: Case, truth: Truth, explanation: Explanation) -> list[Mismatch]:
    """Return what an explanation says wrongly."""
    if explanation.feasible is not None and explanation.feasible is not (truth.best is not None):
        return [Mismatch("explained_wrongly", f"feasible: {explanation.feasible}, but {truth.best}")]
    found: list[Mismatch] = []
    for capacity in explanation.capacities:
        for step, told in ((1, capacity.one_more), (-1, capacity.one_fewer)):
            if told is None or told.exact is None:
                continue
            other = truth_of(case.with_document(_with(case.document, {capacity.name: step})))
            wrong = _difference(truth, other, told.exact, step)
            if wrong:
                found.append(Mismatch("worth_wrong", f"{step:+} {capacity.name}: {wrong}"))
    for relaxation in explanation.relaxations:
        if not relaxation.verified:
            continue
        edited = _with(case.document, dict(relaxation.add))
        for job in edited["jobs"]:
            if job["id"] in relaxation.leave_out:
                job.update(required=False, pinned=None, pinned_count=None)
        if case.kind == "gap_filling" and relaxation.leave_out:
            edited["jobs"] = [job for job in edited["jobs"] if job["id"] not in relaxation.leave_out]
        if truth_of(case.with_document(edited)).best is None:
            found.append(Mismatch("relaxation_wrong", f"{relaxation}: still nothing is feasible"))
    for conflict in explanation.conflicts:
        alone = copy.deepcopy(case.document)
        alone["jobs"] = [job for job in alone["jobs"] if job["id"] in conflict.jobs]
        if truth_of(case.with_document(alone)).best is not None:
            found.append(Mismatch("conflict_wrong", f"{conflict.jobs} can be served together"))
    return found


def _difference(truth: Truth, other: Truth, told: float, step: int) -> str | None:
    """Return what is wrong with a told difference between two optima."""
    if other.best is None or truth.best is None:
        return f"told {told!r}, but nothing is feasible"
    sign = 1 if truth.maximize else -1
    true = sign * step * (other.best - truth.best)
    slack = _PROOF * max(abs(truth.best), abs(other.best), Fraction(1, 10**9))
    if abs(Fraction(told) - true) <= slack:
        return None
    return f"told {told!r}, is {float(true)!r}"


def _with(told: dict[str, Any], more: dict[str, int]) -> dict[str, Any]:
    """Return an instance with capacities larger or smaller; a node that is taken away is one nobody holds."""
    edited = copy.deepcopy(told)
    for name, count in more.items():
        if told["kind"] == "multiple_choice_knapsack":
            edited["capacities"][name] += count
        elif count > 0:
            edited["nodes"] += [f"more-{k}" for k in range(count)]
        else:
            held = {node for job in edited["jobs"] for node in job.get("current_nodes", ())}
            free = [node for node in edited["nodes"] if node not in held] or edited["nodes"]
            edited["nodes"].remove(free[-1])
    return edited
