"""Every claim of a stored solution is checked by itself: one field is changed, one named check fails."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

import apportion
from apportion import proofs
from apportion.core.outcome import Termination
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.ledger import under_floors
from apportion.io import stored
from apportion.proofs.verified_document import FIELDS
from tests.test_stored import small

NAMES = [
    *("document", "kind", "name", "plan", "objective", "check"),
    *("verified_bound", "bound", "gap", "termination", "evidence", "digest"),
]
V = 5520.00000000019
"""The verified bound of the first instance; its objective is 5520."""
LOOSE = 5520.001
"""A bound that does not meet that objective."""


def job(name: str, required: bool = True) -> apportion.KnapsackJob:
    options = (
        apportion.KnapsackOption("a", 5.0, {"gpu": 1, "net": 1}),
        apportion.KnapsackOption("b", 3.0, {"gpu": 2, "net": 2}),
    )
    return apportion.KnapsackJob(name, options, required)


def knapsack(gpus: int) -> apportion.MultipleChoiceKnapsackInstance:
    jobs = (job("x"), job("y"))
    return apportion.MultipleChoiceKnapsackInstance("1", "minimize", {"gpu": gpus, "net": 4}, jobs, name="k")


@cache
def honest(which: str) -> tuple[Any, str]:
    """Return an instance and its stored solution: the largest, the least, none, or one without any bound."""
    instance: Any = {"most": small(), "least": knapsack(3), "none": knapsack(1)}[which]
    return instance, stored.encode(stored.document(apportion.solve(instance))).decode()


def failing(which: str, changes: Mapping[str, Any], digest: bool = True) -> list[str]:
    """Return the checks that a changed document fails; a careful forger leaves a digest that fits."""
    instance, text = honest(which)
    told = json.loads(text)
    for path, value in changes.items():
        place, *rest = path.split(".")
        if rest:
            told[place][rest[0]] = value
        else:
            told[place] = value
    if digest:
        told["certificate"]["digest"] = stored.digest(instance, told)
    checks = stored.verify(instance, told).checks
    return [name for name, passed, _ in checks if not passed]


@pytest.mark.parametrize("which", ["most", "least", "none"])
def test_an_honest_document_passes_every_check(which: str) -> None:
    instance, text = honest(which)
    verification = stored.verify(instance, json.loads(text))
    assert verification.ok
    planless = [name for name in NAMES if name not in ("objective", "check")]
    assert [name for name, _, _ in verification.checks] == (planless if which == "none" else NAMES)


ALL_OF_MULTIPLIERS = ["verified_bound", "bound", "termination", "evidence"]
NO_BOUND = {"bound": None, "gap": None, "certificate.source": None}
NO_PROOF = {"verified_bound": None, "certificate.multipliers": None, "evidence": None}
LIMIT = {"termination": "time_limit", "solution": "feasible"}


def gap(bound: float) -> float:
    return abs(bound - 5520.0) / 5520.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"kind": "freezing"}, ["kind"]),
        ({"name": "other"}, ["name"]),
        ({"reason": "another"}, []),
        ({"objective": None}, ["objective", "gap", "termination", "evidence"]),
        (
            {"objective": 5520.1, "gap": abs(V - 5520.1) / 5520.1},
            ["objective", "bound", "termination", "evidence"],
        ),
        ({"objective": 5520.0 * (1 + 9e-10), "gap": None}, ["gap"]),
        ({"objective": 5520.0 * (1 - 9e-10), "gap": None}, ["gap"]),
        ({"objective": 5520.0 * (1 - 2e-9), "gap": None}, ["objective", "gap", "termination", "evidence"]),
        ({"gap": 0.0}, ["gap"]),
        ({"check.feasible": False}, ["check"]),
        ({"check.objective": 5519.0}, ["check"]),
        ({"check.violations": ["none"]}, ["check"]),
        ({"check": None}, ["check"]),
        ({"plan": None}, ["plan", "check", "termination", "evidence"]),
        ({"plan": None, "solution": "none"}, ["plan", "check", "termination", "evidence"]),
        ({"plan": {"allocation": {"j0": ["nowhere"]}}}, ["plan", "termination", "evidence"]),
        ({"plan": 7}, ["plan", "termination", "evidence"]),
        ({"plan": {"allocation": {}}}, ["objective", "check", "termination", "evidence"]),
        # what is said to be verified
        ({"verified_bound": None}, ALL_OF_MULTIPLIERS),
        ({"certificate.multipliers": None}, ALL_OF_MULTIPLIERS),
        (
            {"certificate.multipliers": {"idle_nodes": 961.0}},
            ALL_OF_MULTIPLIERS,
        ),
        (
            {"certificate.multipliers": {"idle_nodes": -1.0}},
            ALL_OF_MULTIPLIERS,
        ),
        (
            {"certificate.multipliers": {"other": 960.0}},
            ALL_OF_MULTIPLIERS,
        ),
        (
            {"certificate.source": "solver", "verified_bound": 5519.99},
            ALL_OF_MULTIPLIERS,
        ),
        ({"certificate.source": "solver", "verified_bound": 5520.0}, ["bound", "termination"]),
        ({"certificate.source": "solver", "verified_bound": 5520.0 * (1 + 9e-10)}, []),
        (
            {"certificate.source": "solver", "verified_bound": 5520.0 * (1 + 2e-9)},
            ["verified_bound", "evidence"],
        ),
        ({**NO_PROOF, "certificate.source": "solver"}, []),
        # what is claimed
        ({"bound": 5520.0, "gap": 0.0}, ["bound", "termination"]),
        ({"bound": 5520.0, "gap": 0.0, "certificate.source": "solver"}, []),
        ({"bound": 5519.9, "gap": gap(5519.9), "certificate.source": "solver"}, ["bound", "termination"]),
        ({"bound": LOOSE, "gap": gap(LOOSE), "certificate.source": "solver", **LIMIT}, ["bound", "evidence"]),
        ({"bound": LOOSE, "gap": gap(LOOSE), "certificate.source": "solver", **LIMIT, **NO_PROOF}, []),
        ({"bound": LOOSE, "gap": gap(LOOSE), "certificate.source": "solver", **NO_PROOF}, ["termination"]),
        ({**NO_BOUND, **LIMIT}, ["evidence"]),
        ({**NO_BOUND}, ["termination"]),
        ({"bound": None, "gap": None, **LIMIT}, ["bound", "evidence"]),
        ({"bound": None, "gap": 0.0, "certificate.source": None, **LIMIT}, ["gap", "evidence"]),
        # why it ended
        ({"solution": "feasible"}, ["termination"]),
        ({"solution": "none"}, ["termination"]),
        ({"termination": "time_limit"}, ["termination", "evidence"]),
        (LIMIT, ["evidence"]),
        ({"evidence": None}, []),
        ({"evidence": "by_solver"}, []),
        ({"evidence": "by_search"}, []),
        ({"evidence": "by_proof"}, ["evidence"]),
        ({"proof": "a file"}, []),
        # what no plan that is as fair may exceed
        ({"fair_bound": None}, []),
        ({"fair_bound": 5520.0}, ["fair_bound", "termination"]),
        ({"fair_bound": 5521.0}, ["fair_bound", "termination"]),
        ({"fair_bound": 5520.0 * (1 - 5e-10)}, ["fair_bound", "termination"]),
        ({"fair_bound": 5519.9}, ["fair_bound", "termination"]),
    ],
    ids=str,
)
def test_one_changed_claim_fails_its_own_check(changes: dict[str, Any], expected: list[str]) -> None:
    assert failing("most", changes) == expected
    if changes:
        assert failing("most", changes, digest=False) == [*expected, "digest"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bound": 7.9, "gap": abs(7.9 - 8.0) / 8.0, **LIMIT}, ["bound", "evidence"]),
        ({"bound": 7.9, "gap": abs(7.9 - 8.0) / 8.0, **LIMIT, **NO_PROOF}, []),
        ({"bound": 8.1, "gap": abs(8.1 - 8.0) / 8.0}, ["bound", "termination"]),
        ({"verified_bound": 8.0}, []),
        ({"verified_bound": 8.0 + 2e-15}, ALL_OF_MULTIPLIERS),
        ({"verified_bound": 8.0 - 7e-9}, []),
        ({"verified_bound": 8.0 - 9e-9}, ["verified_bound", "evidence"]),
        ({"fair_bound": 7.9}, ["fair_bound", "termination"]),
        ({"fair_bound": 8.1}, ["fair_bound", "termination"]),
    ],
    ids=str,
)
def test_where_the_least_is_asked_for_all_of_it_is_mirrored(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert failing("least", changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"solution": "optimal"}, ["plan", "termination"]),
        ({"objective": 1.0}, ["plan"]),
        ({"termination": "optimal"}, ["termination"]),
        ({"termination": "time_limit"}, ["evidence"]),
        ({"bound": 1.0, "certificate.source": "solver"}, []),
        ({"evidence": "by_multipliers"}, ["termination", "evidence"]),
        ({"fair_bound": 1.0}, ["fair_bound", "termination"]),
        ({"certificate.source": "multipliers"}, []),
        ({"certificate.source": "multipliers", "termination": "time_limit"}, ["bound", "evidence"]),
    ],
    ids=str,
)
def test_without_a_plan_nothing_may_be_claimed_of_one(changes: dict[str, Any], expected: list[str]) -> None:
    assert (
        failing("none", {**NO_BOUND, "verified_bound": None, "certificate.multipliers": None, **changes})
        == expected
    )


def test_a_bound_where_a_job_has_no_option_follows_from_nothing() -> None:
    instance = apportion.MultipleChoiceKnapsackInstance(
        "1", "minimize", {"gpu": 1}, (apportion.KnapsackJob("x", (), True),), name="k"
    )
    told = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    told.update(verified_bound=1.0)
    told["certificate"]["multipliers"] = {"gpu": 1.0}
    failed = [name for name, passed, _ in stored.verify(instance, told).checks if not passed]
    assert "verified_bound" in failed


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"more": 1}, "has the unknown field more"),
        ({"objective": "1"}, "objective must be"),
        ({"objective": True}, "objective must be"),
        ({"bound": []}, "bound must be"),
        ({"fair_bound": "1"}, "fair_bound must be"),
        ({"fair_bound": True}, "fair_bound must be"),
        ({"gap": "0"}, "gap must be"),
        ({"verified_bound": False}, "verified_bound must be"),
        ({"certificate": 1}, "certificate must be"),
        ({"certificate": {}}, "certificate must be"),
        ({"certificate.source": 1}, "certificate.source must be"),
        ({"certificate.digest": None}, "certificate.source must be"),
        ({"certificate.more": 1}, "certificate must be"),
        ({"certificate.multipliers": [1.0]}, "certificate.multipliers must be"),
        ({"certificate.multipliers": {"idle_nodes": "960"}}, "certificate.multipliers must be"),
        ({"certificate.multipliers": {"idle_nodes": True}}, "certificate.multipliers must be"),
        ({"certificate.multipliers": {"idle_nodes": 960.0, "b": "1"}}, "certificate.multipliers must be"),
        ({"evidence": "by_magic"}, "evidence 'by_magic' is unknown"),
        ({"levels": {}}, "levels must be"),
        ({"floors": []}, "levels must be"),
        ({"levels": [{}]}, "levels must be objects"),
        ({"levels": [["name", "share", "weight", "bound", "evidence"]]}, "levels must be objects"),
        ({"goals": [["name", "sense", "value", "bound", "seconds"]]}, "goals must be a list of objects"),
        ({"evidence": ["by_search"]}, "evidence ['by_search'] is unknown"),
        ({"termination": {"a": 1}}, "termination {'a': 1} is unknown"),
        ({"proof": 1}, "proof must be"),
        ({"termination": "bored"}, "termination 'bored' is unknown"),
    ],
    ids=str,
)
def test_what_is_no_document_is_said_to_be_none_and_not_looked_at(
    changes: dict[str, Any], named: str
) -> None:
    assert failing("most", changes, digest=False) == ["document"]
    instance, text = honest("most")
    told = json.loads(text)
    for path, value in changes.items():
        place, *rest = path.split(".")
        told[place] = {**told[place], rest[0]: value} if rest else value
    verification = stored.verify(instance, told)
    assert len(verification.checks) == 1 and named in verification.checks[0][2]


@pytest.mark.parametrize("name", json.loads(honest("most")[1]))
def test_every_field_is_needed_but_the_later_ones(name: str) -> None:
    instance, text = honest("most")
    told = json.loads(text)
    del told[name]
    checks = stored.verify(instance, told).checks
    if name in ("evidence", "proof"):
        assert [check[0] for check in checks if not check[1]] == ["digest"]
    else:
        assert checks == (("document", False, f"lacks {name}"),)


def test_the_document_says_what_the_solution_says() -> None:
    solution = apportion.solve(knapsack(3), seed=5)
    told = stored.document(solution, 1.5, "k.proof")
    assert list(told)[: len(FIELDS)] == list(FIELDS)
    for name in (
        "backend",
        "solution",
        "objective",
        "bound",
        "gap",
        "reason",
        "plan",
        "versions",
        "seed",
        "evidence",
    ):
        assert told[name] == getattr(solution, name), name
    assert told["seed"] == 5 and told["proof"] == "k.proof" and told["name"] == "k"
    assert told["verified_bound"] == solution.certificate.verified_bound
    assert told["certificate"]["multipliers"] == dict(solution.certificate.multipliers or {})
    assert told["times"]["read"] == 1.5
    assert told["times"]["total"] == pytest.approx(1.5 + solution.times["total"])
    assert set(told["times"]) == {"read", "compile", "start", "solve", "check", "total"}
    assert told["check"] == {"feasible": True, "objective": solution.objective, "violations": []}
    assert stored.document(solution)["times"]["read"] == 0.0
    assert "levels" not in told and "floors" not in told
    bare = apportion.MultipleChoiceKnapsack.from_arrays([3.0], [1], [0, 1], [1])
    bare_told = stored.document(apportion.solve(bare))
    assert bare_told["certificate"]["digest"] is None and bare_told["name"] == ""
    assert type(bare_told["plan"]) is list and bare_told["plan"] == [0]
    assert stored.document(apportion.solve(knapsack(1)))["check"] is None


PROVED = proofs.Verdict("proved", "as it says", proofs.Claim("no_better_plan", 5520.0))


@pytest.mark.parametrize(
    ("verdict", "changes", "fits"),
    [
        (PROVED, {}, True),
        (proofs.Verdict("refused", "a leaf is open", proofs.Claim("no_better_plan", 5520.0)), {}, False),
        (proofs.Verdict("incomplete", "late", None), {}, False),
        (proofs.Verdict("proved", "", proofs.Claim("no_better_plan", 5520.1)), {}, False),
        (proofs.Verdict("proved", "", proofs.Claim("infeasible")), {}, False),
        (
            PROVED,
            {"bound": LOOSE, "gap": gap(LOOSE), "certificate.source": "solver", **LIMIT, **NO_PROOF},
            True,
        ),
        (
            proofs.Verdict("proved", "", proofs.Claim("no_better_plan", 5520.1)),
            {"bound": LOOSE, "gap": gap(LOOSE), "certificate.source": "solver", **LIMIT, **NO_PROOF},
            False,
        ),
        (PROVED, {**NO_BOUND, **LIMIT, **NO_PROOF}, False),
        (proofs.Verdict("proved", "", None), {}, False),
        (proofs.Verdict("proved", "", proofs.Claim("no_better_plan", 5519.9)), {}, False),
        (proofs.Verdict("proved", "", proofs.Claim("infeasible")), {"termination": "infeasible"}, False),
        (PROVED, {"plan": None, "objective": None, "solution": "none", "gap": None}, False),
        (
            proofs.Verdict("proved", "", proofs.Claim("no_better_plan", LOOSE + 4e-6)),
            {"bound": LOOSE, "gap": gap(LOOSE), "certificate.source": "solver", **LIMIT, **NO_PROOF},
            True,
        ),
    ],
    ids=str,
)
def test_a_proof_must_show_what_the_document_claims(
    monkeypatch: pytest.MonkeyPatch, verdict: Any, changes: dict[str, Any], fits: bool
) -> None:
    monkeypatch.setattr(proofs, "verify", lambda instance, proof: verdict)
    instance, text = honest("most")
    told = json.loads(text)
    for path, value in changes.items():
        place, *rest = path.split(".")
        told[place] = {**told[place], rest[0]: value} if rest else value
    told["certificate"]["digest"] = stored.digest(instance, told)
    checks = {name: passed for name, passed, _ in stored.verify(instance, told, b"proof").checks}
    assert checks["proof"] is fits
    assert "proof" not in {name for name, _, _ in stored.verify(instance, told).checks}


@pytest.mark.parametrize(("claim", "fits"), [("infeasible", True), ("no_better_plan", False)])
def test_a_proof_that_nothing_is_feasible_needs_a_document_that_says_so(
    monkeypatch: pytest.MonkeyPatch, claim: Any, fits: bool
) -> None:
    bound = None if claim == "infeasible" else 8.0
    verdict = proofs.Verdict("proved", "", proofs.Claim(claim, bound))
    monkeypatch.setattr(proofs, "verify", lambda instance, proof: verdict)
    instance, text = honest("none")
    told = json.loads(text)
    assert told["termination"] == Termination.INFEASIBLE
    assert {name: passed for name, passed, _ in stored.verify(instance, told, b"").checks}["proof"] is fits
    open_end = {**copy.deepcopy(told), "termination": "time_limit"}
    assert not {name: passed for name, passed, _ in stored.verify(instance, open_end, b"").checks}["proof"]


def test_a_proof_of_the_least_may_be_looser_by_nothing_that_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, text = honest("least")
    told = json.loads(text)
    told.update(termination="time_limit", solution="feasible", bound=7.5, gap=0.0625, evidence=None)
    for shown, fits in ((8.0, True), (7.5, True), (7.5 - 7e-9, True), (7.5 - 8e-9, False), (7.0, False)):
        verdict = proofs.Verdict("proved", "", proofs.Claim("no_better_plan", shown))
        monkeypatch.setattr(proofs, "verify", lambda instance, proof, verdict=verdict: verdict)
        checks = {name: passed for name, passed, _ in stored.verify(instance, told, b"").checks}
        assert checks["proof"] is fits, shown


SAID = {
    "document": "all fields are present and of their type",
    "plan": "keeps every rule",
    "check": "matches the recomputed check",
    "bound": "is the verified bound",
    "evidence": "the multipliers show it",
    "digest": "matches",
}


def said(which: str, changes: Mapping[str, Any]) -> dict[str, str]:
    instance, text = honest(which)
    told = json.loads(text)
    for path, value in changes.items():
        place, *rest = path.split(".")
        told[place] = {**told[place], rest[0]: value} if rest else value
    return {name: message for name, _, message in stored.verify(instance, told).checks}


def test_what_is_said_of_a_check_fits_what_was_found() -> None:
    assert SAID.items() <= said("most", {}).items()
    assert said("least", {})["bound"].startswith("claimed by branch_and_bound, and within 1e-9")
    assert said("none", {})["plan"] == "no plan is claimed"
    assert said("most", {"plan": None})["plan"] == "a solution is claimed without a plan"
    assert "nowhere" in said("most", {"plan": {"allocation": {"j0": ["nowhere"]}}})["plan"]
    assert said("most", {"check": None})["check"] == "differs from the recomputed check"
    assert said("most", {"reason": "x"})["digest"] == "the document or the instance was edited"
    assert said("most", NO_PROOF)["verified_bound"] == "none is claimed"
    assert said("most", {"verified_bound": None})["verified_bound"] == "needs multipliers, and they a bound"
    assert said("most", {"evidence": None})["evidence"].startswith("nothing is said")
    assert said("most", {"evidence": "by_search"})["evidence"] == "is said by_search, and more is shown"
    loose = {**NO_PROOF, "certificate.source": "solver", "evidence": "by_search"}
    assert said("most", loose)["evidence"] == "by_search: the claim is our own search's word"
    assert said("most", {"verified_bound": 6000.0})["evidence"] == "the multipliers do not show it"
    crowd = {"allocation": {f"j{k}": ["a"] for k in range(3)} | {"x": [], "y": [], "z": [], "u": [], "w": []}}
    assert said("most", {"plan": crowd})["plan"].count(";") == 4
    assert (
        stored.verify(small(), {"schema_version": "1", "jobs": []}).checks[0][2].startswith("is an instance")
    )
    assert said("most", {**NO_BOUND, **LIMIT})["bound"] == "none is claimed"
    assert said("most", {"bound": 5520.0, "gap": 0.0})["bound"].endswith("which do not show it")
    assert stored.verify(small(), 3).checks == (("document", False, "must be a JSON object"),)
    assert not stored.verify(small(), {**json.loads(honest("most")[1]), "name": "other"}).ok


def test_a_proof_that_fits_is_told_as_it_is_and_another_as_claiming_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance, text = honest("most")
    for shown, told in ((5520.0, ": as it says"), (5530.0, "; the result claims more or something else")):
        verdict = proofs.Verdict("proved", "as it says", proofs.Claim("no_better_plan", shown))
        monkeypatch.setattr(proofs, "verify", lambda instance, proof, verdict=verdict: verdict)
        checks = {name: message for name, _, message in stored.verify(instance, json.loads(text), b"").checks}
        assert checks["proof"].endswith(told)


def test_a_refused_proof_keeps_the_reason_of_its_refusal() -> None:
    instance, text = honest("most")
    found = {line.claim: line for line in stored.verify(instance, json.loads(text), b"no proof").claims}
    assert found["proof"].verdict == "refused" and "claims more" not in found["proof"].how


@pytest.mark.parametrize(
    ("check", "verdict", "how"),
    [
        ({"feasible": False, "violations": ["x"]}, "word", "is about a point that was withheld"),
        ({"feasible": True}, "refused", "is about a plan, and there is none"),
        ("feasible", "refused", "is about a plan, and there is none"),
    ],
    ids=str,
)
def test_a_check_without_a_plan_claims_that_one_was_withheld(check: Any, verdict: str, how: str) -> None:
    instance, text = honest("none")
    found = {line.claim: line for line in stored.verify(instance, json.loads(text) | {"check": check}).claims}
    assert (found["check"].verdict, found["check"].how) == (verdict, how)


def test_what_is_refused_is_not_verified_though_no_word_is_taken() -> None:
    instance, text = honest("most")
    found = stored.verify(instance, json.loads(text) | {"name": "other"})
    assert not found.words and not found.ok and not found.verified


def test_a_bound_of_a_search_is_its_word_and_shown_by_a_proof_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, text = honest("most")
    told = json.loads(text) | {"bound": LOOSE, "gap": gap(LOOSE), **LIMIT, "evidence": None}
    told |= {"verified_bound": None, "certificate": told["certificate"] | {"source": "solver"}}
    told["certificate"]["multipliers"] = None
    assert verdicts(instance, told)["bound"] == "word"
    for shown, verdict in ((LOOSE, "derived"), (LOOSE - 1e-4, "derived"), (LOOSE + 1.0, "word")):
        claim = proofs.Verdict("proved", "", proofs.Claim("no_better_plan", shown))
        monkeypatch.setattr(proofs, "verify", lambda instance, proof, claim=claim: claim)
        assert verdicts(instance, told, b"")["bound"] == verdict, shown


@pytest.mark.parametrize(("which", "proved", "fair"), [("least", 7.99, 8.5), ("most", 5600.0, 5519.0)])
def test_the_tightest_of_two_bounds_counts(
    monkeypatch: pytest.MonkeyPatch, which: str, proved: float, fair: float
) -> None:
    """Multipliers show the optimum, a proof less: what is as fair is held against the optimum."""
    from apportion.proofs import verified_document

    instance, text = honest(which)
    told = json.loads(text)
    claim = proofs.Verdict("proved", "", proofs.Claim("no_better_plan", proved))
    monkeypatch.setattr(proofs, "verify", lambda instance, proof: claim)
    seen: list[Any] = []
    true = verified_document.shares_of
    monkeypatch.setattr(verified_document, "shares_of", lambda *given: seen.append(given[-1]) or true(*given))
    stored.verify(instance, told, b"")
    assert float(seen[0]) == told["verified_bound"]


def test_a_search_that_stopped_at_its_gap_shows_it_by_its_bound() -> None:
    """The multipliers' own bound, and no other one, makes of a gap more than a word."""
    instance, text = honest("most")
    told = json.loads(text) | {"termination": "gap_reached", "solution": "feasible"}
    told["certificate"] |= {"multipliers": {"idle_nodes": 961.0}, "source": "multipliers"}
    exact = kind_of(instance).exact_bound(instance, {"idle_nodes": 961.0})
    assert exact is not None
    told |= {"verified_bound": float(exact), "bound": float(exact), "gap": gap(float(exact))}
    assert verdicts(instance, told)["evidence"] == "derived"
    assert verdicts(instance, told | {"termination": "optimal"})["evidence"] == "refused"
    other = float(exact) + 3.0
    told |= {"bound": other, "gap": gap(other)}
    told["certificate"]["source"] = "solver"
    assert verdicts(instance, told)["evidence"] == "refused"
    told |= {"termination": "time_limit", "bound": float(exact), "gap": gap(float(exact))}
    assert verdicts(instance, told)["evidence"] == "refused"


