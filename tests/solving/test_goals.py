"""Goals in strict order, beside the enumeration of all choices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import apportion
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving import api as module
from apportion.solving.api import solve_in_order
from tests.budgets import examples


def drawn(seed: int) -> tuple[MultipleChoiceKnapsack, dict[str, NDArray[np.int64]]]:
    """Draw menus and two to four goals of few different values: ties everywhere."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 4, rng.integers(1, 6))
    required = rng.random(sizes.size) < 0.3
    sizes[required] = np.maximum(sizes[required], 1)
    options, capacities = int(sizes.sum()), int(rng.integers(1, 4))
    uses = rng.integers(0, 5, (options, capacities))
    room = rng.integers(0, 9, capacities)
    model = MultipleChoiceKnapsack.from_arrays(
        np.zeros(options), uses, np.concatenate(([0], np.cumsum(sizes))), room, required=required
    )
    low = -2 if rng.random() < 0.3 else 0
    names = [f"goal {k}" for k in range(rng.integers(2, 5))]
    return model, {name: rng.integers(low, 4, options) for name in names}


def best(model: MultipleChoiceKnapsack, goals: dict[str, NDArray[np.int64]]) -> tuple[int, ...] | None:
    """Return the greatest values in order of all feasible choices."""
    menus = [
        [*range(first, last), *(() if required else (-1,))]
        for first, last, required in zip(
            model.offsets[:-1].tolist(), model.offsets[1:].tolist(), model.required.tolist(), strict=True
        )
    ]
    found = None
    for choice in product(*menus):
        taken = [row for row in choice if row >= 0]
        if (model.uses[taken].sum(axis=0) <= model.capacities).all():
            values = tuple(int(worth[taken].sum()) for worth in goals.values())
            found = values if found is None else max(found, values)
    return found


@pytest.mark.parametrize("largest", [500_000_000, 20, 1])
@pytest.mark.parametrize("backend", ["auto", "highs"])
def test_goals_in_order_are_those_of_enumeration(
    largest: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little room for sums goals are asked one after the other, as very large ones are."""
    monkeypatch.setattr(module, "_LARGEST", largest)
    planned = 0
    for seed in range(examples(300) if backend == "auto" else examples(40)):
        model, goals = drawn(seed)
        wanted, found = best(model, goals), solve_in_order(model, goals, backend=backend)
        if wanted is None:
            assert found.choice is None and found.termination.value == "infeasible", seed
            continue
        assert found.choice is not None and model.check(found.choice).feasible, seed
        assert tuple(goal.value for goal in found.goals) == wanted, seed
        assert all(goal.proven and goal.bound == goal.value for goal in found.goals), seed
        planned += 1
    assert planned > 5


def test_a_goal_that_is_open_leaves_later_ones_open() -> None:
    rng = np.random.default_rng(2)
    jobs = 3_000
    model = MultipleChoiceKnapsack.from_arrays(
        np.zeros(jobs), rng.integers(1, 10**6, (jobs, 3)), np.arange(jobs + 1), [10**8] * 3, required=False
    )
    found = solve_in_order(
        model, {"large": rng.integers(1, 10**6, jobs), "small": rng.integers(0, 9, jobs)}, time_limit=0.05
    )
    assert found.choice is not None and model.check(found.choice).feasible
    first, second = found.goals
    assert not first.proven and first.bound is not None and first.bound > first.value
    assert (second.proven, second.bound, found.termination.value) == (False, None, "time_limit")


def test_ctrl_c_ends_it_with_what_was_found_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the goals asked so far are proven: those after them are no longer asked."""
    model, goals = drawn(7)
    monkeypatch.setattr(module, "_LARGEST", 1)
    calls: list[int] = []
    solve = apportion.solve  # as it is before it is replaced

    def interrupted(*args: object, **options: object) -> object:
        calls.append(1)
        answer = solve(*args, **options)  # type: ignore[call-overload]
        return replace(answer, termination=apportion.Termination.INTERRUPTED)

    monkeypatch.setattr(module, "solve", interrupted)
    found = solve_in_order(model, goals)
    assert found.termination is apportion.Termination.INTERRUPTED and found.choice is not None
    assert len(calls) == 1 and not found.goals[-1].proven


def test_near_enough_goes_on_with_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first goal within its gap is kept as it is, and the next one is still looked for."""
    monkeypatch.setattr(module, "_LARGEST", 1)
    rng = np.random.default_rng(5)
    jobs = 100
    model = MultipleChoiceKnapsack.from_arrays(
        np.zeros(jobs), rng.integers(1, 50, (jobs, 3)), np.arange(jobs + 1), [300] * 3, required=False
    )
    goals = {"first": rng.integers(1, 90, jobs), "second": rng.integers(0, 9, jobs)}
    exact, near = solve_in_order(model, goals), solve_in_order(model, goals, gap=0.2)
    assert near.choice is not None and model.check(near.choice).feasible
    assert near.termination.value in ("gap_reached", "optimal")
    assert near.goals[0].value >= 0.8 * exact.goals[0].value
    assert near.goals[0].proven or near.goals[1].bound is None


def test_goals_that_are_none_are_refused() -> None:
    model = MultipleChoiceKnapsack.from_arrays([0.0], [1], [0, 1], [1], required=False)
    for worth in ([0.5], [1, 2], ["a"], [float("nan")]):
        with pytest.raises(InvalidInstance, match=r"\$\.goals\.x: must be whole numbers"):
            apportion.solve_in_order(model, {"x": worth})
    with pytest.raises(InvalidInstance, match="use a larger unit"):
        apportion.solve_in_order(model, {"x": [2**53]})
    with pytest.raises(InvalidOption, match="goals must name one"):
        apportion.solve_in_order(model, {})
