"""Extremes of menus: place by place, or row by row, they are those of every menu for itself."""

from __future__ import annotations

import numpy as np
import pytest

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
