"""Our levels beside the textbook's sequence of MILPs, compared as fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import pytest
from benchmarks.peers.leximin_milps import _Sequence
from benchmarks.peers.task import Limits

import apportion
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.tenants import Fairness
from apportion.instances.tenants.generator import generate_tenants
from apportion.solving.compiling import menus_of_tenants

Levels = dict[str, Fraction]


def both(seed: int, jobs: int) -> tuple[Levels, Levels]:
    """Return the levels over their weights, ours and those of the MILPs."""
    instance = generate_tenants(seed, jobs, 8, 12, Fairness())
    ours = apportion.solve(instance, time_limit=None)
    assert all(level.evidence == "by_search" for level in ours.levels)
    menus = cast(TenantedMenus, menus_of_tenants(instance, None))
    sequence = _Sequence(menus, Limits(seconds=300.0, gap=0.0, threads=1, seed=0))
    leaves = [name for name in menus.ledger.tree.leaves if menus.ledger.members(name)]
    assert sequence.guarantees() is None
    assert sequence.levels(leaves) is None
    weight = {name: Fraction(menus.ledger.tree.nodes[name].tenant.weight) for name in leaves}
    floors = ours.floors or {}
    return (
        {name: floors[name] / weight[name] for name in leaves},
        {name: sequence.held[name] / weight[name] for name in leaves},
    )


@pytest.mark.parametrize(("seed", "jobs"), [(1, 12), (3, 12), (4, 12), (5, 16), (6, 16), (7, 16)])
def test_both_sequences_have_the_same_sorted_levels(seed: int, jobs: int) -> None:
    ours, theirs = both(seed, jobs)
    assert sorted(ours.values()) == sorted(theirs.values())


def test_a_tie_may_decide_what_is_found_above() -> None:
    """Two tenants, one of whom must stay at 1: both sequences take one, and the other rises differently."""
    ours, theirs = both(2, 12)
    apart = {name for name in ours if ours[name] != theirs[name]}
    assert len(apart) == 2
    assert min(ours[name] for name in apart) == min(theirs[name] for name in apart) == 1
