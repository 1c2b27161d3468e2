"""A stored solution proves itself; any edit of it or of its instance shows."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.instances import GapFillingInstance, MultipleChoiceKnapsackInstance
from apportion.io import stored
from tests.budgets import examples
from tests.strategies import gap_filling_instances, knapsack_instances


def stored_solution(instance: Any) -> dict[str, Any]:
    """Return the document as somebody reads it back from disk."""
    return json.loads(stored.encode(stored.document(apportion.solve(instance))))


@given(gap_filling_instances(pins=True))
@settings(max_examples=examples(200))
def test_every_gap_filling_solution_verifies(instance: GapFillingInstance) -> None:
    verification = stored.verify(instance, stored_solution(instance))
    assert verification.ok, [check for check in verification.checks if not check[1]]


@given(knapsack_instances())
@settings(max_examples=examples(200))
def test_every_knapsack_solution_verifies(instance: MultipleChoiceKnapsackInstance) -> None:
    verification = stored.verify(instance, stored_solution(instance))
    assert verification.ok, [check for check in verification.checks if not check[1]]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every scalar in a JSON value."""
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, (*path, index))]
    return [path]


def edited(value: Any) -> Any:
    """Return something else of a similar type."""
    if value is None:
        return 1.5
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 1.001 + 1
    return value + "x"


@given(gap_filling_instances(max_jobs=3, max_nodes=6), st.data())
@settings(max_examples=examples(200))
def test_any_edited_scalar_is_caught(instance: GapFillingInstance, data: st.DataObject) -> None:
    told = stored_solution(instance)
    path = data.draw(st.sampled_from(leaves(told)))
    tampered = copy.deepcopy(told)
    place = tampered
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = edited(place[path[-1]])
    assert not stored.verify(instance, tampered).ok


def small() -> GapFillingInstance:
    curve = apportion.ScalingCurve((0, 1, 2, 4), (0.0, 10.0, 18.0, 30.0))
    jobs = tuple(apportion.GapFillingJob(f"j{i}", 1, 4, curve, 18.0, 12.0) for i in range(3))
    return GapFillingInstance("1", 120.0, ("a", "b", "c", "d", "e"), jobs, "small")


def redigested(instance: Any, told: dict[str, Any]) -> dict[str, Any]:
    """Return a document whose digest fits its (tampered) content, as a careful forger would leave it."""
    told["certificate"]["digest"] = stored.digest(instance, told)
    return told


def failed(instance: Any, told: dict[str, Any]) -> set[str]:
    return {name for name, passed, _ in stored.verify(instance, told).checks if not passed}


def test_recomputation_catches_a_forger_who_fixes_the_digest() -> None:
    instance = small()
    honest = stored_solution(instance)

    worse = copy.deepcopy(honest)
    job, nodes = next(iter(worse["plan"]["allocation"].items()))
    worse["plan"]["allocation"][job] = nodes[:-1]
    assert "objective" in failed(instance, redigested(instance, worse))

    boastful = copy.deepcopy(honest)
    boastful["objective"] *= 1.0001
    assert "objective" in failed(instance, redigested(instance, boastful))

    tight = copy.deepcopy(honest)
    tight["verified_bound"] -= 1e-6 * abs(tight["verified_bound"])
    assert "verified_bound" in failed(instance, redigested(instance, tight))

    loose = copy.deepcopy(honest)
    loose["verified_bound"] += 1e-6 * abs(loose["verified_bound"])
    assert "verified_bound" in failed(instance, redigested(instance, loose))

    double = copy.deepcopy(honest)
    double["plan"]["allocation"]["j0"] = ["a"]
    double["plan"]["allocation"]["j1"] = ["a"]
    assert "plan" in failed(instance, redigested(instance, double))


def test_an_edited_instance_is_caught_by_the_digest() -> None:
    instance = small()
    told = stored_solution(instance)
    other = msgspec.structs.replace(instance, name="renamed")
    assert not stored.verify(other, told).ok


@pytest.mark.parametrize("told", [None, [], "x", {}, {"kind": "gap_filling"}, {"plan": 3}])
def test_a_malformed_document_is_said_to_be_one(told: Any) -> None:
    verification = stored.verify(small(), told)
    assert not verification.ok
    assert verification.checks[0][0] == "document"


@pytest.mark.parametrize(
    ("name", "told"), [("source", ["dynamic_programming"]), ("digest", 7.0), ("source", 3)]
)
def test_a_certificate_of_another_type_is_said_to_be_one(name: str, told: Any) -> None:
    """A list as the source once ended in a TypeError: it was looked up in a set."""
    honest = stored_solution(small())
    honest["certificate"][name] = told
    verification = stored.verify(small(), honest)
    assert not verification.ok
    assert verification.checks[0][0] == "document"


def with_integers(value: Any) -> Any:
    """Return an instance as a caller in Python may write it: whole numbers as integers."""
    if isinstance(value, msgspec.Struct):
        fields = {name: with_integers(getattr(value, name)) for name in value.__struct_fields__}
        return type(value)(**fields)
    if isinstance(value, tuple):
        return tuple(with_integers(inner) for inner in value)
    if isinstance(value, dict):
        return {key: with_integers(inner) for key, inner in value.items()}
    return int(value) if type(value) is float and value.is_integer() else value


@pytest.mark.parametrize(
    "example",
    ["gap_filling_small", "sia_round", "matching_assignment", "matching_unrelated", "freezing_small"],
)
def test_the_digest_of_no_kind_depends_on_how_numbers_were_written(root: Path, example: str) -> None:
    """Matching instances written with integers used to get a digest that did not verify."""
    read = apportion.read(root / "examples" / f"{example}.json")
    written = with_integers(read)
    verification = stored.verify(read, stored_solution(written))
    assert verification.ok, [check for check in verification.checks if not check[1]]


def test_the_digest_does_not_depend_on_how_numbers_were_written() -> None:
    curve = apportion.ScalingCurve((0, 1, 2, 4), (0, 10, 18, 30))
    jobs = tuple(apportion.GapFillingJob(f"j{i}", 1, 4, curve, 18, 12) for i in range(3))
    integers = GapFillingInstance("1", 120, ("a", "b", "c", "d", "e"), jobs, "small")
    assert stored.verify(small(), stored_solution(integers)).ok
