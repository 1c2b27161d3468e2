"""``apportion export``: another program reads the file and finds the same optimum under the same names."""

from __future__ import annotations

import json
from pathlib import Path

import highspy
import msgspec
import pytest

from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from apportion.instances.gap_filling.generator import generate
from tests.cli.calling import call


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_bytes(msgspec.json.encode(generate(13, jobs=3, nodes=8, max_nodes=6, decided_ago_s=900)))
    return path


@pytest.mark.parametrize("target", ["lp", "mps"])
@pytest.mark.parametrize("formulation", ["by_count", "by_node"])
def test_highs_reads_the_file_and_agrees(small: Path, tmp_path: Path, target: str, formulation: str) -> None:
    out = tmp_path / f"model.{target}"
    done = call(main, "export", small, "--to", target, "--formulation", formulation, "-o", out)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert "j000" in out.read_text()
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(out)) == highspy.HighsStatus.kOk
    assert highs.run() == highspy.HighsStatus.kOk
    best = json.loads(call(solve, small, "--json").out)["objective"]
    assert highs.getObjectiveValue() == pytest.approx(best, rel=1e-7)


def test_export_to_standard_output_and_usage(small: Path) -> None:
    assert call(main, "export", small, "--to", "lp").out.startswith("Maximize\n")
    assert call(main, "export", small).code == 2
    assert call(main, "export", small, "--to", "lp", "--formulation", "none such").code == 2


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ("three_teams", "guarantees and fair shares of tenants come first"),
        ("freezing_small", "that a choice fits on nodes or machines"),
        ("matching_gangs", "that a choice fits on nodes or machines"),
        ("sia_round", None),
        ("matching_unrelated", None),
        ("gap_filling_small", None),
    ],
)
@pytest.mark.parametrize(("target", "sign"), [("lp", "\\"), ("mps", "*")])
def test_a_relaxation_is_called_one(example: str, said: str | None, target: str, sign: str) -> None:
    """Who solved the file took its optimum for the instance's."""
    done = call(main, "export", f"examples/{example}.json", "--to", target)
    assert done.code == 0
    if said is None:
        assert (done.err, done.out.startswith(sign)) == ("", False)
        return
    assert f"export: A RELAXATION: {said}" in done.err
    assert done.out.startswith(f"{sign} A RELAXATION: {said}")


def test_a_relaxation_is_read_by_highs_all_the_same(tmp_path: Path) -> None:
    for target in ("lp", "mps"):
        out = tmp_path / f"model.{target}"
        assert call(main, "export", "examples/three_teams.json", "--to", target, "-o", out).code == 0
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        assert highs.readModel(str(out)) == highspy.HighsStatus.kOk
