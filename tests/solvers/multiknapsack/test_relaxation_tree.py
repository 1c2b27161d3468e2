"""The tree of counts, and jobs alike as one, against enumeration; rounds that only counting closes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.budgets import examples
from tests.oracles import enumerate_knapsack

import apportion
from apportion.core.options import SolveOptions
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack import relaxation_tree as module
from apportion.solvers.multiknapsack.alike_jobs import alike_jobs
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, build
from apportion.solvers.multiknapsack.relaxation_tree import RelaxationTree


def tied(seed: int) -> MultipleChoiceKnapsack:
    """Return a few jobs of few values, some of them alike, some required; often nothing fits."""
    rng = np.random.default_rng(seed)
    jobs, capacities = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    kinds = rng.integers(1, 4, jobs)  # how many options; jobs of a kind are alike
    menus = [rng.integers(0, 5, (size, capacities)) for size in range(4)]
    worth = [rng.integers(-1 if seed % 3 else 1, 4, size) for size in range(4)]
    uses = np.concatenate([menus[kind] if rng.random() < 0.6 else menus[kind] + 1 for kind in kinds])
    return MultipleChoiceKnapsack.from_arrays(
        np.concatenate([worth[kind] for kind in kinds]).astype(np.float64),
        uses,
        np.concatenate(([0], np.cumsum(kinds))),
        rng.integers(1, 3 * jobs, capacities),
        required=rng.random(jobs) < rng.choice([0.0, 0.3, 0.9]),
        sense="maximize" if seed % 2 else "minimize",
    )


def tree_of(model: MultipleChoiceKnapsack) -> tuple[RelaxationTree, ChoiceIncumbent] | None:
    """Return the tree over all options of a model, with an incumbent only where nobody has to be served."""
    menus = build(model)
    if menus is None or not menus.num_jobs or not menus.num_capacities:
        return None
    clock = Clock(SolveOptions())
    best = ChoiceIncumbent(model, SolveOptions(), clock)
    best.step = 1.0
    if not model.required.any():
        best.take(np.full(model.num_jobs, -1, dtype=np.int64))
    return RelaxationTree(menus, best, clock, 0, np.unique(menus.values)[1:]), best


@pytest.mark.parametrize("leaf", [0, 12])
def test_an_exhausted_tree_has_the_optimum(leaf: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAF", leaf)
    branched = 0
    for seed in range(examples(800)):
        model = tied(seed)
        made, wanted = tree_of(model), enumerate_knapsack(model)
        if made is None:
            continue
        tree, best = made
        assert tree.run(60.0), seed
        assert best.objective == (None if wanted is None else wanted[0]), seed
        branched += tree.relaxations > 1
    assert branched >= 3 or leaf


def test_a_tree_without_any_choice_is_exhausted_at_once() -> None:
    """Three jobs need one of two places each."""
    model = MultipleChoiceKnapsack.from_arrays(
        [1.0, 2.0] * 3, [[1, 0], [0, 1]] * 3, [0, 2, 4, 6], [1, 1], required=True
    )
    made = tree_of(model)
    assert made is not None and made[0].run(60.0)
    assert made[1].objective is None and not made[0].by_solver


def test_what_is_open_bounds_what_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every node: the optimum is the incumbent, or no more than the greatest bound that is open."""
    monkeypatch.setattr(module, "_LEAF", 0)
    seen = 0
    for seed in range(examples(200)):
        model = tied(seed)
        made, wanted = tree_of(model), enumerate_knapsack(model)
        if made is None or wanted is None:
            continue
        tree, best = made
        while not tree.run(0.0):
            assert best.sign * wanted[0] <= max(tree.bound, -np.inf if best.value is None else best.value), (
                seed
            )
            seen += 1
    assert seen >= 3


def test_a_choice_among_jobs_alike_is_the_same_choice() -> None:
    merged = 0
    for seed in range(examples(200)):
        menus = build(tied(seed))
        if menus is None:
            continue
        rng = np.random.default_rng(seed)
        alike = alike_jobs(menus)
        choice = menus.offsets[:-1] + rng.integers(0, np.diff(menus.offsets))
        again = alike.outward(alike.inward(choice))
        assert again is not None and (menus.job[again] == np.arange(menus.num_jobs)).all()
        assert (menus.used(again) == menus.used(choice)).all()
        assert menus.values[again].sum() == menus.values[choice].sum()
        model = alike.written()
        assert model.objective(alike.inward(choice)) == menus.values[choice].sum()
        merged += alike.menus.num_jobs < menus.num_jobs
        assert alike.outward(np.zeros(alike.menus.num_options)) is None
    assert merged >= 5


def ready_jobs(seed: int, jobs: int, goals: int) -> MultipleChoiceKnapsack:
    """Return a round of ready jobs: priorities of 0, 1 and 5, then cores in use; cores, memory and disk."""
    rng = np.random.default_rng(seed)
    cores = rng.choice([1, 1, 2, 4, 8, 16], jobs)
    memory = cores * rng.choice([1000, 2000, 4000, 8000], jobs) + rng.integers(0, 500, jobs)
    uses = np.stack((cores, memory, rng.integers(100, 20_000, jobs)), axis=1)
    values = rng.choice([0, 0, 0, 1, 5], jobs) * (193 if goals == 2 else 1) + (cores if goals == 2 else 0)
    return MultipleChoiceKnapsack.from_arrays(
        values.astype(np.float64), uses, np.arange(jobs + 1), [192, 700_000, 500_000], required=False
    )


@pytest.mark.parametrize(("seed", "jobs", "goals"), [(3, 5000, 1), (1, 1000, 2), (2, 1000, 2)])
def test_counting_closes_rounds_of_few_values(seed: int, jobs: int, goals: int) -> None:
    """The relaxation is off by a part of one job, and no price of a capacity sees it."""
    model = ready_jobs(seed, jobs, goals)
    solution = apportion.solve(model, time_limit=60.0)
    other = apportion.solve(model, time_limit=60.0, backend="highs")
    assert solution.termination.value == "optimal" and solution.bound == solution.objective
    assert solution.objective == other.objective
