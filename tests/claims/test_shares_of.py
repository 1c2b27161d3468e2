"""What becomes of each sentence of a result about shares, on rounds small enough to be decided by hand."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest

import apportion
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.check import ledger_of
from apportion.io import stored
from apportion.proofs import claims_of_fairness
from apportion.proofs.claims import Shares, Verdict
from apportion.proofs.claims_of_fairness import due_shares, holders_by_group, levels_of, shares_of

DERIVED, WORD, NOTHING, REFUSED = Verdict.DERIVED, Verdict.WORD, Verdict.NOTHING, Verdict.REFUSED
ABSENT = object()
"""In the place of a field that a record has not."""
OPTIONS = [
    {"id": "small", "value": 1.0, "uses": {"gpu": 1}},
    {"id": "large", "value": 9.0, "uses": {"gpu": 3}},
]


def two_jobs(**more: Any) -> dict[str, Any]:
    """Return a round of two jobs, a and b, on four GPUs: each may have one of them, or three."""
    jobs = [{"id": name, "required": False, "options": OPTIONS} for name in "ab"]
    kind = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    return {**kind, "capacities": {"gpu": 4}, "jobs": jobs, **more}


def of_tenants(**more: Any) -> dict[str, Any]:
    """Return the same round, a of the tenant p with a guarantee of three, b of q with one of one."""
    found = two_jobs(**more)
    found["jobs"] = [{**job, "tenant": owner} for job, owner in zip(found["jobs"], "pq", strict=True)]
    found["tenants"] = [
        {"id": name, "quotas": {"gpu": {"guarantee": own}}} for name, own in (("p", 3), ("q", 1))
    ]
    return found


def times(**more: Any) -> dict[str, Any]:
    """Return jobs of two tenants on a machine with a capacity and two without, the last to end first."""
    on = {"small": {"time_s": 2.0, "uses": 2}, "large": {"time_s": 3.0}}
    return {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "machines": [{"id": "small", "capacity": 3}, {"id": "large", "count": 2}],
        "jobs": [{"id": name, "on": on, "tenant": owner} for name, owner in zip("ab", "pq", strict=True)],
        "tenants": [{"id": "p", "quotas": {"small": {"guarantee": 2}}}, {"id": "q"}],
        **more,
    }


def costs(**more: Any) -> dict[str, Any]:
    """Return a round that is minimised: both jobs must run, the larger option is the cheaper one."""
    found = two_jobs(sense="minimize", **more)
    dear = [{**option, "value": 10.0 - option["value"]} for option in OPTIONS]  # type: ignore[operator]
    found["jobs"] = [{**job, "required": True, "options": dear} for job in found["jobs"]]
    return found


ALL = {"over": "jobs"}
HOLDERS = {
    "jobs": lambda: two_jobs(fairness=ALL),
    "guarantees": of_tenants,
    "both": lambda: of_tenants(fairness={"over": "jobs"}),
    "costs": lambda: costs(fairness=ALL),
    "part": lambda: two_jobs(fairness={**ALL, "keep": 0.5}),
    "nobody": two_jobs,
    "times": lambda: times(fairness={"share": "dominant_share"}),
}


def record_of(document: dict[str, Any], edits: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return an instance and what its solve stores, edited."""
    instance = apportion.read(document)
    record = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    for name, value in edits.items():
        if value is ABSENT:
            record.pop(name, None)
        else:
            record[name] = value
    return instance, record


def level(name: str, share: float, **more: Any) -> dict[str, Any]:
    """Return one level of a record, proved by search where nothing else is said."""
    return {"name": name, "share": share, "weight": 1.0, "bound": share, "evidence": "by_search", **more}


def levels(a: float, b: float, **more: Any) -> list[dict[str, Any]]:
    """Return the levels of both jobs, in the order of names."""
    return [level("job a", a, **more), level("job b", b, **more)]


DUE = (DERIVED, "2 shares are due, and kept by the plan")
GREATEST = (DERIVED, "the sorted shares are the greatest of all choices")
NO_RULE = (NOTHING, "there is no rule by which shares are made equal")
OWN_WORD = (WORD, "2 levels are our own search's word")
HALF_KEPT = {"floors": {"job a": 1, "job b": 1}, "levels": levels(0.25, 0.25)}

