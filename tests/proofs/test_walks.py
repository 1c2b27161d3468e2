"""Proofs of small random instances hold, and the same proofs refuse a claim that is a little stronger."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from benchmarks.proof_cost import FAMILIES
from benchmarks.suite.making import MAKERS, make
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion import Assignment
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.models import MultipleChoiceKnapsack
from apportion.proofs import Claim, reference, verify, verifying
from apportion.proofs.bare_models import columns
from apportion.proofs.capacity_cuts import greatest_sum
from apportion.proofs.certificate import decode, encode, named
from apportion.proofs.statement import statement_of
from apportion.proofs.verifying import Limits
from apportion.solving.call import kind_of_any
from apportion.solving.proving import draft_of
from tests import strategies
from tests.budgets import examples
from tests.proofs.claims import KINDS as DRAWN
from tests.proofs.claims import Tally, asked

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "one capacity": strategies.knapsacks(max_capacities=1),
    "several capacities": strategies.knapsacks(min_capacities=2, max_capacities=4, max_jobs=6),
    "named menus": strategies.knapsack_instances(),
    "gap filling": strategies.gap_filling_instances(pins=True),
    "generalised assignment": strategies.matchings(objectives=("cost", "value")),
    "freezing": strategies.freezing_instances(),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_every_claim_on_drawn_instances_carries_a_proof(kind: str) -> None:
    """Whatever the magnitudes: `python -m tests.proofs.claims` asks for many more."""
    tally = Tally()
    count = examples(30, fewest=12)
    for number in range(count):
        name = f"{kind} 2/{number}"
        asked(DRAWN[kind].case(Random(name)), tally, name)
    assert tally.claims > count // 2 and tally.offered > count // 6 and not tally.accepted
    assert tally.proved == tally.claims, tally.reasons


@pytest.mark.parametrize("divisible", [False, True])
def test_bare_arrays_and_instances_of_the_same_jobs_are_proved_alike(divisible: bool) -> None:
    rng = np.random.default_rng(4)
    times = rng.integers(1, 30, (6, 3)).astype(float)
    model = replace(Assignment.from_matrix("makespan", times), divisible=divisible)
    named = MatchingInstance(
        schema_version="1",
        objective="makespan",
        divisible=divisible,
        machines=tuple(MatchingMachine(f"m{i}") for i in range(3)),
        jobs=tuple(
            MatchingJob(f"j{j}", {f"m{i}": MatchingEntry(time_s=float(times[j, i])) for i in range(3)})
            for j in range(6)
        ),
    )
    found = [apportion.solve(one, proof=True) for one in (model, named)]
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-9)
    for one in found:
        assert one.proof is not None and verify(one.instance, one.proof).proved


def test_shares_a_billionth_from_the_best_are_not_called_best() -> None:
    """HiGHS called shares optimal that were 1.25e-9 longer than the best, and nothing showed otherwise."""
    model = replace(Assignment.from_matrix("makespan", [[99999999.5, 99999999.375, 1e8 + 1]]), divisible=True)
    solution = apportion.solve(model, proof=True)
    assert solution.evidence == "by_multipliers" and solution.proof is not None
    assert solution.objective == pytest.approx(99999999.375, rel=1e-10)


def test_shares_that_just_meet_their_bound_are_proved_as_far_as_their_prices_show() -> None:
    """They were called optimal, 9.2e-10 above the bound, and the proof asked for what lies 9e-10 below."""
    tally, kind = Tally(), "shares of machines"
    asked(DRAWN[kind].case(Random(f"{kind} 20261123/3543")), tally, "3543")
    assert (tally.claims, tally.proved, tally.offered, tally.accepted) == (1, 1, 2, 0)


@pytest.mark.parametrize("number", [5302, 8719])
def test_an_infeasibility_that_only_nodes_show_is_proved(number: int) -> None:
    """Engines tell no price of the cut, and of the second one no count of parts of a node shows it.

    It has jobs of 2 and 4 GPUs on nodes of 5 and 1: they are a set that is excluded.
    """
    tally, kind = Tally(), "freezing on nodes"
    asked(DRAWN[kind].case(Random(f"{kind} 20261124/{number}")), tally, str(number))
    assert (tally.claims, tally.proved) == (1, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_proved_is_the_objective(family: str) -> None:
    maker, arguments = FAMILIES[family]
    for seed in range(3):
        solution = apportion.solve(MAKERS[maker](seed=seed, **arguments), proof=True, time_limit=60.0)
        assert solution.evidence in ("by_multipliers", "by_proof") and solution.proof is not None
        claimed, objective = solution.proof.claim.bound, solution.objective
        assert claimed is not None and objective is not None
        assert abs(claimed - objective) <= 1e-9 * abs(objective)


def test_the_prices_of_many_menus_need_no_general_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS took two minutes for a relaxation of 100,000 jobs under one capacity, whatever its limit was."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("HiGHS was asked for the price of one capacity")

    monkeypatch.setattr("apportion.solving.proving.call", never)
    model = make("menus", {"law": "strongly_correlated", "jobs": 20_000, "arrays": True, "seed": 31}, None)
    began = time.process_time()
    solution = apportion.solve(model, proof=True, time_limit=2.0)
    assert solution.objective is not None and time.process_time() - began < 8.0


def exact_objective(instance: Any, plan: Any) -> Fraction | None:
    if plan is None:
        return None
    if isinstance(instance, MultipleChoiceKnapsack):
        return sum((Fraction(float(v)) for v in instance.values[plan[plan >= 0]]), Fraction(0))
    return kind_of_any(instance).exact_objective(instance, plan)


def holds_and_no_more(instance: Any) -> bool:
    """Hold a claim's proof against stronger claims; return whether there was a claim."""
    solution = apportion.solve(instance, time_limit=10.0)
    if solution.termination.value not in ("optimal", "infeasible"):
        return False
    kind = kind_of_any(instance)
    up = kind.maximizes(instance)
    objective = exact_objective(instance, solution.plan)
    draft = draft_of(columns(instance), objective, maximizes=up, multipliers=solution.certificate.multipliers)
    proof = named(instance, draft)
    verdict = verify(instance, proof)
    assert verdict.status == "proved", verdict
    if objective is None:
        return True
    assert abs(Fraction(proof.claim.bound) - objective) <= Fraction(1e-9) * max(
        abs(objective), Fraction(1e-9)
    )
    nothing = replace(proof, claim=Claim("infeasible"))
    assert verify(instance, nothing).status == "refused"
    step = max(abs(objective), Fraction(1, 1000)) / 10**6
    better = Claim("no_better_plan", float(objective - step if up else objective + step))
    assert verify(instance, replace(proof, claim=better)).status == "refused"
    return True


