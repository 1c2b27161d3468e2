"""Deterministic mode: the same answer over repeats and over the order in which things were listed."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.outcome import Termination
from apportion.instances import GapFillingInstance, MultipleChoiceKnapsackInstance
from apportion.instances.gap_filling.generator import generate
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.knapsack.greedy import first_optimum
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.strategies import gap_filling_instances, knapsack_instances, knapsacks


def answer_of(instance: object, **options: object) -> bytes:
    """Return everything a deterministic solve says, but for its times."""
    solution = apportion.solve(instance, deterministic=True, **options)  # type: ignore[arg-type]
    certificate = solution.certificate
    return msgspec.json.encode(
        [solution.plan, solution.objective, solution.bound, certificate.verified_bound, solution.termination]
    )


def shuffled(instance: GapFillingInstance, seed: int) -> GapFillingInstance:
    order = np.random.default_rng(seed).permutation(len(instance.jobs))
    return msgspec.structs.replace(instance, jobs=tuple(instance.jobs[i] for i in order))


@given(gap_filling_instances(), st.integers(0, 99))
@settings(max_examples=examples(150))
def test_job_order_changes_no_byte(instance: GapFillingInstance, seed: int) -> None:
    assert answer_of(instance) == answer_of(shuffled(instance, seed))


@given(knapsack_instances(), st.integers(0, 99))
@settings(max_examples=examples(150))
def test_job_and_option_order_change_no_byte(instance: MultipleChoiceKnapsackInstance, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = tuple(
        msgspec.structs.replace(job, options=tuple(job.options[i] for i in rng.permutation(len(job.options))))
        for job in instance.jobs
    )
    other = msgspec.structs.replace(instance, jobs=tuple(jobs[i] for i in rng.permutation(len(jobs))))
    assert answer_of(instance) == answer_of(other)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["exact", "highs", "cp-sat", "scip"])
def test_repeats_change_no_byte(backend: str) -> None:
    instance = generate(seed=3, jobs=12, nodes=60)
    first = answer_of(instance, backend=backend)
    assert all(answer_of(shuffled(instance, seed), backend=backend) == first for seed in range(3))


@pytest.mark.parametrize("backend", ["highs", "cp-sat"])
def test_threads_change_no_byte_over_repeats(backend: str) -> None:
    instance = generate(seed=4, jobs=8, nodes=40)
    answers = {answer_of(instance, backend=backend, threads=2) for _ in range(3)}
    assert len(answers) == 1


@given(knapsacks(max_jobs=4, max_capacities=1))
@settings(max_examples=examples(300))
def test_the_first_optimum_is_the_first_of_all_optima(model: MultipleChoiceKnapsack) -> None:
    oracle = enumerate_knapsack(model)
    if oracle is None:
        assert first_optimum(model, 0.0) is None
        return
    found = first_optimum(model, oracle[0])
    assert found is not None
    # enumeration walks the combinations in lexicographic order and keeps the first of equal objectives
    assert model.objective(found) == pytest.approx(oracle[0], rel=1e-11, abs=1e-11)
    assert found.tolist() <= oracle[1].tolist()
    assert model.check(found).feasible


def test_among_equal_optima_the_first_in_id_order_wins() -> None:
    instance = apportion.MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense="maximize",
        capacities={"gpu": 1},
        jobs=tuple(
            apportion.KnapsackJob(
                id=name, options=(apportion.KnapsackOption("one", 5.0, {"gpu": 1}),), required=False
            )
            for name in ("b", "a", "c")
        ),
    )
    solution = apportion.solve(instance, deterministic=True)
    assert solution.plan == {"choice": {"c": "one"}}, (
        "a is left out first: leaving out comes before the options"
    )


def test_among_equal_optima_the_plan_that_changes_least_wins() -> None:
    option = apportion.KnapsackOption("one", 5.0, {"gpu": 1})
    jobs = tuple(
        apportion.KnapsackJob(
            id=name, options=(option,), required=False, current="one" if name == "b" else None
        )
        for name in ("a", "b", "c")
    )
    instance = apportion.MultipleChoiceKnapsackInstance("1", "maximize", {"gpu": 1}, jobs)
    assert apportion.solve(instance).plan == {"choice": {"b": "one"}}


def test_a_work_limit_ends_without_a_clock() -> None:
    from apportion.instances.multiple_choice_knapsack import generator

    menus = generator.generate(
        seed=1, law="strongly_correlated", num_jobs=60, num_options=5, num_capacities=4
    )
    model = MultipleChoiceKnapsack.from_arrays(*menus)
    answers = {
        answer_of_arrays(apportion.solve(model, deterministic=True, work_limit=50, time_limit=0.001))
        for _ in range(3)
    }
    assert len(answers) == 1


def answer_of_arrays(solution: apportion.Solution) -> tuple[object, ...]:
    assert solution.plan is not None
    assert solution.termination is not Termination.TIME_LIMIT
    return (tuple(solution.plan.tolist()), solution.objective, solution.bound)


def test_with_several_capacities_an_option_of_equal_value_is_not_changed_for_nothing() -> None:
    left = apportion.KnapsackOption("left", 5.0, {"a": 1})
    right = apportion.KnapsackOption("right", 5.0, {"b": 1})
    jobs = tuple(
        apportion.KnapsackJob(
            id=f"j{i}", options=(left, right), required=True, current=("left", "right")[i % 2]
        )
        for i in range(6)
    )
    instance = apportion.MultipleChoiceKnapsackInstance("1", "maximize", {"a": 4, "b": 4}, jobs)
    assert apportion.solve(instance).plan == {"choice": {job.id: job.current for job in jobs}}
