"""The commands on a layer-freezing instance: solved, told, stored, checked, explained."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings

import apportion
from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from apportion.instances import FreezingInstance
from apportion.io import stored
from apportion.io.schemas import committed
from tests.budgets import examples
from tests.cli.calling import call
from tests.strategies import freezing_instances


@pytest.fixture
def example(root: Path) -> Path:
    return root / "examples" / "freezing_small.json"


def test_a_solved_round_is_told_in_words(example: Path) -> None:
    told = call(solve, example)
    assert told.code == 0, told.err
    assert "j0000  8 v100  2 v100  0 -> 29 of 97" in told.out


def test_a_stored_answer_is_checked_again(example: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    assert call(solve, example, "-o", answer).code == 0
    document = json.loads(answer.read_text())
    assert document["kind"] == "freezing" and document["termination"] == "optimal"
    assert set(document["certificate"]["multipliers"]) == {"v100", "frozen_penalty"}
    checked = call(main, "check", example, answer)
    assert checked.code == 0, checked.err
    document["plan"]["configuration"]["j0000"]["depth"] = 58
    answer.write_text(json.dumps(document))
    assert call(main, "check", example, answer).code != 0


def test_an_explanation_says_what_another_depth_would_cost(example: Path) -> None:
    told = call(main, "explain", example, "--job", "j0000")
    assert told.code == 0, told.err
    assert "2xv100, 29 layers frozen" in told.out
    assert "runner-up: 2xv100, 58 layers frozen" in told.out


@given(freezing_instances())
def test_every_valid_round_satisfies_its_schema(instance: FreezingInstance) -> None:
    tree = json.loads(msgspec.json.encode(instance))
    jsonschema_rs.Draft202012Validator(committed("freezing")).validate(tree)
    assert apportion.read(tree) == instance


@given(freezing_instances())
@settings(max_examples=examples(200))
def test_every_answer_survives_being_stored(instance: FreezingInstance) -> None:
    document = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    verification = stored.verify(instance, document)
    assert verification.ok, [check for check in verification.checks if not check[1]]