def test_a_proof_of_a_gap_shows_it_by_the_stated_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, text = honest("most")
    told = json.loads(text) | {"termination": "gap_reached", "solution": "feasible", "evidence": "by_proof"}
    told |= {"bound": 5530.0, "gap": gap(5530.0), "verified_bound": None}
    told["certificate"] |= {"source": "solver", "multipliers": None}
    for shown, verdict in ((5530.0, "derived"), (5525.0, "derived"), (5540.0, "refused")):
        claim = proofs.Verdict("proved", "", proofs.Claim("no_better_plan", shown))
        monkeypatch.setattr(proofs, "verify", lambda instance, proof, claim=claim: claim)
        assert verdicts(instance, told, b"")["evidence"] == verdict, shown


def test_a_proof_near_a_tiny_objective_is_one_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = apportion.KnapsackJob("x", (apportion.KnapsackOption("a", 5e-10, {"gpu": 1}),), True)
    instance = apportion.MultipleChoiceKnapsackInstance("1", "maximize", {"gpu": 1}, (tiny,), name="k")
    told = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    assert told["objective"] == 5e-10
    for shown, verdict in ((5e-10 + 1e-19, "derived"), (5e-10 + 1e-12, "refused"), (-5e-10, "refused")):
        claim = proofs.Verdict("proved", "", proofs.Claim("no_better_plan", shown))
        monkeypatch.setattr(proofs, "verify", lambda instance, proof, claim=claim: claim)
        assert verdicts(instance, told, b"")["proof"] == verdict, shown