CASES: list[tuple[str, dict[str, Any], Shares, dict[str, tuple[Verdict, str]]]] = [
    ("jobs", {}, Shares.AS_DUE, {"floors": DUE, "levels": GREATEST, "fair_bound": (DERIVED, "beyond 10")}),
    ("costs", {}, Shares.AS_DUE, {"floors": DUE, "levels": GREATEST, "fair_bound": (DERIVED, "beyond 10")}),
    ("jobs", {"fair_bound": None}, Shares.AS_DUE, {"floors": DUE, "levels": GREATEST}),
    # nothing is due at all
    ("nobody", {"floors": ABSENT, "levels": ABSENT, "fair_bound": ABSENT}, Shares.NOT_DUE, {}),
    ("nobody", {"floors": {}}, Shares.WRONG, {"floors": (REFUSED, "the instance has no shares to be due")}),
    (
        "nobody",
        {"fair_bound": 0.0},
        Shares.WRONG,
        {"fair_bound": (REFUSED, "the instance has no shares to be due")},
    ),
    # a result that says nothing of floors
    ("jobs", {"floors": ABSENT}, Shares.WRONG, {"floors": (REFUSED, "does not say which its plan keeps")}),
    (
        "jobs",
        {"floors": ABSENT, "levels": ABSENT, "fair_bound": ABSENT, "termination": "time_limit"},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "does not say which its plan keeps")},
    ),
    (
        "jobs",
        {"floors": ABSENT, "levels": ABSENT, "fair_bound": 10.0, "termination": "time_limit"},
        Shares.WRONG,
        {"floors": (REFUSED, "does not say which its plan keeps")},
    ),
    (
        "jobs",
        {"floors": ABSENT, "levels": ABSENT, "fair_bound": None},
        Shares.WRONG,
        {"floors": (REFUSED, "does not say which its plan keeps")},
    ),
    # no sum: what equally fair plans are worth is not derived
    (
        "times",
        {"fair_bound": 1.0, "termination": "time_limit"},
        Shares.AS_DUE,
        {
            "floors": (DERIVED, "shares are due, and kept by the plan"),
            "levels": GREATEST,
            "fair_bound": (WORD, "1"),
        },
    ),
    (
        "times",
        {"fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "the best plan as fair is not derived"), "levels": GREATEST},
    ),
    # no plan
    (
        "jobs",
        {"floors": {}, "plan": None, "termination": "infeasible", "fair_bound": None},
        Shares.WRONG,
        {
            "floors": (REFUSED, "are not the greatest that can be had"),
            "levels": (REFUSED, "the level of job b is not the share that is kept"),
        },
    ),
    (
        "jobs",
        {"floors": {}, "levels": [], "plan": None, "termination": "infeasible"},
        Shares.NOT_DUE,
        {"floors": (NOTHING, "without a plan nobody has a share")},
    ),
    (
        "jobs",
        {"floors": {}, "levels": [], "plan": None, "termination": "time_limit"},
        Shares.NOT_DERIVED,
        {"floors": (NOTHING, "no plan was found, and no share looked at")},
    ),
    (
        "jobs",
        {"plan": None, "termination": "infeasible", "fair_bound": None},
        Shares.WRONG,
        {"floors": (REFUSED, "can be kept, so that there is a plan"), "levels": OWN_WORD},
    ),
    (
        "jobs",
        {"plan": None, "termination": "time_limit", "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "no plan shows that these shares can be kept together"), "levels": OWN_WORD},
    ),
    (
        "guarantees",
        {"plan": None, "termination": "infeasible", "floors": {"p": 0, "q": 0}, "fair_bound": None},
        Shares.WRONG,
        {"floors": (REFUSED, "q has 1 alone on its guarantee, 0 is kept"), "levels": NO_RULE},
    ),
    # floors beside what is due
    (
        "jobs",
        {"floors": {"job a": 3, "job b": 1, "job c": 1}},
        Shares.WRONG,
        {
            "floors": (REFUSED, "nothing is due to job c"),
            "levels": OWN_WORD,
            "fair_bound": (WORD, "said to be beyond 10"),
        },
    ),
    (
        "guarantees",
        {"floors": {"p": 3}},
        Shares.WRONG,
        {
            "floors": (REFUSED, "q has 1 alone on its guarantee, 0 is kept"),
            "levels": NO_RULE,
            "fair_bound": (WORD, "no plan as fair is said to be beyond 10"),
        },
    ),
    (
        "guarantees",
        {"floors": {"p": 2, "q": 1}, "termination": "time_limit", "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "p has 3 alone on its guarantee, 2 is kept"), "levels": NO_RULE},
    ),
    (
        "guarantees",
        {"floors": {"p": 3, "q": 2}, "fair_bound": None},
        Shares.WRONG,
        {"floors": (REFUSED, "q is due 1, not more"), "levels": NO_RULE},
    ),
    ("guarantees", {"fair_bound": None}, Shares.AS_DUE, {"floors": DUE, "levels": NO_RULE}),
    (
        "both",
        {"fair_bound": None},
        Shares.AS_DUE,
        {"floors": (DERIVED, "4 shares are due, and kept by the plan"), "levels": GREATEST},
    ),
    (
        "part",
        {"fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "a part of every level"), "levels": OWN_WORD},
    ),
    (
        "part",
        {"floors": {"job a": 3, "job b": 1}, "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "a part of every level"), "levels": OWN_WORD},
    ),
    # sorted shares that are not the greatest
    (
        "jobs",
        {**HALF_KEPT, "fair_bound": None},
        Shares.WRONG,
        {"floors": (REFUSED, "are not the greatest that can be had"), "levels": OWN_WORD},
    ),
    (
        "jobs",
        {**HALF_KEPT, "levels": levels(0.25, 0.25, bound=0.75, evidence=None), "fair_bound": None},
        Shares.NOT_DERIVED,
        {
            "floors": (WORD, "levels that a limit left open could be greater"),
            "levels": (WORD, "levels are our own search's word, and 2 not proved"),
        },
    ),
    (
        "jobs",
        {
            "floors": {"job a": 3, "job b": 3},
            "levels": levels(0.75, 0.75, bound=0.8, evidence=None),
            "fair_bound": None,
        },
        Shares.WRONG,
        {"floors": (REFUSED, "are not the greatest that can be had"), "levels": (WORD, "and 2 not proved")},
    ),
    # a plan that is as fair and worth more
    (
        "jobs",
        {"objective": 9.0, "gap": 0.1, "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "kept by the plan; a plan as fair is worth more"), "levels": GREATEST},
    ),
    (
        "jobs",
        {"objective": 9.0, "gap": 0.12, "termination": "gap_reached", "fair_bound": None},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST},
    ),
    (
        "jobs",
        {"objective": 9.0, "gap": 0.11, "termination": "gap_reached", "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "a plan as fair is worth more"), "levels": GREATEST},
    ),
    (
        "jobs",
        {"objective": 9.0, "gap": None, "termination": "gap_reached", "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "a plan as fair is worth more"), "levels": GREATEST},
    ),
    (
        "jobs",
        {"objective": 9.0, "gap": 0.0, "termination": "time_limit", "fair_bound": None},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST},
    ),
    (
        "costs",
        {"objective": 11.0, "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "a plan as fair is worth more"), "levels": GREATEST},
    ),
    (
        "costs",
        {"objective": 10.0 + 0.9e-8, "fair_bound": None},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST},
    ),
    (
        "jobs",
        {"objective": 10.0 - 1.1e-8, "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "a plan as fair is worth more"), "levels": GREATEST},
    ),
    (
        "jobs",
        {"objective": 10.0 - 0.9e-8, "fair_bound": None},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST},
    ),
    (
        "jobs",
        {"objective": None, "fair_bound": None},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "the best plan as fair is not derived"), "levels": GREATEST},
    ),
    # levels that are not those of the holders
    (
        "jobs",
        {"levels": levels(0.75, 0.25)[:1]},
        Shares.WRONG,
        {
            "floors": DUE,
            "levels": (REFUSED, "are not those of everybody whose shares are made equal"),
            "fair_bound": (DERIVED, "beyond 10"),
        },
    ),
    (
        "jobs",
        {"levels": ABSENT, "fair_bound": None},
        Shares.WRONG,
        {"floors": DUE, "levels": (REFUSED, "are not those of everybody whose shares are made equal")},
    ),
    (
        "jobs",
        {"levels": levels(0.75, 0.25, weight=2.0), "fair_bound": None},
        Shares.WRONG,
        {"floors": DUE, "levels": (REFUSED, "job a has the weight 1.0")},
    ),
    (
        "jobs",
        {"levels": [level("job a", 0.75), level("job b", 0.25, bound=0.5)], "fair_bound": None},
        Shares.WRONG,
        {"floors": DUE, "levels": (REFUSED, "the bound of job b does not fit its share")},
    ),
    (
        "jobs",
        {
            "levels": [level("job a", 0.75), level("job b", 0.25, bound=0.5, evidence=None)],
            "fair_bound": None,
        },
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST},
    ),
    (
        "jobs",
        {
            "levels": [level("job a", 0.75), level("job b", 0.25, bound=0.2, evidence=None)],
            "fair_bound": None,
        },
        Shares.WRONG,
        {"floors": DUE, "levels": (REFUSED, "the bound of job b does not fit its share")},
    ),
    (
        "jobs",
        {"levels": levels(0.25, 0.75), "fair_bound": None},
        Shares.WRONG,
        {"floors": DUE, "levels": (REFUSED, "the level of job a is not the share that is kept")},
    ),
    (
        "jobs",
        {"floors": {"job a": 3}, "levels": levels(0.75, 0.0), "fair_bound": None},
        Shares.WRONG,
        {"floors": (REFUSED, "are not the greatest that can be had"), "levels": OWN_WORD},
    ),
    (
        "jobs",
        {
            "floors": {"job a": 3},
            "levels": [level("job a", 0.75), level("job b", 0.0, bound=1.0, evidence=None)],
            "fair_bound": None,
        },
        Shares.NOT_DERIVED,
        {"floors": (WORD, "could be greater"), "levels": (WORD, "and 1 not proved")},
    ),
    # the bound over equally fair plans
    (
        "jobs",
        {"fair_bound": 11.0},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (DERIVED, "11")},
    ),
    (
        "jobs",
        {"fair_bound": 9.9, "objective": 9.9},
        Shares.NOT_DERIVED,
        {"floors": (WORD, "worth more"), "levels": GREATEST, "fair_bound": (WORD, "said to be beyond 9.9")},
    ),
    (
        "jobs",
        {"fair_bound": 9.9, "objective": 9.9, "termination": "time_limit"},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (REFUSED, "a plan as fair is beyond it")},
    ),
    (
        "jobs",
        {"fair_bound": 10.0 - 0.9e-8},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (DERIVED, "beyond 9.999999991")},
    ),
    (
        "jobs",
        {"fair_bound": 10.0 - 1.1e-8, "objective": 9.0, "termination": "time_limit"},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (REFUSED, "a plan as fair is beyond it")},
    ),
    (
        "jobs",
        {"fair_bound": 9.9},
        Shares.AS_DUE,
        {
            "floors": DUE,
            "levels": GREATEST,
            "fair_bound": (REFUSED, "the plan, which is as fair, is beyond it"),
        },
    ),
    (
        "jobs",
        {"fair_bound": 9.9, "objective": None, "termination": "time_limit"},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (REFUSED, "a plan as fair is beyond it")},
    ),
    (
        "costs",
        {"fair_bound": 10.1},
        Shares.AS_DUE,
        {
            "floors": DUE,
            "levels": GREATEST,
            "fair_bound": (REFUSED, "the plan, which is as fair, is beyond it"),
        },
    ),
    (
        "costs",
        {"fair_bound": 10.0 + 0.9e-8},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (DERIVED, "beyond 10.000000009")},
    ),
    (
        "costs",
        {"fair_bound": 9.0},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (DERIVED, "9")},
    ),
    (
        "costs",
        {"fair_bound": 10.1, "objective": 10.1, "termination": "time_limit"},
        Shares.AS_DUE,
        {"floors": DUE, "levels": GREATEST, "fair_bound": (REFUSED, "a plan as fair is beyond it")},
    ),
]


