"""What-if questions: edits drawn for an instance, and the comparison held against the truth of both sides."""

from __future__ import annotations

import copy
from fractions import Fraction
from random import Random
from typing import Any

import msgspec

import apportion
from apportion.explanation import what_if
from apportion.explanation.comparison import Comparison
from apportion.instances.draft import edits_of
from tests.hunt.case import Case
from tests.hunt.compare import Mismatch
from tests.hunt.edited import questioned
from tests.hunt.explained import difference_wrong
from tests.hunt.truth import Truth, truth_of

__all__ = ["drawn_edits", "miscompared"]

Told = dict[str, Any]
_ROUNDING = Fraction(1, 10**9)


def drawn_edits(rng: Random, told: Told) -> Told:
    """Return edits of an instance; some are refused, which is an answer."""
    edits: Told = {}
    jobs = [job["id"] for job in told["jobs"]]
    if rng.random() < 0.6:
        names = _capacities(told)
        steps = (-2, -1, -1, 1, 1, 2, 5)
        edits["capacity"] = {
            n: rng.choice(steps) for n in rng.sample(names, min(len(names), rng.randint(1, 2)))
        }
    if jobs and rng.random() < 0.3:
        edits["remove_jobs"] = rng.sample(jobs, 1)
    if jobs and rng.random() < 0.3:
        new = copy.deepcopy(next(job for job in told["jobs"] if job["id"] == rng.choice(jobs[:1])))
        new["id"] = "new"
        new.pop("current", None)
        if told["kind"] == "gap_filling":
            new["current_nodes"] = []
        edits["add_jobs"] = [new]
    left = [job for job in told["jobs"] if job["id"] not in edits.get("remove_jobs", ())]
    if left and rng.random() < 0.4:
        job = rng.choice(left)
        options = _options(told, job)
        if options:
            edits["pin"] = {job["id"]: rng.choice(options)}
    if told["kind"] == "gap_filling" and told["nodes"] and rng.random() < 0.3:
        edits["remove_nodes"] = [rng.choice(told["nodes"])]
    if told["kind"] == "matching" and rng.random() < 0.2:
        machine = rng.choice(told["machines"])
        edits["remove_nodes"] = [rng.choice((machine["id"], f"{machine['id']}[0]"))]
    pinned = [job["id"] for job in left if job.get("pinned") or job.get("pinned_count") is not None]
    if pinned and rng.random() < 0.5:
        edits["unpin"] = rng.sample(pinned, 1)
    budgeted = [job["id"] for job in left if job.get("budget_frozen_s") is not None]
    if budgeted and rng.random() < 0.5:
        edits["budget"] = {rng.choice(budgeted): rng.choice((-10.0, 5.0, 40.0))}
    return edits


def _capacities(told: Told) -> list[str]:
    if told["kind"] == "gap_filling":
        return ["idle_nodes"]
    if told["kind"] == "multiple_choice_knapsack":
        return list(told["capacities"])
    if told["kind"] == "freezing":
        return [
            *told["gpus"],
            *(["frozen_penalty"] if told.get("penalty_cap_millionths") is not None else []),
        ]
    return [machine["id"] + what for machine in told["machines"] for what in ("", ".count")]


def _options(told: Told, job: Told) -> list[str]:
    if told["kind"] == "gap_filling":
        return ["0", str(job["min_nodes"]), str(job["max_nodes"])]
    if told["kind"] == "multiple_choice_knapsack":
        return [option["id"] for option in job["options"]]
    if told["kind"] == "matching":
        return [*job["on"], "-"]
    rows = [(f"{row['gpus']}x{row['gpu_type']}", depth) for row in job["menu"] for depth in row["depths"]]
    return ["waiting", *(place for place, _ in rows), *(f"{place}, {d} layers frozen" for place, d in rows)]


def miscompared(case: Case, truth: Truth, solution: apportion.Solution, edits: Told) -> list[Mismatch]:
    """Ask what if, and return what the comparison says wrongly; a refusal of the edits says nothing."""
    subject = solution.instance
    given = dict(edits)
    if "add_jobs" in given:
        kind = edits_of(subject).job_type
        given["add_jobs"] = [msgspec.convert(job, kind) for job in given["add_jobs"]]
    try:
        comparison = what_if(subject, solution=solution, **given)
    except apportion.InvalidInstance:
        return []
    after = truth_of(case.with_document(questioned(case.document, edits)))
    return [Mismatch("what_if_wrong", told) for told in _wrong(case, truth, after, comparison)]


def _cancelled(told: Told) -> Fraction:
    """Return what rounding may leave where gain and loss of a job of gap filling cancel."""
    if told["kind"] != "gap_filling":
        return Fraction(0)
    terms = (
        Fraction(job.get("weight", 1.0))
        * max(map(Fraction, job["scaling"]["rate"]))
        * (Fraction(told["horizon_s"]) + Fraction(job["rescale_up_s"]) + Fraction(job["rescale_down_s"]))
        for job in told["jobs"]
    )
    return sum(terms, Fraction(0)) / 2**46


def _wrong(case: Case, before: Truth, after: Truth, comparison: Comparison) -> list[str]:
    wrong = []
    sides = (
        ("before", before, comparison.objective_before, comparison.termination_before),
        ("after", after, comparison.objective_after, comparison.termination_after),
    )
    for name, truth, objective, ended in sides:
        if (truth.best is None and objective is not None) or (
            truth.best is not None and ended == "infeasible"
        ):
            wrong.append(f"{name}: {objective!r}, {ended}, but the optimum is {truth.best}")
    if wrong or comparison.gain is None:
        return wrong
    told = difference_wrong(case, after, before, comparison.gain)
    if told:
        wrong.append(f"the gain: {told}")
    if comparison.proven and (comparison.gain.exact is None):
        wrong.append("proven, but no exact gain")
    if case.document.get("objective") != "makespan" and comparison.change is not None:
        sign = 1 if comparison.sense == "maximize" else -1
        total = sum((Fraction(job.gain) for job in comparison.jobs), Fraction(0))
        size = sum(
            abs(Fraction(job.value_before)) + abs(Fraction(job.value_after)) for job in comparison.jobs
        )
        size += abs(Fraction(comparison.objective_before or 0)) + abs(
            Fraction(comparison.objective_after or 0)
        )
        if abs(total - sign * Fraction(comparison.change)) > _ROUNDING * size + _cancelled(case.document):
            wrong.append(f"jobs gain {float(total)!r}, the objective {sign * comparison.change!r}")
    return wrong