def test_phases_that_were_not_measured_took_no_time() -> None:
    assert stored._times({}, 2.0) == {
        **dict.fromkeys(("compile", "start", "solve", "check"), 0.0),
        "read": 2.0,
        "total": 2.0,
    }


def test_the_least_double_beside_a_bound_of_zero_is_rounding_and_nothing_more_is() -> None:
    free = apportion.KnapsackJob("x", (apportion.KnapsackOption("a", 0.0, {"gpu": 1}),), True)
    instance = apportion.MultipleChoiceKnapsackInstance("1", "minimize", {"gpu": 1}, (free,), name="k")
    told = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    told["certificate"]["multipliers"] = {"gpu": 0.0}
    for bound, passes in ((0.0, True), (-5e-324, True), (-1e-323, False), (-1e-9, False), (5e-324, False)):
        told["verified_bound"] = bound
        checks = {name: passed for name, passed, _ in stored.verify(instance, told).checks}
        assert checks["verified_bound"] is passes, bound


def test_shares_that_are_due_stand_in_the_document_and_are_checked(root: Any) -> None:
    instance = apportion.read(root / "examples" / "three_teams.json")
    told = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    assert told["floors"] and len(told["levels"]) >= 3
    checks = stored.verify(instance, told).checks
    assert all(passed for _, passed, _ in checks)
    assert ("floors", True, f"{len(told['floors'])} shares are due, and kept by the plan") in checks
    for floors, check in (({"nobody": 1}, "floors"), (dict.fromkeys(told["floors"], 0), "floors")):
        failed = [
            name
            for name, passed, _ in stored.verify(instance, {**told, "floors": floors}).checks
            if not passed
        ]
        assert check in failed
    higher = {name: 2 * share for name, share in told["floors"].items()}
    assert not stored.verify(instance, {**told, "floors": higher}).ok


