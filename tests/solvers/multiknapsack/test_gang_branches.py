"""Branches on the options of gangs, against enumeration: what they close is closed, and bounds hold."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.suite.making import make
from tests.budgets import examples
from tests.oracles import enumerate_knapsack

import apportion
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.proofs.walking import Limits
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack import gang_branches, option_table
from apportion.solvers.multiknapsack.dual import solve_large
from apportion.solvers.multiknapsack.gang_branches import GangBranches, gangs_of
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, build
from apportion.solvers.multiknapsack.proven_bound import ProvenBound
from apportion.solvers.multiknapsack.repair import by_density, cheapest
from apportion.solvers.multiknapsack.several_capacities import solve


def full(seed: int, *, alike: bool, required: bool = False) -> MultipleChoiceKnapsack:
    """Make one to three gangs, alike or not, that want two nodes of a block where other jobs run."""
    rng = np.random.default_rng(seed)
    gangs, jobs, blocks = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(2, 4))
    rooms, rows, values, sizes = rng.integers(4, 9, 2 * blocks), list[list[int]](), list[int](), list[int]()
    for _ in range(gangs):
        worth = 60 if alike else int(rng.integers(10, 90))
        for block in range(blocks):
            use = [0] * (2 * blocks)
            use[2 * block], use[2 * block + 1] = (int(room * 3 // 4) for room in rooms[2 * block :][:2])
            rows.append(use)
            values.append(worth - (0 if alike else int(rng.integers(0, 5))))
        sizes.append(blocks)
    for _ in range(jobs):
        gpus, worth, home = int(rng.integers(1, 5)), int(rng.integers(4, 40)), int(rng.integers(2 * blocks))
        for node in range(2 * blocks):
            rows.append([gpus if other == node else 0 for other in range(2 * blocks)])
            values.append(worth if node == home else max(1, worth - int(rng.integers(1, 6))))
        sizes.append(2 * blocks)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return MultipleChoiceKnapsack.from_arrays(values, np.array(rows), offsets, rooms, required=required)


@pytest.mark.parametrize("alike", [True, False])
def test_branches_end_at_the_optimum(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_branches, "_LOOK", 1_000)  # never given up
    ended = 0
    for seed in range(examples(200)):
        model, options = full(seed, alike=alike), SolveOptions()
        menus, truth = build(model), enumerate_knapsack(model)
        assert menus is not None and truth is not None
        gangs = gangs_of(menus)
        if not gangs.size:
            continue
        clock = Clock(options)
        best = ChoiceIncumbent(model, options, clock)
        best.step = 1.0
        first = by_density(menus, cheapest(menus))
        assert first is not None and best.take(menus.rows[first])
        dual, _ = solve_large(menus)
        shown = ProvenBound(model, best, None)
        shown.at(menus.expand(dual.multipliers, model.num_capacities))
        limits = best, shown, options, clock, {"mip_calls": 0.0, "mip_nodes": 0.0}
        search = GangBranches(menus, dual.multipliers, dual.bound, gangs, *limits)
        done = search.run(math.inf)
        assert best.objective is not None and best.bound is not None and best.point is not None
        assert model.check(best.point).feasible and best.objective <= truth[0]
        assert best.bound >= truth[0] - 1e-9
        if done:
            assert best.objective == truth[0], seed
            ended += 1
        else:
            assert max(search.bound, best.objective) >= truth[0] - 1e-9
    assert ended > examples(200) // 2


@pytest.mark.parametrize("alike", [True, False])
def test_where_all_must_have_something_it_fits_or_nothing_does(
    alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(option_table, "_MANY_CAPACITIES", 0)
    monkeypatch.setattr(option_table, "_DENSITY", 1.0)
    seen = {False: 0, True: 0}
    for seed in range(examples(200)):
        model = full(seed, alike=alike, required=True)
        found, truth = solve(model, SolveOptions()), enumerate_knapsack(model)
        seen[truth is None] += 1
        if truth is None:
            assert found.termination is not Termination.OPTIMAL and found.point is None, seed
        else:
            assert found.termination is Termination.OPTIMAL and found.objective == truth[0], seed
    assert min(seen.values()) > 1, seen


def test_who_leaves_for_a_gang_is_proved() -> None:
    """128 nodes of 8 GPUs, 85 % in use: the relaxation alone says a third of what making room costs."""
    began, closed = time.process_time(), 0
    for seed in (3, 4):
        given = make("moves", {"seed": seed, "blocks": 16}, None)
        found = apportion.solve(given, time_limit=20.0)
        assert found.objective is not None and found.bound is not None
        assert given.check(found.plan).feasible
        assert found.bound - found.objective <= 20.0
        closed += found.termination == "optimal"
    assert closed >= 1 and time.process_time() - began < 45.0


def test_where_every_job_may_fill_nodes_there_are_no_gangs() -> None:
    menus = build(make("pairs_of_racks", {"seed": 0, "jobs": 40, "racks": 6}, None))
    assert menus is not None and not gangs_of(menus).size


@pytest.mark.parametrize(("seed", "covers"), [(7, False), (20, True), (10, True)])
def test_a_proof_names_the_prices_of_branches_and_covers(seed: int, covers: bool) -> None:
    """What prices leave open of a branch covers close; the checker is told nothing else."""
    given = make("moves", {"seed": seed, "blocks": 6}, None)
    found = apportion.solve(given, time_limit=60.0, proof=True)
    assert found.termination == "optimal" and found.evidence == "by_proof", found.notes
    assert found.proof is not None and found.proof.order[0] == given.num_jobs - 1  # the gang is the last
    assert covers == any("thresholds" in cut for cut in found.proof.cuts)
    assert apportion.verify(given, found.proof).proved
    prices = tuple(own[: given.num_capacities] for own in found.proof.prices)
    without = replace(found.proof, cuts=(), prices=prices)
    assert apportion.verify(given, without, Limits(states=30_000)).proved != covers
    assert not apportion.verify(given, replace(without, prices=()), Limits(states=30_000)).proved
