"""A general solver's claim is tested by our own search: confirmed, contradicted, or left as it was."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.core.outcome import Outcome, Termination
from apportion.core.solution import Solution
from apportion.models import MultipleChoiceKnapsack
from apportion.models.linear import LinearModel
from apportion.solving import registry
from apportion.solving.exact_recheck import cross_check, untested
from apportion.solving.registry import Backend
from tests.proofs.claims import KINDS as DRAWN

_LIMIT_S = 120.0
"""Of a call: a busy machine takes long to start a solver; none of these searches is long."""


def menus() -> MultipleChoiceKnapsack:
    rng = np.random.default_rng(3)
    uses = rng.integers(1, 40, (24, 2))
    values = uses.sum(axis=1) + rng.integers(-5, 6, 24).astype(float)
    return MultipleChoiceKnapsack.from_arrays(
        values, uses, np.arange(0, 25, 4), uses.sum(axis=0) // 7, required=False
    )


def lying(answer: Callable[[Any], Outcome]) -> Backend:
    return Backend("liar", "linear", lambda model, options, start: answer(model), general=True)


def test_an_optimum_that_ours_confirms_is_by_search_and_provable() -> None:
    model = menus()
    best = apportion.solve(model, time_limit=_LIMIT_S).objective
    solution = apportion.solve(model, "highs", time_limit=_LIMIT_S)
    assert solution.termination.value == "optimal" and solution.objective == best
    assert solution.evidence == "by_search" and solution.times["cross_check"] > 0
    assert apportion.solve(model, "highs", proof=True, time_limit=_LIMIT_S).evidence == "by_proof"


def test_a_plan_called_optimal_that_ours_beats_is_an_error_naming_both() -> None:
    rng = np.random.default_rng(1)
    uses = rng.integers(10, 60, (12, 1))
    values = uses[:, 0] + rng.integers(-5, 6, 12).astype(float)
    room = uses.sum(axis=0) // 2
    model = MultipleChoiceKnapsack.from_arrays(values, uses, np.arange(13), room, required=False)
    first = Backend("liar", "linear", calls_its_start_optimal, general=True)
    solution = apportion.solve(model, first, time_limit=_LIMIT_S)
    assert solution.termination is Termination.ERROR and solution.evidence is None
    optimal = apportion.solve(model, time_limit=_LIMIT_S)
    assert solution.objective == optimal.objective  # the better plan is kept
    assert solution.certificate.source == "multipliers"
    (note,) = [note for note in solution.notes if "one of the two is wrong" in note]
    assert "liar says optimal" in note and "exact says optimal" in note


def calls_its_start_optimal(model: LinearModel, options: object, start: Any) -> Outcome:
    """Claim that the greedy plan, which is not the best one, is optimal; its test gets as long."""
    time.sleep(1.0)
    value = model.objective(start)
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="optimal",
        point=start,
        objective=value,
        bound=value,
        bound_source="solver",
    )


def test_infeasible_of_what_has_a_plan_is_an_error_that_keeps_the_plan() -> None:
    model = menus()
    solution = apportion.solve(
        model, lying(lambda _: Outcome(termination=Termination.INFEASIBLE, raw_status="infeasible"))
    )
    assert solution.termination is not Termination.INFEASIBLE
    assert solution.plan is not None and solution.evidence is None


@pytest.mark.parametrize("backend", ["highs", "cp-sat"])
def test_infeasible_that_ours_confirms_is_by_search(backend: str) -> None:
    model = MultipleChoiceKnapsack.from_arrays(
        [1.0, 1.0, 1.0, 1.0], [[3, 0], [0, 3], [3, 0], [0, 3]], [0, 2, 4], [2, 3]
    )
    solution = apportion.solve(model, backend, time_limit=_LIMIT_S)
    assert solution.termination is Termination.INFEASIBLE and solution.evidence == "by_search"
    assert apportion.solve(model, backend, proof=True, time_limit=_LIMIT_S).evidence == "by_proof"


def test_a_search_of_ours_that_a_general_solver_ended_confirms_nothing() -> None:
    ours = apportion.solve(menus())
    assert ours.evidence in ("by_search", "by_multipliers")
    ended = replace(ours, certificate=replace(ours.certificate, source="solver", verified_bound=None))
    assert ended.evidence == "by_solver" and ended.backend == "exact"
    claimed = replace(ended, backend="cp-sat")
    assert cross_check(claimed, 10.0, lambda _: ended, maximizes=True).evidence == "by_solver"
    searched = replace(ended, certificate=replace(ended.certificate, source="branch_and_bound"))
    assert cross_check(claimed, 10.0, lambda _: searched, maximizes=True).evidence == "by_search"


ENGINES = ("highs", "cp-sat", "scip")


def claims_of_an_engine(kind: str, engine: str) -> Iterator[Solution[Any]]:
    """Yield what an engine claims on drawn instances, before anything of it is decided in whole numbers."""
    backend = registry.backend(engine)  # as an object: then a claim in doubt is left to the second opinion
    for number in range(10):
        try:
            solution = apportion.solve(
                DRAWN[kind].case(Random(f"second {kind} {number}")), backend, time_limit=_LIMIT_S
            )
        except apportion.BackendUnavailable:  # uses beyond 2**53
            continue
        if solution.termination.value in ("optimal", "infeasible"):
            yield solution


@pytest.mark.one_in(4)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", DRAWN)
def test_a_search_stands_behind_every_claim_that_multipliers_do_not_show(kind: str, engine: str) -> None:
    claims = list(claims_of_an_engine(kind, engine))
    assert len(claims) > 2
    for solution in claims:
        assert "cross_check" in solution.times or solution.evidence == "by_multipliers"


def test_the_table_of_general_solvers_is_that_of_the_backends() -> None:
    assert set(ENGINES) == {name for name, one in registry.BACKENDS.items() if one.general}


def test_without_a_time_limit_the_search_runs_as_long_as_the_solver_took_and_never_by_a_clock() -> None:
    solution = apportion.solve(menus(), "highs", time_limit=None)
    assert solution.evidence == "by_search" and solution.times["cross_check"] > 0
    assert "cross_check" not in apportion.solve(menus(), "highs", deterministic=True).times


def test_a_makespan_of_tenants_is_confirmed_by_the_walk_of_a_proof() -> None:
    claims = [
        one for one in claims_of_an_engine("makespan with tenants", "highs") if one.times.get("cross_check")
    ]
    confirmed = [one for one in claims if one.evidence == "by_search"]
    assert len(confirmed) > 2 and all(one.proof is None for one in confirmed)


def test_gangs_that_cp_sat_closes_are_by_solver_until_a_proof_is_asked() -> None:
    draw = random.Random(0)
    on = [
        {
            "p": {"time_s": draw.randint(3, 30), "gpus": draw.choice([1, 2, 3, 2])},
            "q": {"time_s": draw.randint(3, 30), "gpus": draw.choice([1, 2])},
        }
        for _ in range(8)
    ]
    instance = apportion.read(
        {
            "kind": "matching",
            "schema_version": "1",
            "objective": "makespan",
            "machines": [{"id": "p", "count": 4}, {"id": "q", "count": 2}],
            "jobs": [{"id": f"j{k}", "on": entry} for k, entry in enumerate(on)],
        }
    )
    solution = apportion.solve(instance, time_limit=120.0)
    assert (solution.termination, solution.objective) == (Termination.OPTIMAL, 42.0)
    assert (solution.evidence, solution.certificate.source) == ("by_solver", "solver")
    assert apportion.solve(instance, proof=True, time_limit=120.0).evidence == "by_proof"


@pytest.mark.parametrize("verified", [None, 99.0, 120.0])
def test_a_bound_that_no_time_is_left_to_test_is_weaker_by_the_tolerances_or_verified(
    verified: float | None,
) -> None:
    solution = apportion.solve(menus())
    claimed = replace(solution.certificate, bound=100.0, source="solver", verified_bound=verified)
    left = untested(replace(solution, certificate=claimed), maximizes=True)
    assert left.termination is Termination.TIME_LIMIT
    own = left.certificate
    assert (own.bound, own.source) == ((99.0, "multipliers") if verified == 99.0 else (100.0001, "solver"))
    shown = replace(claimed, source="multipliers", bound=99.0)
    assert untested(replace(solution, certificate=shown), maximizes=True).certificate == shown