def test_a_bound_over_equally_fair_plans_is_checked_where_shares_are_due(root: Any) -> None:
    instance, text = honest("most")
    told = json.loads(text)
    assert "fair_bound" not in [name for name, _, _ in stored.verify(instance, told).checks]
    told["fair_bound"] = 5521.5
    found = {line.claim: line for line in stored.verify(instance, told).claims}
    assert found["fair_bound"].verdict == "refused" and "no shares to be due" in found["fair_bound"].how
    instance = apportion.read(root / "examples" / "three_teams.json")
    told = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    best = told["fair_bound"]
    for bound, verdict, how in (
        (best, "derived", "no plan as fair is beyond 75.46"),
        (best + 1.0, "derived", "no plan as fair is beyond 76.46"),
        (best - 1.0, "refused", "the plan, which is as fair, is beyond it"),
    ):
        told["fair_bound"] = bound
        found = {line.claim: line for line in stored.verify(instance, told).claims}
        assert (found["fair_bound"].verdict, found["fair_bound"].how) == (verdict, how)


def verdicts(instance: Any, told: dict[str, Any], proof: bytes | None = None) -> dict[str, str]:
    """Return what becomes of every claim of a document; a careful forger leaves a digest that fits."""
    told["certificate"]["digest"] = stored.digest(instance, told)
    return {line.claim: line.verdict.value for line in stored.verify(instance, told, proof).claims}


