"""Sentences of a stored result that a search, a proof or a hand could have changed, and their verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

import apportion
from apportion import proofs
from apportion.core.solution import JOBS_MOVED, JOBS_STOPPED
from apportion.instances.kinds import kind_of
from apportion.io import stored
from apportion.proofs.certificate import encode
from apportion.proofs.verified_document import is_number, malformed
from tests.test_verified import NAMES, gap, honest, verdicts

LEVEL = {"name": "a", "share": 1.0, "weight": 1, "bound": 1.0, "evidence": "by_search"}
GREATEST = float.fromhex("0x1.fffffffffffffp+1023")


def test_numbers_are_what_doubles_hold() -> None:
    assert is_number(GREATEST) and is_number(-GREATEST) and is_number(int(GREATEST)) and is_number(0)
    assert not any(map(is_number, (int(GREATEST) + 1, 10**400, float("inf"), float("nan"), True, "1", None)))


@pytest.mark.parametrize(
    "wrong",
    [
        "level",
        {**LEVEL, "more": 1},
        {**LEVEL, "name": 3},
        {**LEVEL, "share": "1"},
        {**LEVEL, "weight": None},
        {**LEVEL, "bound": True},
        {**LEVEL, "evidence": "by_solver"},
        {name: value for name, value in LEVEL.items() if name != "evidence"},
    ],
)
def test_a_level_has_a_name_three_numbers_and_a_word(wrong: Any) -> None:
    record = json.loads(honest("most")[1])
    assert malformed({**record, "levels": [LEVEL, {**LEVEL, "evidence": None}]}) is None
    assert malformed({**record, "levels": [LEVEL, wrong]}) == (
        "levels must be objects of name, share, weight, bound and evidence"
    )


def test_an_instance_in_the_place_of_a_result_is_called_one() -> None:
    told = {"schema_version": "1", "kind": "freezing", "jobs": [], "gpus": {}}
    assert "is an instance" in str(malformed(told))
    record = json.loads(honest("most")[1])
    assert malformed(record | {"jobs": []}) == "has the unknown field jobs"


def lines(record: Mapping[str, Any], which: str = "most") -> dict[str, tuple[str, str]]:
    """Return verdict and words of every claim."""
    told = {**record, "certificate": dict(record["certificate"])}
    instance = honest(which)[0]
    told["certificate"]["digest"] = stored.digest(instance, told)
    return {line.claim: (line.verdict.value, line.how) for line in stored.verify(instance, told).claims}


def test_floors_where_none_are_due_are_refused_beside_all_else() -> None:
    record = json.loads(honest("least")[1])
    found = lines(record | {"floors": {}}, "least")
    assert set(found) == {*NAMES, "floors"}
    assert found.pop("floors") == ("refused", "the instance has no shares to be due")
    assert found.pop("termination") == ("refused", "optimal, but under other shares than are due")
    assert found.items() <= lines(record, "least").items()


def test_floors_of_a_kind_without_tenants_are_refused_beside_all_else() -> None:
    nodes = [{"names": "n", "capacity": {"gpu": 1}}]
    pods = {"id": "run", "value": 1.0, "pods": [{"needs": {"gpu": 1}}]}
    told = {"kind": "placement", "schema_version": "1", "levels": ["node"], "nodes": nodes}
    instance = apportion.read({**told, "jobs": [{"id": "a", "options": [pods]}]})
    record = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    found = verdicts(instance, record | {"floors": {}})
    assert found["floors"] == "refused" and found["plan"] == found["objective"] == "derived"


def test_a_plan_without_an_objective_has_no_check() -> None:
    found = lines(json.loads(honest("most")[1]) | {"objective": None, "gap": None})
    assert "check" not in found and found["objective"][0] == "refused"


def test_a_bound_that_is_tighter_than_the_multipliers_show_is_a_word() -> None:
    instance, text = honest("most")
    record = json.loads(text)
    loose = kind_of(instance).exact_bound(instance, {"idle_nodes": 961.0})
    assert loose is not None and loose > 5521
    record["certificate"] |= {"multipliers": {"idle_nodes": 961.0}, "source": "branch_and_bound"}
    record |= {"verified_bound": float(loose), "evidence": "by_search"}
    for bound, verdict, how in (
        (5520.0, "word", "claimed by branch_and_bound"),
        (float(loose) * (1 - 5e-10), "derived", "claimed by branch_and_bound, and within 1e-9"),
        (float(loose), "derived", "is the verified bound"),
        (float(loose) * (1 + 5e-10), "refused", "is worse than the verified bound"),
    ):
        found = lines(record | {"bound": bound, "gap": gap(bound)})
        assert found["bound"][0] == verdict and how in found["bound"][1]
    found = lines(record | {"bound": 5520.0, "gap": 0.0})
    assert found["termination"] == ("word", "optimal, as is said by_search")


def test_what_is_stored_a_hair_too_high_is_no_nearer_to_its_bound() -> None:
    """Stored within 1e-9 of the plan's worth, and the bound within 1e-9 of that: they do not meet."""
    record = json.loads(honest("most")[1])
    high, beyond = 5520.0 * (1 + 9e-10), 5520.0 * (1 + 1.8e-9)
    record |= {"objective": high, "bound": beyond, "gap": (beyond - high) / high, "verified_bound": None}
    record["certificate"] |= {"multipliers": None, "source": "solver"}
    met = lines(record | {"evidence": "by_solver", "bound": high, "gap": 0.0})
    assert met["evidence"] == ("word", "by_solver: the claim is a general solver's word")
    found = lines(record | {"evidence": "by_solver"})
    assert found["objective"][0] == "derived" and found["bound"][0] == "word"
    assert found["termination"] == ("refused", "is optimal, but the bound leaves a gap")


