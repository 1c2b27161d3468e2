"""Pools looked at one by one: bounds and schedules against enumeration, and 24 gangs proven by them alone."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from hypothesis import given, settings

import apportion
from apportion.core.outcome import Termination
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances import MatchingInstance
from apportion.instances.matching.generator import generate_cluster
from apportion.models.assignment import Assignment, in_turn
from apportion.solvers.assignment.mip import repaired
from apportion.solvers.makespan import gang_sets
from apportion.solvers.makespan.by_pools import small_enough
from apportion.solvers.makespan.gang_sets import SetSearch
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.few_machines import on_lattice
from apportion.solvers.search.schedule_tree import ScheduleTree, available
from tests.budgets import examples
from tests.solving.test_matching import oracle
from tests.strategies import matchings

TWO, THREE = {"a": 8, "b": 8}, {"k80": 8, "p100": 8, "v100": 4}


def _searched(model: Assignment) -> tuple[SetSearch, float, float]:
    """Return a search that has ended, its bound, and its best makespan."""
    start = repaired(model, np.full(model.num_jobs, -1, dtype=np.int64))
    lattice = on_lattice(model.values, 2**40)
    assert start is not None and lattice is not None
    whole = Assignment.from_arrays(
        "makespan",
        lattice.whole.astype(np.float64),
        model.machine,
        model.offsets,
        model.num_machines,
        gpus=model.gpus,
        counts=model.counts,
    )
    top = int(whole.objective(start))
    search = SetSearch(model, lattice.whole, 0, top, in_turn(start)[0], 0, lambda: None)
    best = model.objective(start)
    for point in search.schedules():
        assert model.check(point).feasible
        assert model.objective(point) < best
        best = model.objective(point)
    return search, float(search.low * lattice.unit), best


@pytest.mark.parametrize("nodes", [gang_sets._NODES, (0,)])
@given(instance=matchings(objectives=("makespan",)))
@settings(max_examples=examples(60), deadline=None)
def test_neither_bound_nor_schedule_passes_the_optimum(
    nodes: tuple[int, ...], instance: MatchingInstance
) -> None:
    """Without nodes for a pool nothing but its lists is known, and sets are left out: bounds still hold."""
    model = MatchingByMachine(instance).model
    best = oracle(instance)
    if best is None or not model.num_jobs or not small_enough(model):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gang_sets, "_NODES", nodes)
        search, bound, found = _searched(model)
    assert bound <= best * (1 + 1e-9)
    assert found >= best * (1 - 1e-9)
    if search.ended is Termination.OPTIMAL:
        assert bound == pytest.approx(best, rel=1e-9) == found


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("pools", "wide", "seed", "makespan"),
    [
        (TWO, 0.3, 0, 5158.4),
        (TWO, 0.3, 1, 4014.2),
        (TWO, 0.3, 2, 7467.1),
        (TWO, 0.6, 0, 6825.4),
        (TWO, 0.6, 1, 5661.0),
        (TWO, 0.6, 2, 6140.9),
        (THREE, 0.3, 0, 4496.8),
        (THREE, 0.3, 1, 1749.8),
        (THREE, 0.3, 2, 6525.0),
        (THREE, 0.6, 0, 7733.0),
        (THREE, 0.6, 1, 2451.9),
        (THREE, 0.6, 2, 5915.6),
    ],
)
def test_twenty_four_gangs_are_proven(pools: dict[str, int], wide: float, seed: int, makespan: float) -> None:
    """All twelve drawn ones close without whole schedules; no limit but of work is set."""
    if not available() and makespan in (6825.4, 6140.9, 1749.8):
        pytest.skip("needs more nodes than the uncompiled tree is given")
    model = MatchingByMachine(generate_cluster(seed, 24, pools, wide=wide)).model
    search, bound, found = _searched(model)
    assert search.ended is Termination.OPTIMAL
    assert found == pytest.approx(makespan, rel=1e-9) == bound


@pytest.mark.slow
def test_a_stroke_inside_a_pools_tree_gives_the_best_schedule_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes between two slices of the tree of one pool."""
    struck, run = list[int](), ScheduleTree.run

    def strike(tree: ScheduleTree, nodes: int) -> Status:
        struck.append(nodes)
        signal.raise_signal(signal.SIGINT)
        return run(tree, nodes)

    monkeypatch.setattr(ScheduleTree, "run", strike)
    instance = generate_cluster(2, 24, TWO, wide=0.6)
    solution = apportion.solve(instance, time_limit=None)
    assert len(struck) == 1
    assert solution.termination is Termination.INTERRUPTED
    assert solution.plan is not None and apportion.check(instance, solution.plan).feasible
    assert solution.bound is not None and solution.objective is not None
    assert solution.bound <= 6140.9 * (1 + 1e-9) and solution.objective >= 6140.9 * (1 - 1e-9)
