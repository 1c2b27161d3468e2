"""The makespan's engines by turns: one incumbent, bounds that hold, and no engine beyond the deadline."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.instances.matching.generator import generate_unrelated
from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import lower_assignment
from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.solvers.makespan import portfolio, turns
from apportion.solvers.makespan.shares import Shares
from tests.patience import patience


def makespans(times: np.ndarray[Any, Any]) -> float:
    """Return the least makespan by trying every placement."""
    jobs, machines = times.shape
    best = np.inf
    for placed in product(range(machines), repeat=jobs):
        load = np.bincount(placed, weights=times[np.arange(jobs), placed], minlength=machines)
        best = min(best, float(load.max()))
    return best


@given(st.integers(0, 10_000), st.sampled_from(sorted(turns.ENGINES)), st.sampled_from([1.0, 4.0, 7.3]))
@settings(max_examples=40, deadline=None)
def test_every_engine_improves_the_incumbent_and_bounds_it(seed: int, name: str, part: float) -> None:
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 60, (6, 3)) / part
    model = Assignment.from_matrix("makespan", times)
    best = makespans(times)
    worst = model.offsets[:-1] + np.argmax(times, axis=1)
    turn = turns.take_turn(
        name,
        lower_assignment(model),
        np.ones(model.num_options, dtype=np.bool_),
        worst,
        SolveOptions(seed=seed),
        None,
        None,
        lambda makespan: None,
    )
    assert not turn.refused
    assert turn.choice is not None
    assert model.objective(turn.choice) <= model.objective(worst)
    assert turn.bound is not None
    assert turn.bound <= best * (1 + 1e-6)
    assert turn.bound >= best * (1 - 1e-4)
    if turn.exhausted:
        assert model.objective(turn.choice) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("name", sorted(turns.ENGINES))
def test_hunting_below_the_optimum_proves_it(name: str) -> None:
    times = np.random.default_rng(1).integers(5, 40, (7, 3)).astype(float)
    model = Assignment.from_matrix("makespan", times)
    best = apportion.solve(model)
    assert best.termination is Termination.OPTIMAL
    everything = np.ones(model.num_options, dtype=np.bool_)
    given_ = (
        name,
        lower_assignment(model),
        everything,
        best.plan,
        SolveOptions(),
        None,
        None,
        lambda makespan: None,
    )
    turn = turns.take_turn(*given_, hunting=True)
    assert turn.exhausted
    assert turn.bound == best.objective


def test_all_engines_take_turns_and_the_incumbent_never_gets_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, float]] = []
    original = turns.take_turn

    def watched(name: str, lowered: Any, allowed: Any, incumbent: Any, *rest: Any, **more: Any) -> turns.Turn:
        seen.append((name, lowered.assignment.objective(incumbent)))
        return original(name, lowered, allowed, incumbent, *rest, **more)

    monkeypatch.setattr(portfolio, "take_turn", watched)
    told: list[float] = []
    solution = apportion.solve(
        generate_unrelated(5, 150, 12, 10, 100),
        time_limit=6.0,
        on_incumbent=lambda incumbent: told.append(incumbent.objective),
    )
    begun = [objective for _, objective in seen]
    assert begun == sorted(begun, reverse=True)
    assert told == sorted(told, reverse=True)
    assert solution.objective == told[-1]
    assert solution.bound is not None
    assert solution.objective is not None
    assert solution.bound <= solution.objective
    if solution.termination is Termination.TIME_LIMIT:
        assert {name for name, _ in seen} >= {"cp-sat", "highs"}


def test_an_engine_that_never_returns_costs_only_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "tests.solvers.misbehaving:never_returns"
    engines = {name: (package, deaf, work) for name, (package, _, work) in turns.ENGINES.items()}
    monkeypatch.setattr(turns, "ENGINES", engines)
    began = time.perf_counter()
    solution = apportion.solve(generate_unrelated(2, 200, 20, 10, 100), time_limit=3.0)
    assert time.perf_counter() - began < patience(3.6)
    assert solution.plan is not None
    assert solution.bound is not None


def test_shares_follow_success() -> None:
    shares = Shares({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    for _ in range(6):
        name = shares.next()
        shares.book(name, 1.0, gained=name == "b")
    assert shares.weights["b"] > 4 * shares.weights["a"]
    assert shares.length("a") > 1.0
    shares.drop("b")
    assert shares.next() == "a"