def no_plan(instance: Any, **changes: Any) -> dict[str, Any]:
    """Return the true result of an instance with its plan taken out, and called infeasible."""
    told: dict[str, Any] = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    told.update(termination="infeasible", solution="none", objective=None, gap=None, plan=None, check=None)
    told.update(bound=told["verified_bound"], **changes)
    told["certificate"]["source"] = "multipliers"
    return told


def test_a_false_infeasible_is_refused_beside_a_proof_of_something_else() -> None:
    """A feasible instance was called infeasible with a proof that nothing is better: it was verified."""
    instance = knapsack(3)
    solution = apportion.solve(instance, proof=True)
    assert solution.proof is not None
    proof = proofs.certificate.encode(solution.proof)
    for evidence in ("by_proof", "by_multipliers", "by_search", None):
        found = verdicts(instance, no_plan(instance, evidence=evidence), proof)
        assert found["termination"] == found["proof"] == "refused", evidence
    for evidence, verdict in (("by_proof", "refused"), ("by_multipliers", "refused"), ("by_solver", "word")):
        assert verdicts(instance, no_plan(instance, evidence=evidence))["termination"] == verdict


@pytest.mark.parametrize(
    "changes",
    [
        {"termination": "infeasible", "solution": "feasible"},
        {"termination": "infeasible_or_unbounded", "solution": "feasible", "evidence": None},
        {"termination": "unbounded", "solution": "feasible", "evidence": None},
        {"evidence": "by_proof"},
        {"levels": [{"name": "x", "share": 1e9, "weight": 1, "bound": 1e9, "evidence": "by_search"}]},
        {"floors": {}},
        {"fair_bound": 0.0},
        {"fair_bound": float("nan")},
        {"objective": 10**400},
        {"bound": 10**400},
        {"verified_bound": 10**400},
        {"gap": float("inf")},
        {"certificate.multipliers": {"idle_nodes": 10**400}},
        {"certificate.source": "magic"},
    ],
    ids=str,
)
def test_what_once_was_verified_and_could_not_be_true_is_refused(changes: dict[str, Any]) -> None:
    """Infeasible or unbounded beside a plan, levels without tenants, NaN: all passed; 10**400 crashed."""
    assert failing("most", changes)


