"""Every rule of tenants is one clear problem with its path; files without tenants are what they were."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apportion.core.errors import InvalidInstance
from apportion.instances import MultipleChoiceKnapsackInstance
from apportion.io.read import read


def three_teams() -> dict[str, Any]:
    """Return two teams below an organisation and one beside it."""
    return {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {"gpu": 8, "cpu": 40},
        "tenants": [
            {"id": "org"},
            {"id": "a", "parent": "org", "quotas": {"gpu": {"guarantee": 3, "lending_limit": 1}}},
            {"id": "b", "parent": "org", "quotas": {"gpu": {"guarantee": 2, "borrowing_limit": 2}}},
            {"id": "c", "weight": 2, "quotas": {"gpu": {"guarantee": 3}}},
        ],
        "jobs": [
            {
                "id": f"{team}{index}",
                "tenant": team,
                "required": False,
                "options": [{"id": "1", "value": 1.0, "uses": {"gpu": 1, "cpu": 4}}],
            }
            for team in "abc"
            for index in range(2)
        ],
    }


def decoded(document: dict[str, Any]) -> MultipleChoiceKnapsackInstance:
    return msgspec.json.decode(msgspec.json.encode(document), type=MultipleChoiceKnapsackInstance)


def test_the_tree_adds_up_guarantees_reserves_and_limits() -> None:
    from apportion.instances.tenants import tree_of

    instance = decoded(three_teams())
    assert isinstance(instance.tenants, tuple)
    tree = tree_of(instance.tenants)
    assert tree.guarantees("gpu") == {"org": 5, "a": 3, "b": 2, "c": 3}
    assert tree.reserves("gpu") == {"org": 2, "a": 2, "b": 0, "c": 0}
    assert tree.limits("gpu") == {"b": 4}
    assert tree.roots == ("c", "org") and tree.leaves == ("c", "a", "b")
    assert tree.below("org") == ("a", "b") and list(tree.path("a")) == ["a", "org"]


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        (lambda d: d["tenants"][1].update(parent="rog"), "$.tenants[1].parent", "there is no tenant 'rog'"),
        (lambda d: d["tenants"][0].update(parent="a"), "$.tenants[0].parent", "is above itself"),
        (lambda d: d["tenants"][3].update(id="a"), "$.tenants", "stands 2 times"),
        (lambda d: d["tenants"][1]["quotas"].update(gpus={}), "$.tenants[1].quotas.gpus", "capacities"),
        (
            lambda d: d["tenants"][0].update(quotas={"gpu": {"guarantee": 4}}),
            "$.tenants[0].quotas.gpu.guarantee",
            "adds up to 5",
        ),
        (
            lambda d: d["tenants"][3].update(quotas={"gpu": {"guarantee": 4}}),
            "$.tenants",
            "guarantees add up to 9 (4 of c + 5 of org), there are 8",
        ),
        (lambda d: d["jobs"][0].pop("tenant"), "$.jobs[0].tenant", "is missing"),
        (lambda d: d["jobs"][0].update(tenant="org"), "$.jobs[0].tenant", "has children"),
        (lambda d: d["jobs"][0].update(tenant="d"), "$.jobs[0].tenant", "there is no tenant 'd'"),
        (lambda d: d.pop("tenants"), "$.jobs[0].tenant", "has no tenants"),
        (lambda d: d.update(fairness={"keep": 2}), "$.fairness.keep", "from 0 to 1"),
        (
            lambda d: d.update(fairness={"share": "finish_time_ratio"}),
            "$.jobs[0].finish",
            "finish_time_ratio needs it",
        ),
        (
            lambda d: d.update(sense="minimize", fairness={"share": "normalised_throughput"}),
            "$.fairness.share",
            "dominant_share",
        ),
        (lambda d: d.update(fairness={"floors": {"d": 5}}), "$.fairness.floors.d", "is no tenant"),
        (
            lambda d: d["jobs"][0].update(finish={"elapsed_s": 1, "remaining": 0, "isolated_s": 1}),
            "$.jobs[0].finish.remaining",
            "must be positive",
        ),
    ],
)
def test_what_is_wrong_is_named(change: Any, path: str, said: str) -> None:
    document = three_teams()
    change(document)
    with pytest.raises(InvalidInstance) as caught:
        read(document)
    assert f"{path}: " in str(caught.value)
    assert said in str(caught.value)


def test_an_instance_without_tenants_is_written_as_before() -> None:
    instance = read("examples/gap_filling_small.json")
    assert b"tenant" not in msgspec.json.encode(instance) and b"fairness" not in msgspec.json.encode(instance)
