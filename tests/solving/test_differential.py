"""Two thousand random instances, every road to the answer, no disagreement."""

from __future__ import annotations

import numpy as np
import pytest

import apportion
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.formulations.gap_filling.by_count import GapFillingByCount
from apportion.formulations.gap_filling.by_node import GapFillingByNode
from apportion.instances import GapFillingInstance, GapFillingJob, ScalingCurve
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.solvers.general import highs
from tests.oracles import enumerate_knapsack, tabulate_knapsack

INSTANCES = 2000
BLOCKS = 20


def random_gap(rng: np.random.Generator) -> GapFillingInstance:
    """Return a small instance: some jobs hold nodes, some lost theirs, some are pinned."""
    nodes = [f"n{i}" for i in range(rng.integers(0, 13))]
    free = list(rng.permutation(nodes))
    jobs = []
    for index in range(rng.integers(0, 6)):
        low = int(rng.integers(1, 4))
        high = int(rng.integers(low, 12))
        points = np.unique(np.concatenate(([0, high], rng.integers(1, high + 1, 3)))).tolist()
        held = [str(free.pop()) for _ in range(int(rng.integers(0, min(len(free), high) + 1)))]
        jobs.append(
            GapFillingJob(
                f"j{index}",
                low,
                high,
                ScalingCurve(
                    tuple(points), (0.0, *(float(v) for v in rng.integers(0, 999, len(points) - 1) / 7))
                ),
                float(rng.integers(0, 40)),
                float(rng.integers(0, 40)),
                tuple(held),
                float(rng.choice([0.5, 1.0, 3.0])),
                pinned_count=int(rng.integers(low, high + 1)) if rng.random() < 0.05 else None,
            )
        )
    horizon = float(rng.choice([5.0, 60.0, 600.0]))
    return GapFillingInstance("1", horizon, tuple(nodes), tuple(jobs))


def random_menus(rng: np.random.Generator) -> MultipleChoiceKnapsack:
    """Return a small one-capacity knapsack: ties, zero uses, negative values, either sense."""
    sizes = rng.integers(0, 6, rng.integers(0, 7))
    total = int(sizes.sum())
    values = rng.integers(-9, 30, total) / float(rng.choice([1, 4, 7]))
    return MultipleChoiceKnapsack.from_arrays(
        values,
        rng.integers(0, 9, (total, 1)),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        [int(rng.integers(0, 25))],
        required=(rng.random(sizes.size) < 0.5) & (sizes > 0),
        sense=str(rng.choice(["maximize", "minimize"])),  # type: ignore[arg-type]
    )


def same(left: float | None, right: float | None) -> bool:
    """Return whether two answers are equal up to rounding, or both absent."""
    if left is None or right is None:
        return left is right
    return abs(left - right) <= 1e-7 * max(1.0, abs(left))


@pytest.mark.one_in(20)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_road_leads_to_the_same_answer(block: int) -> None:
    rng = np.random.default_rng([2024, block])
    for number in range(INSTANCES // BLOCKS):
        instance = random_gap(rng) if number % 2 else random_menus(rng)
        bare = isinstance(instance, MultipleChoiceKnapsack)
        model = (
            instance if isinstance(instance, MultipleChoiceKnapsack) else GapFillingByCount(instance).model
        )
        ours = apportion.solve(instance)
        where = f"block {block}, instance {number}"
        assert ours.termination in (Termination.OPTIMAL, Termination.INFEASIBLE), where
        milp = highs.solve(lower(model).model, SolveOptions())
        plain = tabulate_knapsack(model)
        assert same(ours.objective, milp.objective), where
        assert same(ours.objective, None if plain is None else plain[0]), where
        menus = np.diff(model.offsets) + ~model.required
        if float(np.prod(menus.astype(float))) <= 3000:
            oracle = enumerate_knapsack(model)
            assert same(ours.objective, None if oracle is None else oracle[0]), where
        if not bare and number % 10 == 1:
            literal = GapFillingByNode(instance)
            assert same(ours.objective, highs.solve(literal.model, SolveOptions()).objective), where