def test_what_refuted_every_plan_is_the_source_where_there_is_none() -> None:
    record = json.loads(honest("none")[1])
    assert record["termination"] == "infeasible" and record["bound"] is None
    record["certificate"]["source"] = "enumeration"
    assert lines(record, "none")["bound"] == ("nothing", "none is claimed")
    record["termination"] = "time_limit"
    assert lines(record, "none")["bound"] == ("refused", "'enumeration' is its source, and there is none")


def with_goals(goals: list[dict[str, str]]) -> Any:
    """Return a round of two jobs, each with four options of one value that cost more or use more cores."""
    asked = [goal["name"] for goal in goals]
    options = []
    for cost, cores in ((3, 1), (2, 1), (2, 4), (4, 9)):
        worth = {name: {"cost": cost, "cores": cores}[name] for name in asked}
        more = {"goals": worth} if worth else {}
        options.append({"id": f"{cost} {cores}", "value": 5.0, "uses": {"gpu": 1}, **more})
    told: dict[str, Any] = {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {"gpu": 2},
        "jobs": [{"id": name, "options": options} for name in "ab"],
    }
    return apportion.read({**told, "goals": goals} if goals else told)


@pytest.mark.parametrize(
    ("order", "values"), [(["cost", "cores"], [4, 8]), (["cores", "cost"], [18, 8])], ids=str
)
def test_a_proof_shows_every_goal_in_its_order(order: list[str], values: list[int]) -> None:
    senses = {"cost": {"sense": "minimize"}, "cores": {}}
    instance = with_goals([{"name": name, **senses[name]} for name in order])
    solution = apportion.solve(instance, proof=True)
    assert [goal.value for goal in solution.goals][:2] == values and solution.proof is not None
    record = json.loads(stored.encode(stored.document(solution, proof_name="p")))
    proof = encode(solution.proof)
    found = verdicts(instance, record, proof)
    assert [found[f"goal {name}"] for name in order] == ["derived", "derived"]
    for place, worse in ((0, 1), (1, 1)):
        goals = [dict(goal) for goal in record["goals"]]
        goals[place]["bound"] += worse if goals[place]["sense"] == "minimize" else -worse
        assert verdicts(instance, record | {"goals": goals}, proof)[f"goal {order[place]}"] == "refused"


