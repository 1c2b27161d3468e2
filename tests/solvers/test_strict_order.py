"""Goals in strict order, then who is stopped and moved: against enumeration, forged, interrupted, limited."""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.instances.options import OneSum
from apportion.io.stored import document, verify
from apportion.proofs.certificate import encode
from apportion.solvers import strict_order
from tests.budgets import examples
from tests.hunt.in_order import BACKENDS, drawn, wrong


def test_rounds_of_every_kind_against_enumeration() -> None:
    """Jobs were given back one by one: an exchange of two was never seen, 41 of 80 were stopped.

    `python -m tests.hunt.in_order --count 20000` draws as many as one likes.
    """
    for number in range(examples(600)):
        rng = Random(f"in order 0 {number}")
        instance = drawn(rng)
        assert list(wrong(instance, rng.choice(BACKENDS), rng)) == [], number


def menus(**fields: Any) -> Any:
    """Return two jobs that want one place, of which the first has it."""
    head = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    jobs = [
        {
            "id": name,
            "required": False,
            "options": [{"id": "run", "value": 5.0, "uses": {"gpu": 2}, "goals": {"cores": cores}}],
        }
        for name, cores in (("a", 1), ("b", 3))
    ]
    jobs[0]["current"] = "run"
    goals = [{"name": "cores"}]
    return apportion.read({**head, "capacities": {"gpu": 2}, "jobs": jobs, "goals": goals, **fields})


@pytest.mark.parametrize("backend", ["auto", "highs", "cp-sat"])
def test_a_goal_comes_before_keeping_and_a_limit_on_changes_before_both(backend: str) -> None:
    free = apportion.solve(menus(), backend)
    assert free.plan == {"choice": {"b": "run"}}
    assert [(one.name, one.value, one.bound) for one in free.goals] == [
        ("cores", 3, 3),
        ("jobs stopped", 1, 1),
        ("jobs moved", 0, 0),
    ]
    kept = apportion.solve(menus(max_changes=0), backend)
    assert kept.plan == {"choice": {"a": "run"}} and [goal.value for goal in kept.goals] == [1, 0, 0]


@pytest.mark.parametrize("backend", ["auto", "highs", "cp-sat"])
def test_guarantees_are_kept_within_a_limit_on_changes(backend: str) -> None:
    """`b` is owed the place that `a` has: only a change gives it to `b`, and no share counts changes."""
    jobs = [{**job, "tenant": job["id"]} for job in menus().to_dict()["jobs"]]
    tenants = [{"id": "a"}, {"id": "b", "quotas": {"gpu": {"guarantee": 2}}}]
    for most, has, noted in ((0, "a", True), (1, "b", False)):
        solution = apportion.solve(menus(jobs=jobs, tenants=tenants, max_changes=most), backend)
        assert solution.plan == {"choice": {has: "run"}} and str(solution.termination) == "optimal"
        said = "guarantees cannot be kept together beside jobs that must run and within max_changes"
        assert (f"{said}; not kept for b" in solution.notes) == noted
        assert solution.floors == ({} if noted else {"b": 2})
    text = str(apportion.explain(solution.instance, solution))
    assert "max_changes: 1 of 1 used" in text and "1 max_changes" in text


def test_a_proof_shows_objective_and_goals_at_once() -> None:
    instance = menus()
    solution = apportion.solve(instance, proof=True)
    assert solution.proof is not None
    record = document(solution, proof_name="proof")
    lines = {line.claim: line.verdict for line in verify(instance, record, encode(solution.proof)).claims}
    assert lines["goal cores"] == "derived" and lines["goal jobs stopped"] == "word"
    # without it the bound of the goal is a search's word, and one that the plan beats is refused
    lines = {line.claim: line.verdict for line in verify(instance, record).claims}
    assert lines["goal cores"] == "word"
    for change in ({"value": 4}, {"bound": 2}, {"sense": "minimize"}):
        forged = {**record, "goals": [{**record["goals"][0], **change}, *record["goals"][1:]]}
        assert not verify(instance, forged, encode(solution.proof)).ok, change
    assert not verify(instance, {**record, "goals": record["goals"][1:]}, encode(solution.proof)).ok
    untold = {name: value for name, value in record.items() if name != "goals"}
    assert "goals" in verify(instance, untold).words


