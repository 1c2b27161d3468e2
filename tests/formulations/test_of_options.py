"""Every formulation as a knapsack holds the options of its kind, at least the best of each use."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

from apportion.core.extension_points import loaded
from apportion.instances import kind_of
from apportion.instances.columns import listed
from apportion.solving.registry import FORMULATIONS, FormulationEntry
from tests.instances.test_columns import holds_the_best, menus_of
from tests.proofs.claims import KINDS

Menu = set[tuple[Fraction, tuple[int, ...]]]


def knapsacks(kind: str) -> list[FormulationEntry]:
    own = list(FORMULATIONS[kind].values())
    own += [entry.explained for entry in own if entry.explained is not None]
    return [entry for entry in own if entry.produces == "knapsack"]


def menus_of_a_formulation(built: Any, width: int) -> list[Menu]:
    """Return worth and uses of every row that fits alone, job by job; also of nothing, where it may be."""
    model = built.model
    rows = list(zip(built.exact_values(), map(tuple, model.uses[:, :width].tolist()), strict=True))
    fits = (model.uses <= model.capacities).all(axis=1).tolist()
    menus = [
        {rows[k] for k in range(first, last) if fits[k]} for first, last in pairwise(model.offsets.tolist())
    ]
    for menu, required in zip(menus, model.required.tolist(), strict=True):
        if not required:
            menu.add((Fraction(0), (0,) * width))
    return menus


OF_SUMS = ("menus with names", "gap filling", "freezing", "freezing on nodes", "generalised assignment")
"""Kinds of cases whose objective is a sum of worths, without tenants: what these limit the pipeline adds."""


@pytest.mark.parametrize("kind", OF_SUMS)
def test_a_formulation_has_the_options_of_its_kind(kind: str) -> None:
    """Uses of capacities are compared; what an option of a matching takes of its own machine is not."""
    seen: set[str] = set()
    for number in range(25):
        instance = KINDS[kind].case(Random(f"formulation {kind} {number}"))
        own = kind_of(instance)
        assert own.option_set is not None and own.option_set.sums(instance)
        given = listed(own, instance)
        sign = 1 if own.maximizes(instance) else -1
        for entry in knapsacks(own.name):
            built = loaded(entry.build)(instance, **dict(entry.arguments))
            width = len(given.rooms)
            assert built.model.capacities.tolist()[:width] == list(given.rooms)
            for menu, offered in zip(menus_of_a_formulation(built, width), menus_of(given), strict=True):
                options = [one for one in offered if (np.array(one[1]) <= given.rooms).all()]
                holds_the_best(menu, options, sign)
            seen.add(entry.name)
    assert seen == {entry.name for entry in knapsacks(own.name)}
