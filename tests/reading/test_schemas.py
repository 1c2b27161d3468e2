"""The committed JSON Schemas are those of the types, and say the same as the types do."""

from __future__ import annotations

import json

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given

from apportion.core.errors import InvalidOption
from apportion.instances import KINDS
from apportion.io.schemas import committed, committed_text, generated_text
from tests.strategies import gap_filling_instances, knapsack_instances


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_committed_schema_is_up_to_date(kind: str) -> None:
    assert committed_text(kind) == generated_text(kind), (
        "run: python -m apportion.io.schemas instances/schemas"
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_schema_is_valid_and_describes_itself(kind: str) -> None:
    schema = committed(kind)
    assert jsonschema_rs.meta.is_valid(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"$id", "title", "description"} <= set(schema)
    for definition in schema["$defs"].values():
        assert "\n" not in definition["description"]
        assert all("description" in told or name == "kind" for name, told in definition["properties"].items())


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidOption, match="kind must be one of gap_filling"):
        committed("unheard_of")


@given(gap_filling_instances(pins=True) | knapsack_instances())
def test_every_valid_instance_satisfies_its_schema(instance: object) -> None:
    tree = json.loads(msgspec.json.encode(instance))
    jsonschema_rs.Draft202012Validator(committed(tree["kind"])).validate(tree)