def test_forged_floors_are_held_against_what_is_due(root: Any) -> None:
    """With weaker floors a plan that broke guarantees was verified as the optimum, by proof: 89 for 79."""
    told = json.loads((root / "examples" / "three_teams.json").read_text())
    del told["fairness"]
    instance = apportion.read(json.dumps(told).encode())
    true = apportion.solve(instance)
    assert verdicts(instance, stored.document(true))["floors"] == "derived"
    for floors in (
        {"robots": 0},
        {},
        {**(true.floors or {}), "vision": 23},
        {**(true.floors or {}), "speech": 14},
    ):
        held = apportion.solve(under_floors(instance, floors), proof=True)
        assert held.proof is not None
        forged = {**stored.document(held), "floors": floors, "levels": [], "fair_bound": None}
        found = verdicts(instance, forged, proofs.certificate.encode(held.proof))
        assert (found["floors"], found["termination"]) == ("refused", "refused"), floors


def test_levels_are_derived_anew_and_never_taken_over(root: Any) -> None:
    instance = apportion.read(root / "examples" / "three_teams.json")
    true = stored.document(apportion.solve(instance))
    assert verdicts(instance, copy.deepcopy(true))["levels"] == "derived"
    lower = {name: share - 1 for name, share in true["floors"].items()}
    levels = [
        {**one, "share": lower[one["name"]] / 24, "bound": lower[one["name"]] / 24} for one in true["levels"]
    ]
    for changes in (
        {"floors": lower, "levels": levels},
        {"levels": []},
        {"levels": true["levels"][1:]},
        {"levels": [*true["levels"], true["levels"][0]]},
        {"levels": [{**one, "weight": 1.0} for one in true["levels"]]},
        {"levels": [{**one, "bound": one["bound"] + 1} for one in true["levels"]]},
        {"levels": [{**one, "share": 0.0, "evidence": None} for one in true["levels"]]},
    ):
        found = verdicts(instance, {**copy.deepcopy(true), **changes})
        assert "refused" in (found["floors"], found["levels"]) and found["termination"] == "refused", changes