def test_keeping_what_runs_can_be_left_out() -> None:
    free = apportion.solve(menus(goals=[], jobs=[]), keep_running=False)
    assert free.goals == ()
    with pytest.raises(apportion.InvalidOption, match="keep_running must be true or false"):
        apportion.solve(menus(), keep_running=1)  # type: ignore[arg-type]


def test_arrays_take_goals_as_columns() -> None:
    values = np.array([[5.0, 1.0, 2.0], [5.0, 3.0, 9.0], [5.0, 3.0, 4.0]])
    model = apportion.MultipleChoiceKnapsack.from_arrays(values, [2, 2, 2], [0, 1, 3], [2], required=False)
    solution = apportion.solve(model)
    assert solution.require().tolist() == [-1, 1]
    assert [(goal.name, goal.value, goal.proven) for goal in solution.goals] == [
        ("goal 2", 3, True),
        ("goal 3", 9, True),
    ]
    with pytest.raises(apportion.InvalidInstance, match="must be whole numbers"):
        apportion.MultipleChoiceKnapsack.from_arrays([[1.0, 0.5]], [1], [0, 1], [1])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"goals": [{"name": "x"}]},
            r"\$\.jobs\[0\]\.options\[0\]\.goals\.cores: is not one of the instance's",
        ),
        ({"goals": [{"name": "cores"}, {"name": "cores"}]}, "goal"),
        ({"goals": [{"name": "cores", "sense": "most"}]}, "sense"),
        ({"goals": [{"name": "cores"}, {"name": "jobs moved"}]}, "must not be 'jobs moved'"),
        ({"max_changes": -1}, "max_changes"),
    ],
)
def test_goals_that_are_none_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(apportion.InvalidInstance, match=said):
        menus(**fields)


def test_a_limit_between_goals_says_which_is_open() -> None:
    rng = np.random.default_rng(3)
    jobs = 2_000
    values = np.column_stack([np.ones(jobs), rng.integers(1, 10**6, (jobs, 2))])
    uses = rng.integers(1, 10**6, (jobs, 3))
    model = apportion.MultipleChoiceKnapsack.from_arrays(
        values, uses, np.arange(jobs + 1), [10**8] * 3, required=False
    )
    solution = apportion.solve(model, time_limit=1.0)
    first, second = solution.goals
    assert solution.plan is not None and not second.proven and second.bound is None
    assert first.bound is None or first.bound >= first.value