@pytest.mark.parametrize(("which", "edits", "shares", "lines"), CASES)
def test_every_sentence_about_shares(
    which: str, edits: dict[str, Any], shares: Shares, lines: dict[str, tuple[Verdict, str]]
) -> None:
    instance, record = record_of(HOLDERS[which](), edits)
    found, said = shares_of(kind_of(instance), instance, record, None)
    assert found is shares, said
    assert [line.claim for line in said] == list(lines)
    for line in said:
        verdict, words = lines[line.claim]
        assert line.verdict is verdict and line.how.endswith(words), line


@pytest.mark.parametrize(
    ("stated", "shown", "verdict"),
    [
        (10.0, 10, DERIVED),
        (10.0, 11, WORD),
        (10.5, 10, DERIVED),
        (10.0, None, WORD),
        (10.0, 10 + Fraction(1, 10**9), DERIVED),
        (10.0, 10 + Fraction(12, 10**9), WORD),
        (10.0, 10 / (1 - Fraction(1, 10**9)), DERIVED),
    ],
)
def test_with_guarantees_alone_the_derived_bound_shows_the_fair_one(
    stated: float, shown: Any, verdict: Verdict
) -> None:
    instance, record = record_of(of_tenants(), {"fair_bound": stated})
    bound = None if shown is None else Fraction(shown)
    standing, lines = shares_of(kind_of(instance), instance, record, bound)
    assert standing is Shares.AS_DUE
    assert lines[-1].claim == "fair_bound" and lines[-1].verdict is verdict, lines[-1]


