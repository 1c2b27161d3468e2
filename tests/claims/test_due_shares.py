"""What the checker derives to be due, against every choice there is, read from the file by another road."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest

import apportion
from apportion.instances.kinds import kind_of
from apportion.proofs import claims_of_fairness
from apportion.proofs.claims_of_fairness import due_shares
from tests.budgets import examples
from tests.fairness.test_placed_kinds import on_machines, on_nodes
from tests.hunt import truth_tenants
from tests.hunt.rounds import drawn_round


def test_guarantees_levels_and_the_best_of_equally_fair_plans() -> None:
    looked_at = 0
    for number in range(examples(600)):
        told = drawn_round(rng := Random(f"due {number}"))
        for one in (*told["jobs"], *told["tenants"]):
            if rng.random() < 0.3:
                one["priority"] = rng.choice((-1, 0, 1, 2))
        for job in told["jobs"]:
            if rng.random() < 0.5:
                job["submitted_s"] = float(rng.randint(0, 3))
        instance = apportion.read(told)
        due = truth_tenants.due_shares(told)
        levels, plans = truth_tenants.fairest(told) if "fairness" in told else ([], [])
        if truth_tenants.best(told, due)[1] is None:
            if truth_tenants.best(told)[1] is not None:  # as many of the guarantees as a plan keeps together
                some = due_shares(kind_of(instance), instance, {})
                assert some is not None and truth_tenants.best(told, some.guaranteed)[1] is not None, number
                for name in set(due) - set(some.guaranteed):
                    assert truth_tenants.best(told, {**some.guaranteed, name: due[name]})[1] is None, number
            continue
        looked_at += 1
        kind = kind_of(instance)
        found = due_shares(kind, instance, due)
        assert found is not None and found.kept, number
        assert dict(found.guaranteed) == due, number
        assert found.levels == tuple(map(tuple, levels)), number
        # without a share of its own, what is due is derived all the same
        alone = due_shares(kind, instance, {})
        assert alone is not None and dict(alone.guaranteed) == due, number
        if not levels and due:
            assert found.best is None and alone.best is not None, number
        if levels:
            assert alone.levels == found.levels and alone.best == found.best, number
            sign = 1 if told["sense"] == "maximize" else -1
            best = max(sign * plan.total for plan in plans)
            assert found.best is not None, number
            assert 0 <= sign * found.best - best <= found.rounding <= Fraction(1, 10**12), number
    assert looked_at > 0.7 * examples(600)


@pytest.mark.parametrize("draw", [on_nodes, on_machines])
def test_where_choices_must_be_placed_nothing_is_derived(draw: Any) -> None:
    instance = apportion.read(draw(3, "dominant_share"))
    assert due_shares(kind_of(instance), instance, {}) is None


def test_jobs_of_nobody_are_made_equal_too() -> None:
    options = [
        {"id": "small", "value": 1.0, "uses": {"gpu": 1}},
        {"id": "large", "value": 9.0, "uses": {"gpu": 3}},
    ]
    jobs = [{"id": name, "required": False, "options": options} for name in "ab"]
    told = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    instance = apportion.read({**told, "capacities": {"gpu": 4}, "jobs": jobs, "fairness": {"over": "jobs"}})
    found = due_shares(kind_of(instance), instance, {})
    assert found is not None and found.unit == 4
    assert found.levels == ((1, 3),) and found.best is not None
    assert abs(found.best - 10) <= found.rounding


def test_what_has_too_many_states_is_not_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random("many")
    told = drawn_round(rng)
    while "fairness" not in told or len(told["jobs"]) < 4 or not truth_tenants.due_shares(told):
        told = drawn_round(rng)
    instance = apportion.read(told)
    kind = kind_of(instance)
    for limit in ("_MOST_STATES", "_MOST_CHILDREN", "_MOST_NUMBERS", "_LARGEST"):
        with monkeypatch.context() as patched:
            patched.setattr(claims_of_fairness, limit, 1)
            assert due_shares(kind, instance, {}) is None, limit
