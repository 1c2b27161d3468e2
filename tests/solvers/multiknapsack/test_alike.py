"""Relaxations over classes of what is alike have the optimum of the whole."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack import alike
from apportion.solvers.multiknapsack.dual import solve_dual
from apportion.solvers.multiknapsack.linear_dual import relaxed
from apportion.solvers.multiknapsack.option_table import OptionTable, bound_at, build


def nodes(seed: int, *, racks: int = 4, each: int = 6, jobs: int = 14) -> OptionTable:
    """Return jobs on one node each, or on two of a rack, of nodes of two resources and two sizes."""
    rng = Random(f"alike {seed}")
    sizes = np.array([rng.choice(((8, 9), (8, 9), (4, 5))) for _ in range(racks * each)])
    values, uses, offsets = list[float](), list[np.ndarray](), [0]
    for _ in range(jobs):
        worth, need = rng.randint(1, 9), np.array([rng.randint(1, 4), rng.randint(1, 5)])
        for at in [*combinations(range(racks * each), 1), *combinations(range(racks * each), 2)]:
            if len({k // each for k in at}) == 1:
                use = np.zeros((racks * each, 2), dtype=np.int64)
                use[list(at)] = need
                values.append(float(worth * len(at)))
                uses.append(use.ravel())
        offsets.append(len(values))
    model = MultipleChoiceKnapsack.from_arrays(values, np.array(uses), offsets, sizes.ravel(), required=False)
    menus = build(model)
    assert menus is not None
    return menus


@pytest.mark.parametrize("seed", range(12))
def test_the_prices_of_classes_bound_as_the_whole_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "_MANY", 0)
    monkeypatch.setattr(alike, "_FEWER", 1)
    menus = nodes(seed)
    fold = alike.folded(menus)
    assert fold is not None
    assert fold.menus.num_options < menus.num_options
    small = solve_dual(fold.menus)
    prices = small.multipliers[fold.capacity]
    assert bound_at(menus, prices) == pytest.approx(small.bound, rel=1e-9)
    whole = relaxed(menus, None)
    assert whole is not None
    assert bound_at(menus, prices) == pytest.approx(bound_at(menus, whole[0]), rel=1e-6)


def test_what_is_not_alike_is_left_as_it_is() -> None:
    menus = nodes(1)
    assert alike.folded(menus) is None  # few uses
    rng = np.random.default_rng(1)
    menus.values[:] += rng.random(menus.num_options)
    assert not alike._some_are_alike(menus)
