"""Nothing false is called derived, of some forgeries; ``python -m tests.forgeries`` makes more."""

from __future__ import annotations

from random import Random

import pytest

from apportion.proofs import Claim
from tests.forgeries.forging import KINDS, Tally, forged
from tests.forgeries.judging import Judge
from tests.hunt.case import INSTANCE, Case


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_no_forgery_is_accepted_and_nothing_true_is_refused(kind: str) -> None:
    tally = Tally()
    for number in range(3):
        forged(kind, 34, number, tally)
    assert tally.wrong == [] and tally.accepted == tally.refused_true == 0
    assert tally.forged > 50 and tally.true >= 3


def test_the_judge_of_forgeries_knows_what_is_false() -> None:
    jobs = [
        {"id": name, "required": False, "options": [{"id": "x", "value": value, "uses": {"gpu": 1}}]}
        for name, value in (("a", 3.0), ("b", 5.0))
    ]
    document = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize", "jobs": jobs}
    judge = Judge(Case(INSTANCE, {**document, "capacities": {"gpu": 1}}))
    true = {"plan": {"choice": {"b": "x"}}, "objective": 5.0, "bound": 5.0, "verified_bound": 6.0}
    true["termination"] = "optimal"
    assert list(judge.false_claims(true)) == []
    for changes, false in (
        ({"objective": 5.1}, ["objective"]),
        ({"bound": 4.9}, ["bound"]),
        ({"verified_bound": 4.0}, ["verified_bound"]),
        ({"plan": {"choice": {"a": "x", "b": "x"}}, "objective": 8.0}, ["plan", "termination"]),
        ({"plan": {"choice": {"a": "x"}}, "objective": 3.0}, ["termination"]),
        ({"plan": None, "objective": None, "termination": "infeasible"}, ["termination"]),
        ({"termination": "unbounded"}, ["termination"]),
    ):
        assert list(judge.false_claims({**true, **changes})) == false
    assert judge.proof_is_false(Claim("infeasible")) and judge.proof_is_false(Claim("no_better_plan", 4.9))
    assert not judge.proof_is_false(Claim("no_better_plan", 5.0))


def test_forgeries_are_the_same_for_a_seed() -> None:
    first, again = Tally(), Tally()
    for tally in (first, again):
        forged("menus with names", 3, 1, tally)
    assert first == again and Random("x").random() == Random("x").random()