@pytest.mark.parametrize(
    ("beyond", "verdict"), [(0.0, DERIVED), (0.5, WORD), (2.0, REFUSED)], ids=["near", "rounded", "short"]
)
def test_what_rounding_may_have_added_to_the_best_refutes_no_bound(beyond: float, verdict: Verdict) -> None:
    instance, record = record_of(two_jobs(fairness=ALL), {"objective": None, "termination": "time_limit"})
    due = due_shares(kind_of(instance), instance, {})
    assert due is not None and due.best == 10 and 0 < due.rounding < Fraction(1, 10**12)
    record["fair_bound"] = float(10 - Fraction(1, 10**8) - Fraction(beyond) * due.rounding)
    if not beyond:
        record["fair_bound"] = math.nextafter(record["fair_bound"], 10.0)
    lines = shares_of(kind_of(instance), instance, record, None)[1]
    assert lines[-1].verdict is verdict, lines[-1]


def test_an_objective_of_zero_is_the_best_up_to_what_rounding_adds() -> None:
    values = {"a": 0.1, "b": -0.1}
    jobs = [
        {"id": name, "required": True, "options": [{"id": "one", "value": value, "uses": {"gpu": 1}}]}
        for name, value in values.items()
    ]
    instance, record = record_of(two_jobs(jobs=jobs, fairness=ALL), {"fair_bound": None})
    assert record["objective"] == 0.0
    due = due_shares(kind_of(instance), instance, {})
    assert due is not None and due.best is not None and 0 < due.best < due.rounding
    standing, lines = shares_of(kind_of(instance), instance, record, None)
    assert standing is Shares.AS_DUE and lines[0].verdict is DERIVED


