"""Extremes of menus: place by place, or row by row, they are those of every menu for itself."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack.option_table import build


@pytest.mark.parametrize(
    ("jobs", "length"), [(1, 1), (3, 7), (100, 1), (100, 2), (600, 16), (600, 17), (9, 40)]
)
@pytest.mark.parametrize("even", [True, False])
def test_the_largest_and_smallest_of_every_menu(jobs: int, length: int, even: bool) -> None:
    rng = np.random.default_rng(jobs * length)
    sizes = np.full(jobs, length) if even else rng.integers(1, length + 1, jobs)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    values = rng.normal(size=int(sizes.sum()))
    uses = rng.integers(0, 9, values.size)
    menus = build(MultipleChoiceKnapsack.from_arrays(values, uses, offsets, [10 * jobs]))
    assert menus is not None
    own = np.split(menus.values, menus.offsets[1:-1])
    assert menus.largest(menus.values).tolist() == [part.max() for part in own]
    assert menus.smallest(menus.values).tolist() == [part.min() for part in own]


@pytest.mark.parametrize("limits", [True, False])
def test_few_of_the_limits_of_sets_bind_but_all_of_many_periods(limits: bool) -> None:
    """Both are many capacities of which an option uses many; jobs of a tenant are under the same limits."""
    rng = np.random.default_rng(1)
    jobs, each, capacities = 40, 12, 128
    if limits:
        sets = np.array(list(itertools.product([0, 1], repeat=7)))[:, rng.integers(0, 7, jobs)]
        touched = np.repeat(sets, each, axis=1).T
    else:
        begins, lengths = rng.integers(0, 100, jobs * each), rng.integers(6, 28, jobs * each)
        places = np.arange(capacities)
        touched = (places >= begins[:, None]) & (places < (begins + lengths)[:, None])
    uses = touched * rng.integers(1, 9, (jobs * each, 1))
    offsets = np.arange(0, jobs * each + 1, each)
    room = np.maximum(uses.sum(axis=0) // 20, 9)
    model = MultipleChoiceKnapsack.from_arrays(rng.random(jobs * each), uses, offsets, room)
    menus = build(model)
    assert menus is not None and menus.num_capacities > 100
    assert menus.few_bind == limits
    sparse = build(replace(model, matrix=csr_array(uses)))
    assert sparse is not None and sparse.few_bind == limits