def test_a_busy_machine_leaves_no_small_round_open(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """A machine that was away for 50 ms left `jobs stopped` open: a part of the work is ended by no clock."""
    seconds = count()
    monkeypatch.setattr(strict_order, "perf_counter", lambda: float(next(seconds)))
    for name in ("gap_filling_small", "freezing_small", "three_teams"):
        goals = apportion.solve(apportion.read(root / "examples" / f"{name}.json"), time_limit=600.0).goals
        assert len(goals) == 2 and all(goal.proven for goal in goals), name


@pytest.mark.parametrize("backend", ["exact", "highs"])
def test_ctrl_c_while_ties_are_looked_at_keeps_the_optimum(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    plain = {"id": "a", "current": "run", "options": [{"id": "run", "value": 1.0, "uses": {"gpu": 1}}]}
    instance = menus(goals=[], jobs=[plain])
    monkeypatch.setattr("apportion.solvers.strict_order.least_change", interrupted)
    solution = apportion.solve(instance, backend=backend)
    assert (solution.termination.value, solution.objective) == ("interrupted", 1.0)


def test_a_session_keeps_goals_while_jobs_come_and_change() -> None:
    """What is compiled anew is spliced in, goals and the number of changes as values are."""
    rng = Random("session of goals")
    session = apportion.Session(menus(max_changes=1))
    for number in range(12):
        session.add_job(
            id=f"new {number}",
            options=[{"id": "run", "value": 5.0, "uses": {"gpu": 1}, "goals": {"cores": rng.randint(0, 9)}}],
            required=False,
        )
        session.update_job("b", required=False)
        found, anew = session.decide(), apportion.solve(session.instance)
        assert [(one.name, one.value, one.bound) for one in found.solution.goals] == [
            (one.name, one.value, one.bound) for one in anew.goals
        ]


def test_results_that_milliseconds_ended_are_not_refused() -> None:
    """A bound of a goal is among plans of the best objective: where that is open none is stored."""
    for number in range(examples(200)):
        instance = drawn(Random(f"milliseconds {number}"))
        for limit in (0.001, 0.003):
            solution = apportion.solve(instance, time_limit=limit)
            assert verify(instance, document(solution)).ok, (number, limit)


def solved() -> tuple[Any, dict[str, Any], bytes]:
    """Return an instance, its stored result and the proof of it."""
    instance = menus()
    solution = apportion.solve(instance, proof=True)
    assert solution.proof is not None
    return instance, document(solution, proof_name="proof"), encode(solution.proof)


@pytest.mark.parametrize(
    "goals",
    [
        {},
        [1],
        [{"name": "cores", "sense": "maximize", "value": 3, "bound": 3}],
        [{"name": 1, "sense": "maximize", "value": 3, "bound": 3, "seconds": 0.0}],
        [{"name": "cores", "sense": "most", "value": 3, "bound": 3, "seconds": 0.0}],
        [{"name": "cores", "sense": "maximize", "value": 3.0, "bound": 3, "seconds": 0.0}],
        [{"name": "cores", "sense": "maximize", "value": True, "bound": 3, "seconds": 0.0}],
        [{"name": "cores", "sense": "maximize", "value": 3, "bound": 3.5, "seconds": 0.0}],
        [{"name": "cores", "sense": "maximize", "value": 3, "bound": 3, "seconds": "0"}],
    ],
)
def test_goals_of_another_shape_make_no_result(goals: Any) -> None:
    instance, record, _ = solved()
    found = verify(instance, {**record, "goals": goals})
    assert [(line.claim, line.verdict) for line in found.claims] == [("document", "refused")]


def test_what_becomes_of_every_claim_about_goals() -> None:
    instance, record, proof = solved()
    cores, stopped, moved = record["goals"]

    def of(goals: list[dict[str, Any]], claim: str, **other: Any) -> str:
        found = verify(instance, {**record, **other, "goals": goals}, proof)
        return next(str(line.verdict) for line in found.claims if line.claim == claim)

    rest = [stopped, moved]
    assert of([{**cores, "bound": 4}, *rest], "goal cores") == "derived"  # a weaker one follows as well
    assert of([{**cores, "bound": 2}, *rest], "goal cores") == "refused"
    assert of([{**cores, "bound": None}, *rest], "goal cores") == "derived"
    assert of([cores], "goal cores") == "derived"  # the last two need not be told
    assert of([cores, {**stopped, "bound": 1}, moved], "goal jobs stopped") == "word"
    assert of([cores, {**stopped, "bound": 0}, moved], "goal jobs stopped") == "derived"
    assert of([cores, {**stopped, "bound": 2}, moved], "goal jobs stopped") == "refused"
    assert of([cores, stopped, {**moved, "value": 1}], "goal jobs moved") == "refused"
    assert of([cores, moved, stopped], "goals") == "refused"
    assert of([cores, cores, *rest], "goals") == "refused"
    assert of(rest, "goals") == "refused"
    assert of([cores, *rest], "goals", plan=None) == "refused"
    assert of([cores, *rest], "goal cores", termination="time_limit") == "refused"
    free = menus(goals=[], jobs=[])
    plain = document(apportion.solve(free))
    assert "goals" not in plain and verify(free, plain).ok
    assert not verify(free, {**plain, "goals": [cores]}).ok


def test_a_plan_may_change_as_many_jobs_as_are_allowed() -> None:
    both = [{**job, "current": "run"} for job in menus().to_dict()["jobs"]]
    for most in range(3):
        instance = menus(jobs=both, max_changes=most, capacities={"gpu": 4})
        for choice in ({}, {"a": "run"}, {"a": "run", "b": "run"}):
            report = apportion.check(instance, {"choice": choice})
            assert report.feasible == (2 - len(choice) <= most), (most, choice)
        broken = apportion.check(menus(jobs=both, max_changes=1), {"choice": {}}).violations
        assert [str(one) for one in broken] == ["max_changes[plan]: changes 2 jobs, 1 at most may change"]


def test_what_a_bound_on_one_sum_says_of_its_goals() -> None:
    """The best of every goal, in order, of plans that lose nothing of those before it, by enumeration."""
    rng = Random("one sum")
    for _ in range(300):
        spans = [rng.randint(0, 3) for _ in range(3)]
        least = [rng.randint(-2, 0) for _ in range(3)]
        points = [
            [low + rng.randint(0, span) for low, span in zip(least, spans, strict=True)] for _ in range(6)
        ]
        weights = [(spans[1] + 1) * (spans[2] + 1), spans[2] + 1, 1]
        sums = [sum(w * g for w, g in zip(weights, point, strict=True)) for point in points]
        at = rng.randrange(6)
        one = OneSum(None, weights, least, Fraction(1))
        limits = one.limits(Fraction(max(sums)) + Fraction(rng.randint(0, 3), 2), points[at])
        for place, limit in enumerate(limits):
            same = [point for point in points if point[:place] == points[at][:place]]
            best = max(point[place] for point in same)
            assert limit is None or limit >= best
        if sums[at] == max(sums):
            assert one.limits(Fraction(max(sums)) + Fraction(1, 2), points[at]) == points[at]


def test_a_proof_shows_goals_whose_least_is_best_too() -> None:
    """Six plans of one value: the least cost of which two are alike, of these the most cores."""
    options = [(3, 1), (2, 1), (2, 4), (4, 9)]
    jobs = [
        {
            "id": name,
            "options": [
                {
                    "id": f"{cost} {cores}",
                    "value": 5.0,
                    "uses": {"gpu": 1},
                    "goals": {"cost": cost, "cores": cores},
                }
                for cost, cores in options
            ],
        }
        for name in ("a", "b")
    ]
    goals = [{"name": "cost", "sense": "minimize"}, {"name": "cores"}]
    instance = menus(goals=goals, jobs=jobs)
    solution = apportion.solve(instance, proof=True)
    assert [goal.value for goal in solution.goals][:2] == [4, 8]
    assert solution.proof is not None
    record, proof = document(solution, proof_name="proof"), encode(solution.proof)
    cost, *rest = record["goals"]
    for bound, verdict in ((4, "derived"), (3, "derived"), (0, "derived"), (5, "refused")):
        found = verify(instance, {**record, "goals": [{**cost, "bound": bound}, *rest]}, proof)
        assert next(line.verdict for line in found.claims if line.claim == "goal cost") == verdict, bound
    lines = {line.claim: line.verdict for line in verify(instance, record, proof).claims}
    assert lines["goal cost"] == lines["goal cores"] == "derived"
    untold = {name: value for name, value in record.items() if name != "goals"}
    assert {line.claim: line.verdict for line in verify(instance, untold, proof).claims}["proof"] == "refused"
    garbage = {line.claim: line.verdict for line in verify(instance, record, b"no proof").claims}
    assert garbage["proof"] == "refused" and garbage["goal cost"] == "word"
    words = {line.claim: line.verdict for line in verify(instance, record).claims}
    assert words["goal cost"] == words["goal cores"] == "word"