def test_a_plan_that_is_fair_but_not_the_best_of_these_is_no_optimum() -> None:
    """One GPU a tenant: which job of two gets it is for the objective to say."""
    jobs = [
        {
            "id": f"{tenant}{number}",
            "tenant": tenant,
            "required": False,
            "options": [{"id": "run", "value": value, "uses": {"gpu": 1}}],
        }
        for tenant in "ab"
        for number, value in enumerate((1.0, 5.0))
    ]
    kind = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize", "fairness": {}}
    tenants = [{"id": "a"}, {"id": "b"}]
    instance = apportion.read({**kind, "capacities": {"gpu": 2}, "tenants": tenants, "jobs": jobs})
    told: Any = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    assert told["objective"] == told["fair_bound"] == 10.0
    told["plan"] = {"choice": {"a0": "run", "b1": "run"}}
    told |= {"objective": 6.0, "bound": 6.0, "gap": 0.0, "fair_bound": 6.0, "evidence": "by_search"}
    told |= {"verified_bound": None, "check": {"feasible": True, "objective": 6.0, "violations": []}}
    told["certificate"] |= {"source": "branch_and_bound", "multipliers": None}
    found = verdicts(instance, told)
    assert (found["floors"], found["fair_bound"]) == ("word", "word")
    assert found["termination"] == "word"
