"""The exact search over menus against enumeration in fractions: every sort of values, both roads."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from apportion.solvers.search.depth_first import LARGEST, Status
from apportion.solvers.search.menu_search import MenuSearch, ScaledMenus, Settings, Unit, unit_of


def values_of_a_sort(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return values: whole, on a grid, equal, near ties, of unlike magnitudes, negative."""
    sorts = (
        rng.integers(-9, 50, count).astype(np.float64),
        rng.integers(0, 20, count) / 10.0,
        np.full(count, 0.1),
        1.0 + rng.integers(0, 4, count) * 2.0**-52,
        rng.exponential(1.0, count) * 10.0 ** rng.integers(-18, 18, count),
        rng.standard_normal(count),
        rng.random(count) * 1e-300,
    )
    return sorts[rng.integers(len(sorts))]


class Case:
    """A random small problem, its optimum by enumeration in fractions, and its search."""

    def __init__(self, seed: int, settings: Settings | None = None) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 5, rng.integers(1, 6))
        self.offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        capacities = int(rng.integers(1, 5))
        self.values = values_of_a_sort(rng, int(self.offsets[-1]))
        top = int(rng.choice([3, 40, 2 * LARGEST, 2**50]))
        uses = rng.integers(0, top, (capacities, self.values.size), endpoint=True)
        most = np.maximum.reduceat(uses, self.offsets[:-1], axis=1).sum(axis=1)
        least = np.minimum.reduceat(uses, self.offsets[:-1], axis=1).sum(axis=1)
        room = least + ((most - least) * rng.uniform(-0.03, 0.7, capacities)).astype(np.int64)
        room = np.maximum(room, 0)
        step = 0.1 if (self.values == np.round(self.values, 1)).all() and rng.random() < 0.7 else 0.0
        self.unit: Unit = unit_of(self.values, sizes.size, step)
        self.menus = ScaledMenus(self.unit.worths(self.values), uses, self.offsets, room)
        weights = rng.exponential(1.0, capacities) * np.abs(self.values).max() / float(top)
        self.search = MenuSearch(
            self.menus,
            weights / float(self.unit.size),
            None,
            lambda decided: weights * decided.size,
            seed,
            settings,
        )

    def feasible(self, choice: NDArray[np.int64]) -> bool:
        return bool((self.menus.uses[:, choice].sum(axis=1) <= self.menus.capacities).all())

    def exact(self, choice: NDArray[np.int64]) -> Fraction:
        if self.unit.exact:  # a grid of tenths counts 0.1 as one tenth
            return int(self.menus.worth[choice].sum()) * self.unit.size
        return sum(map(Fraction, self.values[choice].tolist()), Fraction(0))

    def enumerated(self) -> Fraction | None:
        choices = (np.array(choice) for choice in product(*(range(a, b) for a, b in pairwise(self.offsets))))
        return max((self.exact(choice) for choice in choices if self.feasible(choice)), default=None)

    def searched(self, nodes: int) -> Fraction | None:
        best: Fraction | None = None
        for _ in range(100_000):
            status = self.search.run(nodes)
            if status is Status.EXHAUSTED:
                return best
            if status is Status.FOUND and self.feasible(choice := self.search.leaf()):
                worth = self.exact(choice)
                if best is None or worth > best:
                    best = worth
                self.search.raise_floor(self.unit.floor(self.values[choice]))
        raise AssertionError("the search does not end")


def compare(seeds: range, settings: Settings | None = None) -> int:
    infeasible = 0
    for seed in seeds:
        case = Case(seed, settings)
        truth = case.enumerated()
        assert case.searched(1 + seed % 100) == truth, seed
        infeasible += truth is None
    return infeasible


@pytest.mark.usefixtures("road")
def test_small_menus_against_enumeration() -> None:
    infeasible = compare(range(400))
    assert 10 < infeasible < 200


@pytest.mark.slow
@pytest.mark.usefixtures("road")
def test_many_small_menus_against_enumeration() -> None:
    compare(range(1_000, 1_000 + int(os.environ.get("APPORTION_CASES", "20000"))))


@pytest.mark.parametrize(
    "settings",
    [
        Settings(drawn=0, fitted=0),
        Settings(ordering=False),
        Settings(first_limit=3, growth=1.1, fitted=50),
        Settings(first_limit=1, growth=2.0, depths=(1.0, 0.5, 0.3)),
    ],
)
def test_every_ingredient_can_be_switched_off_or_forced(settings: Settings) -> None:
    compare(range(150), settings)


def test_worths_are_rounded_up_where_62_bits_do_not_hold_them() -> None:
    values = np.array([1e18, 1.0 / 3.0, 1e-18, -1e-18, 0.0])
    unit = unit_of(values, 5, 0.0)
    assert not unit.exact
    for value, worth in zip(values.tolist(), unit.worths(values).tolist(), strict=True):
        assert Fraction(value) <= worth * unit.size < Fraction(value) + unit.size
    assert unit.floor(values) * unit.size <= sum(map(Fraction, values.tolist()))


@pytest.mark.parametrize("step", [0.001, 0.05, 0.25, 0.5, 1.0, 3.0])
def test_a_grid_is_counted_in_its_step(step: float) -> None:
    values = np.array([0.0, -7.0, 3.0, 1000.0]) * step
    unit = unit_of(values, 3, step)
    assert unit.exact and unit.size == Fraction(str(step))
    assert unit.worths(values).tolist() == [0, -7, 3, 1000]