def nearly_all_hold(kind: str, count: int) -> None:
    """Draw instances of a kind; all that is claimed is proved, and next to nothing is left unclaimed."""
    claimed: list[bool] = []

    @settings(max_examples=count)
    @given(KINDS[kind])
    def drawn(instance: Any) -> None:
        claimed.append(holds_and_no_more(instance))

    drawn()
    assert sum(claimed) >= 0.9 * len(claimed) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_claim_of_our_engines_is_proved_and_no_stronger_one(kind: str) -> None:
    nearly_all_hold(kind, examples(60))


def test_walks_that_are_long_go_by_the_options_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they end with is what a walk over all of them ends with, whatever prices a proof has left."""
    ended: list[str] = []
    by_options = verifying._by_options

    def noted(*given: Any) -> Any:
        walked = by_options(*given)
        ended.append(walked.status)
        return walked

    monkeypatch.setattr(verifying, "_by_options", noted)

    for seed in range(examples(40)):
        rng = np.random.default_rng(seed)
        uses, values = rng.integers(0, 9, (36, 3)), rng.integers(1, 30, 36)
        model = MultipleChoiceKnapsack.from_arrays(
            values, uses, range(0, 37, 3), [20, 25, 30], required=False
        )
        draft = draft_of(columns(model), exact_objective(model, apportion.solve(model).plan), maximizes=True)
        bare = named(model, replace(draft, prices=draft.prices[: seed % 2], order=()))
        for proof in (bare, replace(bare, claim=Claim("no_better_plan", draft.claim.bound - 20.0))):
            whole = verify(model, proof).status
            with monkeypatch.context() as patched:
                patched.setattr(verifying, "_BRIEF", 20 * seed if seed % 2 else seed)
                assert verify(model, proof).status == whole
    assert {*ended} == {"proved", "refused", "incomplete"}


@pytest.mark.parametrize(("seed", "jobs", "racks"), [(3, 60, 20), (2, 30, 8)])
def test_racks_are_proved_by_capacities_that_are_divided(seed: int, jobs: int, racks: int) -> None:
    """Without them walks of these were open after 20 billion steps, and one claim was HiGHS's word."""
    model = make("racks", {"seed": seed, "jobs": jobs, "racks": racks}, None)
    solution = apportion.solve(model, proof=True, deterministic=True)
    assert solution.evidence == "by_proof" and solution.proof is not None
    assert len(encode(solution.proof)) < 2_000 and any("divisor" in cut for cut in solution.proof.cuts)
    assert reference.check(statement_of(model), encode(solution.proof))[0] is True
    assert decode(encode(solution.proof)) == solution.proof
    without = replace(solution.proof, cuts=(), prices=tuple(v[:racks] for v in solution.proof.prices))
    assert verify(model, without, Limits(states=10_000)).status == "incomplete"
    better = Claim("no_better_plan", float(solution.objective or 0.0) * (1 - 1e-6))
    assert not verify(model, replace(solution.proof, claim=better), Limits(states=100_000)).proved


@given(strategies.knapsacks(min_capacities=1, max_capacities=3))
@settings(max_examples=examples(60))
def test_the_greatest_sum_is_the_same_by_both_checkers(model: MultipleChoiceKnapsack) -> None:
    stated = statement_of(model)
    for k in range(model.num_capacities):
        cut = {"capacity": k, "divisor": 1}
        try:
            told, _ = reference.cut_of_capacity(stated, cut)
        except TimeoutError:
            continue
        assert greatest_sum(columns(model), k, [10**9]) == told


def test_a_greatest_sum_takes_no_more_words_than_there_are() -> None:
    """Of 4 or 6, 9 and 20 each once; every use takes a word for 64 units of room and one more."""
    for room, reached in ((37, 35), (34, 33), (20, 20), (12, 9), (4, 4), (3, 0), (0, 0)):
        given = columns(
            MultipleChoiceKnapsack.from_arrays([1.0] * 4, [[4], [6], [9], [20]], [0, 2, 3, 4], [room], False)
        )
        assert greatest_sum(given, 0, [100]) == reached
    wide = replace(given, rooms=[64])
    words = [8]
    assert greatest_sum(wide, 0, words) == 35 and words == [0]
    assert greatest_sum(wide, 0, [7]) is None and greatest_sum(replace(given, rooms=[-1]), 0, [100]) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_claim_of_our_engines_is_proved_at_length(kind: str) -> None:
    nearly_all_hold(kind, 20_000)
