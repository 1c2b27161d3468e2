"""Kueue's own cases of topology-aware scheduling: the baseline gives its answers verbatim."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apportion.cluster.policies.rounds.kueue_topology import NoFit
from tests.conftest import data_folder
from tests.policies.topology_cases import answers, expected

PATH = data_folder() / "topology" / "topology_cases.json"
CASES = json.loads(PATH.read_bytes())["cases"] if PATH.is_file() else []
ASSIGNED = [case for case in CASES if case["kind"] in ("assign", "replace")]
"""The others are single steps of balanced placement."""


def named(balanced: bool) -> list[Any]:
    """Return the cases with or without the gate of balanced placement."""
    some = [one for one in ASSIGNED if one["feature_gates"]["TASBalancedPlacement"] is balanced]
    return [pytest.param(case, id=f"{case['id']} {case['title']}") for case in some]


def holds(case: dict[str, Any]) -> bool:
    """Return whether every pod set of a case gets what it states."""
    try:
        found = answers(case)
    except ValueError:  # a level that there is not
        return all("error" in expected(pods) for pods in case["pod_sets"])
    for pods, got in zip(case["pod_sets"], found, strict=True):
        stated = expected(pods)
        if isinstance(got, NoFit):
            same = isinstance(stated, dict) and stated.get("fit", got.fit) == got.fit
            if not same or stated.get("of", got.of) != got.of:
                return False
        elif got != stated:
            return False
    return True


@pytest.mark.parametrize("case", named(balanced=False))
def test_the_stated_places_are_found(case: dict[str, Any]) -> None:
    assert holds(case)


def test_balanced_placement_is_not_reproduced() -> None:
    """A gate that is off by default; where the answer is that of the other rules it is found."""
    some = [one for one in ASSIGNED if one["feature_gates"]["TASBalancedPlacement"]]
    if some:
        assert (sum(map(holds, some)), len(some)) == (5, 12)
