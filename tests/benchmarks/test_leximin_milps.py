"""The textbook's sequence of MILPs beside our levels: the same shares, or lower ones after a tie."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.peers.leximin_milps import solve
from benchmarks.peers.task import CannotTake, Limits, Task

import apportion
from apportion.instances.multiple_choice_knapsack.generator import generate, generate_tenants, to_instance
from apportion.instances.tenants import Fairness


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(4))
def test_levels_and_sum_agree_up_to_ties(seed: int) -> None:
    instance = generate_tenants(seed, 16, 10, 18, Fairness())
    ours = apportion.solve(instance, time_limit=None)
    task = Task(instance)
    peer = solve(task, Limits(120.0, 0.0, 1, 0))
    assert peer.x is not None and peer.termination.value == "optimal"
    assert apportion.check(instance, task.plan(peer.x)).feasible
    menus = task.formulation
    rows = np.flatnonzero(peer.x > 0.5)
    shares = dict(zip(menus.job_names(), menus.share[rows].tolist(), strict=True))
    nodes, unit = menus.ledger.tree.nodes, menus.ledger.unit
    theirs = {
        level.name: sum(shares[job] for job in menus.ledger.members(level.name)) / unit
        for level in ours.levels
    }
    least = sorted(round(share / nodes[name].tenant.weight, 9) for name, share in theirs.items())
    mine = sorted(round(level.share / level.weight, 9) for level in ours.levels)
    assert least <= mine
    assert least[0] == mine[0]
    floors = {level.name: level.share for level in ours.levels}
    if all(theirs[name] == pytest.approx(share) for name, share in floors.items()):
        assert peer.objective == pytest.approx(ours.objective, rel=1e-6)


def test_menus_without_tenants_are_refused() -> None:
    task = Task(to_instance(generate(1, "uncorrelated", 4, 3, 1), "plain"))
    with pytest.raises(CannotTake, match="about tenants"):
        solve(task, Limits(10.0, 0.0, 1, 0))