def test_a_guarantee_that_is_not_kept_is_no_fault_where_it_is_open_what_goes_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits = {"floors": {"p": 2, "q": 1}, "levels": [], "fair_bound": None}
    instance, record = record_of(of_tenants(), edits)
    refused = shares_of(kind_of(instance), instance, record, None)[1][0]
    assert refused.verdict is REFUSED and "p has 3 alone" in refused.how
    monkeypatch.setattr(claims_of_fairness, "_MOST_STATES", 3)
    open_ = shares_of(kind_of(instance), instance, record, None)[1][0]
    assert open_.verdict is WORD and open_.how == refused.how


def tree(**rule: Any) -> Any:
    """Return the book of four jobs under a tree of tenants with weights and priorities."""
    tenants = [
        {"id": "top", "weight": 2.0},
        {"id": "left", "parent": "top", "weight": 3.0, "priority": 1},
        {"id": "right", "parent": "top", "weight": 0.5},
        {"id": "alone", "weight": 1.5},
        {"id": "empty", "weight": 4.0},
        {"id": "apart", "weight": 0.0},
    ]
    owners = {"a": "left", "b": "right", "c": "right", "d": "alone", "e": "apart"}
    jobs = [
        {"id": name, "tenant": owner, "required": False, "options": OPTIONS} for name, owner in owners.items()
    ]
    jobs[2]["priority"] = 5
    jobs[0]["submitted_s"], jobs[1]["submitted_s"], jobs[3]["submitted_s"] = 2.0, 1.0, 0.5
    instance = apportion.read(two_jobs(jobs=jobs, tenants=tenants, fairness=rule))
    return ledger_of(kind_of(instance), instance)


