"""A decision in a terminal: it fits, says who lost what, and ends with how the solve ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apportion.cli.solve_instance import main
from apportion.cli.summary import clipped, table
from tests.cli.calling import call

EXAMPLES = Path("examples")


def round_of(jobs: list[dict[str, Any]]) -> bytes:
    """Return a round of freezing on four GPUs of one type."""
    head = {"kind": "freezing", "schema_version": "1", "gpus": {"v100": 4}, "gpus_per_node": {"v100": 4}}
    return json.dumps({**head, "round_s": 60.0, "power": 1.0, "queue_penalty": 0.0, "jobs": jobs}).encode()


def freezing_job(name: str, progress: float, gpus: int = 4, held: int | None = None) -> dict[str, Any]:
    row = {"gpu_type": "v100", "gpus": gpus, "depths": [0, 2], "effective_progress": [progress, progress * 2]}
    now = {} if held is None else {"current": {"gpu_type": "v100", "gpus": held, "depth": 0}}
    return {"id": name, "layers": 8, "menu": [row], **now}


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(
    "name", ["gap_filling_summit_like", "freezing_small", "sia_round", "matching_unrelated"]
)
def test_a_summary_fits_the_terminal(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = call(main, EXAMPLES / f"{name}.json").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line.split()[0] for line in lines if line and line[0] != " "][-1] in ("time", "note")


def test_a_wide_terminal_lists_more_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        seen[columns] = call(main, EXAMPLES / "gap_filling_summit_like.json").out
    assert "and 26 more" not in seen[80] and " more" in seen[80]
    assert len(seen[200].splitlines()[2]) > 80 or max(map(len, seen[200].splitlines())) > 120


def test_a_job_that_lost_its_gpus_is_listed_with_what_it_lost() -> None:
    first = {**freezing_job("new", 100.0), "weight": 2.0}  # else who runs is kept, at equal value
    jobs = [first, freezing_job("old", 1.0, held=4), freezing_job("later", 1.0)]
    out = call(main, "-", stdin=round_of(jobs)).out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["old"] == ["old", "4", "v100", "stopped"]
    assert rows["later"] == ["later", "-", "waits"]
    assert rows["new"][:4] == ["new", "-", "4", "v100"]
    assert "1 of 3 jobs run, 2 wait, 1 of them was running; used 4 of 4 v100" in out


def test_a_schedule_shows_machine_start_end_and_unit() -> None:
    out = call(main, EXAMPLES / "matching_unrelated.json").out
    assert out.splitlines()[0].split() == ["job", "machine", "start", "s", "end", "s"]
    ends = [float(line.split()[3]) for line in out.splitlines()[1:21]]
    assert f"the last ends at {max(ends):.6g} s" in out


def test_a_matching_by_cost_shows_cost_and_use() -> None:
    lines = call(main, EXAMPLES / "matching_assignment.json").out.splitlines()
    assert lines[0].split() == ["job", "machine", "cost", "uses"]
    assert sum(float(line.split()[2]) for line in lines[1:21]) == 520


def test_infeasible_points_to_explain(tmp_path: Path) -> None:
    path = tmp_path / "tight.json"
    job = {"id": "a", "required": True, "options": [{"id": "big", "value": 1.0, "uses": {"gpu": 2}}]}
    head = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    path.write_text(json.dumps({**head, "capacities": {"gpu": 1}, "jobs": [job]}))
    done = call(main, path)
    assert done.code == 4
    assert f"apportion explain {path}" in " ".join(done.out.split())


def test_long_names_keep_both_ends() -> None:
    names = [f"experiment-2026-11-22-resnet50-learning-rate-0.{k}" for k in (1, 2)]
    lines = list(table([("job", "value"), *((name, "1") for name in names)], "<>", width=30))
    assert all(len(line) <= 30 for line in lines)
    assert lines[1].startswith("experiment") and lines[1].split()[0].endswith("0.1")
    assert lines[1] != lines[2]
    assert clipped("short", 5) == "short"


def test_numbers_are_never_cut() -> None:
    lines = list(table([("job", "objective"), ("j" * 60, "123456789.123456")], "<>", width=30))
    assert lines[1].endswith("123456789.123456")