def test_a_proof_that_is_not_one_shows_nothing_of_the_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = with_goals([{"name": "cores"}])
    solution = apportion.solve(instance, proof=True)
    record = json.loads(stored.encode(stored.document(solution, proof_name="p")))
    assert solution.proof is not None
    option_set = kind_of(instance).option_set
    one = None if option_set is None else option_set.in_one_sum(instance)
    assert one is not None
    claim = proofs.verify(one.instance, encode(solution.proof)).claim
    assert claim is not None and claim.bound is not None
    for proved, verdict in ((True, "derived"), (False, "refused")):
        told = SimpleNamespace(proved=proved, claim=claim, status="refused", why="forged")
        # the walk of the whole instance never ends well: what is looked at is the proof about one sum
        walks = iter((SimpleNamespace(proved=False, claim=claim, status="refused", why="forged"), told))
        monkeypatch.setattr(proofs, "verify", lambda instance, proof, walks=walks: next(walks))
        assert verdicts(instance, record, b"p")["proof"] == verdict
    # a proof that leaves a plan of one core more does not show that there is none
    loose = SimpleNamespace(bound=claim.bound + 1)
    open_ = SimpleNamespace(proved=True, claim=loose, status="proved", why="")
    walks = iter((SimpleNamespace(proved=False, claim=claim, status="refused", why=""), open_))
    monkeypatch.setattr(proofs, "verify", lambda instance, proof: next(walks))
    assert verdicts(instance, record, b"p")["goal cores"] == "word"


def test_goals_that_were_not_asked_for_are_true_or_refused() -> None:
    instance = with_goals([])
    record = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    made_up = {"name": "cores", "sense": "maximize", "value": 9, "bound": None, "seconds": 0.0}
    assert verdicts(instance, record | {"goals": [made_up]})["goals"] == "refused"
    kept = [
        {"name": name, "sense": "minimize", "value": 0, "bound": 0, "seconds": 0.0}
        for name in (JOBS_STOPPED, JOBS_MOVED)
    ]
    found = verdicts(instance, record | {"goals": kept})
    assert found[f"goal {JOBS_STOPPED}"] == found[f"goal {JOBS_MOVED}"] == "derived"


def test_that_a_cost_is_not_below_zero_is_a_word_where_no_proof_shows_it() -> None:
    instance = with_goals([{"name": "cost", "sense": "minimize"}])
    record = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    (cost, *rest) = record["goals"]
    assert cost["value"] == 4
    assert verdicts(instance, record | {"goals": [cost | {"bound": 0}, *rest]})["goal cost"] == "word"


def test_without_a_plan_nothing_is_missed_of_goals() -> None:
    instance = with_goals([{"name": "cores"}])
    record = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    del record["goals"]
    assert verdicts(instance, dict(record))["goals"] == "word"
    record |= {"plan": None, "solution": "none", "objective": None, "gap": None, "check": None}
    assert "goals" not in verdicts(instance, record | {"termination": "time_limit", "evidence": None})


def test_a_proof_is_near_no_objective_of_a_broken_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, text = honest("most")
    record = json.loads(text) | {"plan": {"allocation": {"j0": ["nowhere"]}}}
    claim = proofs.Verdict("proved", "", proofs.Claim("no_better_plan", 5520.0))
    monkeypatch.setattr(proofs, "verify", lambda instance, proof: claim)
    assert verdicts(instance, record, b"")["proof"] == "refused"


def test_no_gap_is_stated_where_it_is_no_number() -> None:
    free = apportion.KnapsackJob("x", (apportion.KnapsackOption("a", 0.0, {"gpu": 1}),), True)
    instance = apportion.MultipleChoiceKnapsackInstance("1", "minimize", {"gpu": 1}, (free,), name="k")
    record = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    record |= {"bound": -1e308, "verified_bound": None, "evidence": None, "termination": "time_limit"}
    record["certificate"] |= {"multipliers": None, "source": "solver"}
    for stated, verdict in ((None, "derived"), (0.0, "refused"), (1.0, "refused")):
        assert verdicts(instance, record | {"gap": stated})["gap"] == verdict