def groups(ledger: Any) -> list[list[tuple[str, str, Fraction]]]:
    """Return the groups as names, jobs and weights."""
    return [
        sorted((one.name, "".join(sorted(one.jobs)), one.weight) for one in group)
        for group in holders_by_group(ledger)
    ]


HALF, THREE_HALVES, ONE = Fraction(1, 2), Fraction(3, 2), Fraction(1)


def test_who_is_made_equal_with_whom() -> None:
    leaves = [
        [("left", "a", Fraction(3))],
        [("alone", "d", THREE_HALVES), ("right", "bc", HALF)],
    ]
    assert groups(tree(over="tenants", inside="sum")) == leaves
    levels = [
        [("alone", "d", THREE_HALVES), ("top", "abc", Fraction(2))],
        [("left", "a", Fraction(3))],
        [("right", "bc", HALF)],
    ]
    assert groups(tree(over="tree", inside="sum")) == levels
    inside = [
        [("job c", "c", ONE)],
        [("job a", "a", ONE)],
        [("job b", "b", ONE), ("job d", "d", ONE), ("job e", "e", ONE)],
    ]
    assert groups(tree(over="tenants", inside="fair")) == leaves + inside
    turns = [[(f"job {name}", name, ONE)] for name in "caedb"]
    assert groups(tree(over="tree", inside="first_come")) == levels + turns
    weighted = [
        [("job c", "c", HALF)],
        [("job a", "a", Fraction(3))],
        [("job b", "b", HALF), ("job d", "d", THREE_HALVES)],
    ]
    assert groups(tree(over="jobs")) == weighted


def test_a_job_of_nobody_is_of_the_middle_rank() -> None:
    jobs = [{"id": name, "required": False, "options": OPTIONS} for name in "abcd"]
    jobs[0]["priority"], jobs[1]["priority"], jobs[2]["priority"] = 0, 1, -1
    instance = apportion.read(two_jobs(jobs=jobs, fairness=ALL))
    found = groups(ledger_of(kind_of(instance), instance))
    assert [[name for name, _, _ in group] for group in found] == [["job b"], ["job a", "job d"], ["job c"]]


def test_levels_are_shares_over_weights() -> None:
    found = levels_of(tree(over="jobs"), {"job a": 6, "job b": 2, "job d": 4})
    # steps are 1 for the first two groups, where one alone has its numerator; 3 for weights 1/2 and 3/2
    assert found == ((0,), (6,), (8, 12)), found


def test_a_job_without_a_time_comes_first() -> None:
    jobs = [{"id": name, "required": False, "options": OPTIONS} for name in "ab"]
    jobs[0]["submitted_s"] = 0.5
    jobs = [{**job, "tenant": "t"} for job in jobs]
    rule = {"over": "tenants", "inside": "first_come"}
    instance = apportion.read(two_jobs(jobs=jobs, tenants=[{"id": "t"}], fairness=rule))
    found = groups(ledger_of(kind_of(instance), instance))
    assert found == [[("t", "ab", ONE)], [("job b", "b", ONE)], [("job a", "a", ONE)]]
