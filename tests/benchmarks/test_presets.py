"""Presets: every one selects cells of the suite, and its command prints what was measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.presets import PRESETS, Ratio, _times, ratio
from benchmarks.reporting.behind import behind
from benchmarks.suite.published import PUBLISHED
from benchmarks.suite.registry import Selection, cells_of
from benchmarks.suite.sets import GENERATED
from benchmarks.suite.solvers import SOLVERS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_what_the_suite_declares(name: str) -> None:
    preset = PRESETS[name]
    declared = {group.name for group in GENERATED} | set(PUBLISHED)
    assert {pattern.split("/")[0] for pattern in preset.instances} <= declared
    assert set(preset.solvers) <= set(SOLVERS)
    generated = tuple(one for one in preset.instances if one.split("/")[0] not in PUBLISHED)
    cells = cells_of(Selection(only=(*generated, *preset.solvers), seeds=preset.seeds))
    assert {cell.solver.name for cell in cells} == set(preset.solvers)


@pytest.mark.slow
def test_a_preset_prints_objective_bound_and_ratio(root: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "preset",
        "knapsack_scaling",
        "--only",
        "menus-uniform/100-s0",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    done = subprocess.run(
        [*command, "--limit", "20"], cwd=root, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    ours, peer, *sums = done.stdout.splitlines()[2:]
    assert " apportion " in ours and " apportion:highs " in peer
    found = [re.search(r"objective ([0-9.]+), bound ([0-9.]+), gap", line) for line in (ours, peer)]
    assert found[0] is not None and found[1] is not None
    assert found[0][1] == found[0][2] == found[1][1] == found[1][2]
    base = re.search(r"([\d.]+) CPU s of \d  ", ours)
    quotient = re.search(r"([\d.]+) CPU s of \d +([\d.]+)x ", peer)
    assert base is not None and quotient is not None
    assert_quotient(float(quotient[2]), float(quotient[1]), float(base[1]))
    assert all("1 of 1 answered" in line and "1 proven" in line for line in sums[:2])
    assert re.fullmatch(r"apportion is behind in [01] of 1 duels", sums[-1])
    assert len(sums) == 3 + ("in 1 of" in sums[-1])


def assert_quotient(told: float, own: float, base: float) -> None:
    """Hold a ratio of one decimal to be that of two figures of five."""
    half = 5e-6
    assert (own - half) / (base + half) - 0.051 <= told <= (own + half) / (base - half) + 0.051


def test_a_printed_ratio_is_the_quotient_of_the_figures_beside_it() -> None:
    """14.4 s beside 17.1 ms were "381x": the first calls of each, of which one figure was not shown."""
    first = {"cpu_samples": [0.0378, 0.0171, 0.0180]}
    told = _times({"cpu_samples": [14.4]}, first)
    assert told.split() == [
        "14.40000",
        "CPU",
        "s",
        "of",
        "1",
        "842.1x",
        "(381.0x",
        "=",
        "14.40000",
        "/",
        "0.03780",
        "by",
        "the",
        "first",
        "1)",
    ]
    assert _times({"cpu_samples": [0.5, 0.2, 0.3]}, first).split() == [
        "0.20000",
        "CPU",
        "s",
        "of",
        "3",
        "11.7x",
    ]


def test_a_ratio_is_of_equally_many_calls() -> None:
    short, long = {"cpu_samples": [3.0, 2.0, 1.0]}, {"cpu_samples": [60.0]}
    assert ratio(long, short) == Ratio(60.0, 3.0, 1) and ratio(short, long) == Ratio(3.0, 60.0, 1)
    several = ratio({"cpu_samples": [8.0, 6.0, 5.0, 4.0]}, short)
    assert several == Ratio(5.0, 1.0, 3) and several is not None and several.quotient == 5.0
    # ended from outside, nobody counted
    assert ratio({"cpu_samples": [None]}, short) is None and ratio({}, short) is None


def _row(
    instance: str, solver: str, objective: float | None, ended: str, seconds: float
) -> dict[str, object]:
    told = {"kind": "cell", "set": "s", "family": "f", "instance": instance, "solver": solver, "limit_s": 1.0}
    return {**told, "objective": objective, "termination": ended, "seconds": seconds, "maximizes": False}


def test_a_preset_says_behind_whom_it_is_and_where() -> None:
    rows = [
        _row("one", "apportion", 101.0, "time_limit", 1.0),
        _row("one", "better", 100.0, "time_limit", 1.0),
        _row("one", "worse", 102.0, "time_limit", 1.0),
        _row("two", "apportion", 50.0, "time_limit", 1.0),
        _row("two", "better", 50.0, "optimal", 0.5),
        _row("two", "worse", None, "time_limit", 1.0),
        _row("three", "apportion", 7.0, "optimal", 0.1),
        _row("three", "better", 7.0, "optimal", 0.01),
        _row("three", "worse", 7.0, "optimal", 0.2),
    ]
    assert list(behind(rows)) == [
        "s/one behind better by quality (1.000 % against 0.000 % from the best)",
        "s/two behind better by proof",
        "s/three behind better by time (10.00 times as long)",
        "apportion is behind in 3 of 6 duels",
    ]
