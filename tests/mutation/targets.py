"""The modules that check, and the tests that must notice any change to them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["TARGETS"]

TARGETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "apportion.gap": ("tests/test_gap.py",),
        "apportion.models.sums": ("tests/models/test_sums.py",),
        "apportion.solving.judge": ("tests/test_judge.py",),
        "apportion.models.lagrangian": ("tests/models/test_lagrangian.py",),
        "apportion.models.assignment_bounds": ("tests/instances/test_matching.py",),
        "apportion.solving.certify": ("tests/test_stored.py",),
        "apportion.stored": ("tests/test_stored.py",),
        "apportion.instances.multiple_choice_knapsack.meaning": ("tests/test_stored.py",),
        "apportion.instances.gap_filling.meaning": ("tests/test_stored.py",),
        "apportion.instances.matching.meaning": ("tests/instances/test_matching.py",),
        "apportion.instances.matching.bounds": ("tests/instances/test_matching.py",),
        "apportion.instances.freezing.meaning": ("tests/instances/test_freezing.py",),
    }
)
"""Test files by module, quick ones: a mutant that survives has cost all of them."""
