"""What the checker derives to be due, against every choice there is, read from the file by another road."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.instances.kinds import kind_of
from apportion.proofs import claims_of_fairness
from apportion.proofs.claims_of_fairness import (
    DueShares,
    Holder,
    _best_of_equal,
    _levels,
    _Option,
    _per_value,
    _reachable,
    _TooMany,
    due_shares,
)
from tests.budgets import examples
from tests.claims.test_shares_of import of_tenants, two_jobs
from tests.fairness.test_placed_kinds import on_machines, on_nodes
from tests.hunt import truth_tenants
from tests.hunt.rounds import drawn_round


def test_guarantees_levels_and_the_best_of_equally_fair_plans() -> None:
    looked_at = 0
    for number in range(count := examples(400)):
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
    assert looked_at > 0.7 * count


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


@pytest.mark.parametrize(
    ("limit", "enough"), [("_MOST_STATES", 8), ("_MOST_CHILDREN", 9), ("_MOST_NUMBERS", 36)]
)
def test_as_many_states_as_there_may_be_are_enough(
    limit: str, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # three options each make 9 choices, 8 of them within four GPUs; a state is one row, two shares, a worth
    instance = apportion.read(two_jobs(fairness={"over": "jobs"}))
    kind = kind_of(instance)
    monkeypatch.setattr(claims_of_fairness, limit, enough)
    found = due_shares(kind, instance, {})
    assert found is not None and found.levels == ((1, 3),)
    monkeypatch.setattr(claims_of_fairness, limit, enough - 1)
    cut_off = due_shares(kind, instance, {})
    assert cut_off is not None and cut_off.levels is None and cut_off.best is None and cut_off.rounding == 0
    assert cut_off.kept  # no guarantee is left open, where there is none


def test_guarantees_that_a_plan_keeps_are_all_that_is_asked_without_a_rule() -> None:
    instance = apportion.read(of_tenants())
    kind = kind_of(instance)
    assert due_shares(kind, instance, {"p": 3, "q": 1}) == DueShares(4, {"q": 1, "p": 3}, True, (), None)
    looked_up = due_shares(kind, instance, {"p": 2, "q": 1})
    assert looked_up is not None and looked_up.levels == () and looked_up.best == 10


def test_whether_guarantees_go_together_is_open_where_states_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = apportion.read(of_tenants(fairness={}))
    kind = kind_of(instance)
    monkeypatch.setattr(claims_of_fairness, "_MOST_STATES", 3)
    for shares, kept in (({"p": 3, "q": 1}, True), ({"p": 2, "q": 1}, False), ({}, False)):
        found = due_shares(kind, instance, shares)
        assert found is not None and found.kept is kept and found.guaranteed == {"p": 3, "q": 1}
        assert found.levels is None and found.best is None


def test_without_any_choice_nothing_is_due() -> None:
    document = of_tenants(capacities={"gpu": 1}, fairness={})
    for job in document["jobs"]:
        job["required"] = True
    for tenant in document["tenants"]:
        tenant["quotas"] = {}
    instance = apportion.read(document)
    found = due_shares(kind_of(instance), instance, {})
    assert found == DueShares(1, {}, True, None, None)


def test_worth_is_counted_in_powers_of_two_within_53_bits() -> None:
    rng = Random("worth")
    assert _per_value(Fraction(0)) == 1
    for _ in range(200):
        largest = Fraction(rng.randint(1, 10 ** rng.randint(1, 20)), rng.randint(1, 10 ** rng.randint(1, 20)))
        units = _per_value(largest)
        assert 2**48 <= units * largest < 2**50
        assert (
            units.numerator & (units.numerator - 1) == 0 and units.denominator & (units.denominator - 1) == 0
        )


def test_of_equal_states_the_one_of_most_worth_is_left() -> None:
    rng = Random("equal")
    for rows in (0, 1, 2, 3, 40):
        states = np.array([[rng.randint(0, 2) for _ in range(4)] for _ in range(rows)], dtype=np.int64)
        states = states.reshape(rows, 4)
        best: dict[tuple[int, ...], int] = {}
        for *state, worth in states.tolist():
            best[tuple(state)] = max(worth, best.get(tuple(state), worth))
        found = _best_of_equal(states).tolist()
        assert len(found) == len(best) and {tuple(one[:-1]): one[-1] for one in found} == best


def test_levels_of_weights_with_long_numerators_are_counted_in_millionths() -> None:
    heavy = [Holder(name, frozenset(name), Fraction(weight)) for name, weight in (("a", 3_000_017), ("b", 2))]
    # exact steps would be 6,000,034; a million for every whole of the heaviest weight are allowed
    assert _levels(heavy, [3_000_017, 1]) == (3_000_017, 6_000_034)
    odd = [
        Holder(name, frozenset(name), Fraction(weight)) for name, weight in (("a", "1.000003"), ("b", "0.7"))
    ]
    steps = 2_000_000  # the common numerator is 7,000,021, more than a million over the heaviest, rounded up
    assert _levels(odd, [1, 1]) == (steps * 1_000_000 // 1_000_003, steps * 10 // 7)


def _below_one_another(quotas: dict[str, int], parents: dict[str, str], jobs: dict[str, Any]) -> Any:
    """Return a round of tenants with guarantees of GPUs; a job needs so many, and runs in any case or may."""
    listed = [
        {
            "id": name,
            "tenant": owner,
            "required": required,
            "options": [{"id": "all", "value": 1.0, "uses": {"gpu": gpus}}],
        }
        for name, (owner, gpus, required) in jobs.items()
    ]
    tenants = [
        {
            "id": name,
            "quotas": {"gpu": {"guarantee": own}},
            **({"parent": parents[name]} if name in parents else {}),
        }
        for name, own in quotas.items()
    ]
    return apportion.read(two_jobs(capacities={"gpu": 8}, jobs=listed, tenants=tenants))


def test_what_is_due_inside_a_tenant_is_kept_where_its_own_share_is_found() -> None:
    quotas, parents = {"top": 3, "left": 1, "right": 0}, {"left": "top", "right": "top"}
    jobs = {"a": ("left", 1, False), "b": ("right", 3, False)}
    instance = _below_one_another(quotas, parents, jobs)
    # alone on three GPUs it had three by b, but then left had not its one
    found = due_shares(kind_of(instance), instance, {})
    assert found is not None and dict(found.guaranteed) == {"left": 1, "top": 1}
    # one more GPU, and both run
    instance = _below_one_another({**quotas, "top": 4}, parents, jobs)
    found = due_shares(kind_of(instance), instance, {})
    assert found is not None and dict(found.guaranteed) == {"left": 1, "top": 4}


def test_what_is_due_to_others_does_not_bind_a_tenant_alone() -> None:
    quotas = {"one": 2, "two": 3}
    jobs = {"a": ("one", 2, False), "b": ("two", 3, False)}
    instance = _below_one_another(quotas, {}, jobs)
    found = due_shares(kind_of(instance), instance, {})
    assert found is not None and dict(found.guaranteed) == {"one": 2, "two": 3}


def test_an_only_child_has_what_is_due_to_it_inside_its_parent() -> None:
    quotas, parents = {"top": 4, "child": 2}, {"child": "top"}
    jobs = {"a": ("child", 2, False), "b": ("child", 3, False)}
    instance = _below_one_another(quotas, parents, jobs)
    found = due_shares(kind_of(instance), instance, {})
    assert found is not None and dict(found.guaranteed) == {"child": 2, "top": 3}


def test_where_a_job_that_must_run_leaves_nothing_inside_the_parent_has_its_share_all_the_same() -> None:
    quotas, parents = {"top": 3, "left": 1, "right": 1}, {"left": "top", "right": "top"}
    jobs = {"a": ("left", 3, True), "b": ("right", 1, False)}
    instance = _below_one_another(quotas, parents, jobs)
    found = due_shares(kind_of(instance), instance, {})
    assert found is not None and dict(found.guaranteed) == {"right": 1, "top": 3}


@pytest.mark.parametrize("limit", [2**50 - 1, 2**50])
def test_numbers_of_states_stay_below_two_to_the_fifty(limit: int) -> None:
    def reached(uses: int, share: int, room: int) -> Any:
        menu = [_Option({"gpu": uses}, share, Fraction(1))]
        return _reachable({"a": menu}, {"gpu": room, "net": 5}, {"a": frozenset("a")}, 1, {})

    if limit < 2**50:
        assert reached(limit, 1, limit).shares.tolist() == [[1]]
        assert reached(1, limit, 5).shares.tolist() == [[limit]]
        return
    for numbers in ((limit, 1, 5), (1, limit, 5), (1, 1, limit)):
        with pytest.raises(_TooMany):
            reached(*numbers)


def test_what_no_later_job_can_use_makes_no_states(monkeypatch: pytest.MonkeyPatch) -> None:
    options = [
        _Option({"gpu": 1}, 1, Fraction(0)),
        _Option({"gpu": 1, "net": 1}, 1, Fraction(15)),
        _Option({}, 0, Fraction(0)),
    ]
    menus = {"a": options, "b": [_Option({"gpu": 1}, 1, Fraction(16))]}
    monkeypatch.setattr(claims_of_fairness, "_MOST_STATES", 2)
    states = _reachable(menus, {"gpu": 2, "net": 1}, {"all": frozenset("ab")}, 1, {})
    assert dict(zip(states.shares[:, 0].tolist(), states.worths.tolist(), strict=True)) == {
        1: 16 * states.per_value,
        2: 31 * states.per_value,
    }
    assert states.per_value == 2**45  # up to 15 + 16, which have five bits


def test_how_many_states_and_numbers_there_may_be() -> None:
    def reached(*options: int, holders: int = 1) -> int:
        """Return the states of two jobs, the first of so many shares, the second of so many alike."""
        menus = {"a": [_Option({}, share, Fraction(0)) for share in range(options[0])]}
        if options[1:]:
            menus["b"] = [_Option({}, 0, Fraction(0))] * options[1]
        return len(_reachable(menus, {}, {str(k): frozenset("a") for k in range(holders)}, 0, {}).shares)

    assert reached(20_000) == 20_000 and reached(400, 1500) == 400  # 600,000 children
    for options, holders in (((20_001,), 1), ((437, 1373), 1), ((2557, 19), 246)):  # 600,001; 12,000,001
        with pytest.raises(_TooMany):
            reached(*options, holders=holders)
