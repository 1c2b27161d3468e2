"""Hold an explanation against the truth of the edited instance: worths, rivals, conflicts, ways out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from apportion.explanation.parts import Conflict, Difference, Relaxation, Rival
from apportion.explanation.result import Explanation
from tests.hunt.case import Case
from tests.hunt.compare import Mismatch
from tests.hunt.edited import held, with_more, with_only, without
from tests.hunt.truth import Truth, truth_of

__all__ = ["difference_wrong", "misexplained"]

_PROOF = Fraction(2, 10**9)
"""Relative error of a difference of two optima, each proven to 1e-9 of its own size."""
_TIMED = Fraction(8, 10**9)
"""The same of makespans, whose rules allow overlaps of 1e-9."""
_MOST_TRIED = 3000


def misexplained(case: Case, truth: Truth, explanation: Explanation) -> list[Mismatch]:
    """Return what an explanation says wrongly."""
    if explanation.feasible is not None and explanation.feasible is not (truth.best is not None):
        return [Mismatch("explained_wrongly", f"feasible: {explanation.feasible}, but {truth.best}")]
    found = [Mismatch("worth_wrong", told) for told in _capacities(case, truth, explanation)]
    for job in explanation.jobs:
        for rival in filter(None, (job.runner_up, job.asked, job.unfrozen)):
            wrong = _rival(case, truth, job.job, rival)
            found += [Mismatch("rival_wrong", f"{job.job} on {rival.worth.option}: {wrong}")] if wrong else []
    if truth.best is None and explanation.feasible is None and explanation.termination == "infeasible":
        found.append(Mismatch("unexplained", f"infeasible, but: {list(explanation.notes)}"))
    for relaxation in explanation.relaxations:
        wrong = _relaxation(case, relaxation)
        found += [Mismatch("relaxation_wrong", f"{relaxation}: {wrong}")] if wrong else []
    for conflict in explanation.conflicts:
        wrong = _conflict(case, conflict)
        found += [Mismatch("conflict_wrong", f"{conflict}: {wrong}")] if wrong else []
    return found


def _capacities(case: Case, truth: Truth, explanation: Explanation) -> Iterator[str]:
    for capacity in explanation.capacities:
        if capacity.used + capacity.free != capacity.capacity or capacity.free < 0:
            yield f"{capacity.name}: {capacity.used} used and {capacity.free} free of {capacity.capacity}"
        for step, told in ((1, capacity.one_more), (-1, capacity.one_fewer)):
            if told is None:
                continue
            other = truth_of(case.with_document(with_more(case.document, {capacity.name: step})))
            pair = (other, truth) if step > 0 else (truth, other)
            wrong = difference_wrong(case, *pair, told)
            if wrong:
                yield f"{step:+} {capacity.name}: {wrong}"
            most = capacity.one_more_at_most
            if step > 0 and most is not None and other.best is not None and truth.best is not None:
                sign = 1 if truth.maximize else -1
                true = sign * (other.best - truth.best)
                if true - Fraction(most) > _slack(case, truth, other):
                    yield f"+1 {capacity.name}: at most {most!r} told, is {float(true)!r}"


def _slack(case: Case, truth: Truth, other: Truth) -> Fraction:
    timed = case.document.get("objective") == "makespan"
    size = max(abs(truth.best or 0), abs(other.best or 0), Fraction(1, 10**9))
    return (_TIMED if timed else _PROOF) * size


def difference_wrong(case: Case, better: Truth, worse: Truth, told: Difference) -> str | None:
    """Return what is wrong with a told difference between two optima."""
    if better.best is None or worse.best is None:
        return f"told {told}, but nothing is feasible"
    true = (1 if better.maximize else -1) * (better.best - worse.best)
    slack = _slack(case, better, worse)
    low = told.exact if told.low is None else told.low
    high = told.exact if told.high is None else told.high
    if (low is not None and Fraction(low) - true > slack) or (
        high is not None and true - Fraction(high) > slack
    ):
        return f"told {told}, is {float(true)!r}"
    return None


def _rival(case: Case, truth: Truth, job: str, rival: Rival) -> str | None:
    if rival.possible is None and rival.needed is None:
        return None
    other = truth_of(case.with_document(held(case.document, job, rival.worth.option)))
    if rival.possible is not None and rival.possible is not (other.best is not None):
        return f"possible: {rival.possible}, but {other.best}"
    return None if rival.needed is None else difference_wrong(case, truth, other, rival.needed)


def _feasible(case: Case, document: dict[str, Any]) -> bool:
    return truth_of(case.with_document(document)).best is not None


def _relaxation(case: Case, way: Relaxation) -> str | None:
    told = case.document
    if way.kind == "unpin":
        free = dict.fromkeys(("pinned", "pinned_count", "pinned_machine"))
        jobs = [
            {name: value for name, value in job.items() if job["id"] not in way.unpin or name not in free}
            for job in told["jobs"]
        ]
        lifted = _feasible(case, {**told, "jobs": jobs})
        return None if lifted else f"still nothing is feasible without the pins of {way.unpin}"
    if way.verified and not _feasible(case, without(with_more(told, dict(way.add)), way.leave_out)):
        return "still nothing is feasible"
    if not way.minimal:
        return None
    if way.kind == "leave_out":
        jobs = [job["id"] for job in told["jobs"]]
        fewer = itertools.combinations(jobs, len(way.leave_out) - 1) if way.leave_out else ()
        for some in itertools.islice(fewer, _MOST_TRIED):
            if _feasible(case, without(told, some)):
                return f"leaving out {some} is enough"
        return None
    if len(way.add) == 1:
        name, count = next(iter(way.add.items()))
        if count > 1 and _feasible(case, with_more(told, {name: count - 1})):
            return f"{count - 1} are enough"
    return _cheaper(told, way) if told["kind"] == "multiple_choice_knapsack" else None


def _cheaper(told: dict[str, Any], way: Relaxation) -> str | None:
    """Return a cheaper addition of capacities, by trying all choices of the jobs that must be served."""
    menus = []
    for job in told["jobs"]:
        pinned = job.get("pinned")
        if pinned is None and not job.get("required", True):
            continue
        options = [o for o in job["options"] if o["id"] not in job.get("forbidden", ())]
        menus.append([o["uses"] for o in options if pinned in (None, o["id"])])
    if math.prod(map(len, menus)) > _MOST_TRIED:
        return None
    room = told["capacities"]
    least = min(
        sum(
            Fraction(max(sum(use.get(name, 0) for use in choice) - most, 0), max(most, 1))
            for name, most in room.items()
        )
        for choice in itertools.product(*menus)
    )
    return f"{float(least)!r} is enough" if Fraction(way.cost) - least > _PROOF * (1 + least) else None


def _conflict(case: Case, conflict: Conflict) -> str | None:
    told = case.document
    jobs = [job["id"] for job in told["jobs"]]

    def served(some: tuple[str, ...], capacities: tuple[str, ...]) -> bool:
        others = tuple(name for name in jobs if name not in some)
        return _feasible(case, with_only(without(told, others), capacities))

    if any(machine.get("count", 1) > 1 for machine in told.get("machines", ())):
        others = tuple(name for name in jobs if name not in conflict.jobs)
        return "they can be served together" if _feasible(case, without(told, others)) else None
    if served(conflict.jobs, conflict.capacities):
        return "they can be served together"
    if conflict.irreducible:
        for gone in conflict.jobs:
            left = tuple(name for name in conflict.jobs if name != gone)
            if not served(left, conflict.capacities):
                return f"{gone} is not needed for it"
        for gone in conflict.capacities:
            left = tuple(name for name in conflict.capacities if name != gone)
            if not served(conflict.jobs, left):
                return f"{gone} is not needed for it"
    members = len(conflict.jobs) + len(conflict.capacities)
    names = _capacities_of(told)
    if conflict.smallest and 2 ** len(jobs) * 2 ** len(names) <= _MOST_TRIED / 10:
        for size, width in itertools.product(range(1, members), range(len(names) + 1)):
            if size + width < members:
                for some in itertools.combinations(jobs, size):
                    for few in itertools.combinations(names, width):
                        if not served(some, few):
                            return f"{some} and {few} are a smaller one"
    return None


def _capacities_of(told: dict[str, Any]) -> tuple[str, ...]:
    if told["kind"] == "multiple_choice_knapsack":
        return tuple(told["capacities"])
    if told["kind"] == "matching":
        return tuple(machine["id"] for machine in told["machines"] if machine.get("capacity") is not None)
    if told["kind"] == "freezing":
        return (
            *told["gpus"],
            *(["frozen_penalty"] if told.get("penalty_cap_millionths") is not None else []),
        )
    return ("idle_nodes",)
