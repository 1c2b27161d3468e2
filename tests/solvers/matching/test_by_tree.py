"""Generalised assignment by the compiled tree and the uncompiled road, against enumeration in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import apportion
from apportion.models.assignment import Assignment
from apportion.outcome import Termination
from apportion.solvers.compiled import SWITCH, load
from apportion.solvers.generalised_assignment.by_tree import fits

KINDS = ("whole", "tenths", "real", "tiny", "huge", "signed", "few")


def drawn(seed: int) -> Assignment:
    """Draw a small assignment: up to six jobs on up to four machines, pairs forbidden, some jobs optional."""
    rng = np.random.default_rng(seed)
    jobs, machines = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    allowed = rng.random((jobs, machines)) < rng.choice([0.6, 1.0])
    allowed[np.arange(jobs), rng.integers(0, machines, jobs)] = True
    whole = rng.integers(0, 60, (jobs, machines)).astype(float)
    values = {
        "whole": whole,
        "tenths": whole / 10,
        "real": rng.lognormal(0.0, 1.0, whole.shape),
        "tiny": whole * 1e-7,
        "huge": whole * 1e9 + rng.integers(0, 3, whole.shape),
        "signed": whole - 30,
        "few": np.floor(whole / 20),
    }[KINDS[int(rng.integers(len(KINDS)))]]
    uses = rng.integers(0, 12, whole.shape) * int(rng.choice([1, 1, 7, 10**6]))
    total = uses.sum(axis=0)
    capacities = (rng.uniform(0.2, 1.0, machines) * total / rng.choice([1, machines])).astype(np.int64)
    return Assignment.from_arrays(
        "cost" if rng.random() < 0.5 else "value",
        values[allowed],
        np.nonzero(allowed)[1],
        np.concatenate(([0], np.cumsum(allowed.sum(axis=1)))),
        machines,
        uses=uses[allowed],
        capacities=capacities,
        limited=rng.random(machines) < 0.85,
        required=rng.random(jobs) < rng.choice([0.0, 0.5, 1.0, 1.0]),
    )


def enumerated(model: Assignment) -> Fraction | None:
    """Return the best objective of all choices, exactly, or ``None`` without a feasible one."""
    best: Fraction | None = None
    menus = [
        [*range(a, b), *([] if must else [-1])]
        for a, b, must in zip(
            model.offsets[:-1].tolist(), model.offsets[1:].tolist(), model.required.tolist(), strict=True
        )
    ]
    value = [Fraction(v) for v in model.values.tolist()]
    machine, use = model.machine.tolist(), model.uses.tolist()
    room = [c if k else None for c, k in zip(model.capacities.tolist(), model.limited.tolist(), strict=True)]
    for choice in product(*menus):
        used = [0] * len(room)
        for row in choice:
            if row >= 0:
                used[machine[row]] += use[row]
        if any(limit is not None and taken > limit for taken, limit in zip(used, room, strict=True)):
            continue
        total = sum((value[row] for row in choice if row >= 0), Fraction(0))
        if best is None or (total > best if model.goal == "value" else total < best):
            best = total
    return best


def compare(seeds: range) -> int:
    """Compare so many; return how many the compiled tree took."""
    taken = 0
    for seed in seeds:
        model = drawn(seed)
        taken += fits(model)
        best = enumerated(model)
        solution = apportion.solve(model, time_limit=None)
        if best is None:
            assert solution.termination is Termination.INFEASIBLE, seed
            continue
        # HiGHS, which searches where nothing is compiled, proves large whole numbers to a millionth only
        proven = (Termination.OPTIMAL,) if fits(model) else (Termination.OPTIMAL, Termination.GAP_REACHED)
        assert solution.termination in proven, (seed, solution.notes)
        assert solution.objective is not None
        scale = max(abs(best), Fraction(1, 10**9))
        assert abs(Fraction(solution.objective) - best) <= scale / 10**9, (
            seed,
            solution.objective,
            float(best),
        )
        assert solution.bound is not None
        sign = -1 if model.goal == "value" else 1
        assert sign * (Fraction(solution.bound) - best) <= scale / 10**12, (seed, solution.bound, float(best))
    return taken


@pytest.mark.parametrize("switch", ["0", "1"])
def test_small_ones_equal_enumeration(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, switch)
    taken = compare(range(300))
    if switch == "1":
        assert taken == 0
    elif load("search.assignment_tree_c") is not None:
        assert taken > 250


@pytest.mark.slow
@pytest.mark.parametrize("switch", ["0", "1"])
def test_twenty_thousand_small_ones_equal_enumeration(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, switch)
    compare(range(1_000, 21_000))
