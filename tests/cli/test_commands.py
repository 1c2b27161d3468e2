"""The commands of the group: validate, schema, check, convert, export, backends, snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from apportion.instances import KINDS
from apportion.instances.gap_filling.generator import generate
from tests.cli.calling import GROUP, call, process

MKNAP = b"1 3 2 9 5 4 3 1 2 3 3 2 1 4 4"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_bytes(msgspec.json.encode(generate(13, jobs=6, nodes=24, decided_ago_s=900)))
    return path


def test_help_lists_every_command_and_loads_no_numpy(root: Path) -> None:
    source = (
        "import sys\ntry:\n    " + GROUP + "\nfinally:\n    print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = process(root, source, "--help")
    assert done.stderr == b"False\n"
    for name in ("backends", "check", "convert", "export", "schema", "snapshot", "validate"):
        assert name in done.stdout.decode()


def test_an_unknown_command_is_a_usage_error() -> None:
    assert call(main, "frobnicate").code == 2


def test_validate_of_a_valid_file_loads_no_numpy(small: Path, root: Path) -> None:
    source = (
        "import sys\ntry:\n    " + GROUP + "\nfinally:\n    print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = process(root, source, "validate", small)
    assert (done.returncode, done.stderr) == (0, b"False\n")
    assert done.stdout.startswith(b"valid: gap_filling")


def test_validate_lists_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(
        '{"kind": "gap_filling", "schema_version": "1", "nodes": ["a", "a"], "jobs": [], "extra": 1}'
    )
    done = call(main, "validate", path)
    assert done.code == 3
    assert done.out.splitlines() == [
        "line 1, column 1: $.horizon_s: is missing",
        "line 1, column 48: $.nodes: node 'a' stands 2 times, "
        "first as [0], again as [1]; each must be unique",
        "line 1, column 81: $.extra: is an unknown field",
        "3 problems",
    ]
    told = json.loads(call(main, "validate", path, "--json").out)
    assert told["valid"] is False
    assert [problem["path"] for problem in told["problems"]] == ["$.horizon_s", "$.nodes", "$.extra"]


@pytest.mark.parametrize("command", [["solve"], ["explain"], ["export", "--to", "lp"], ["what-if"]])
def test_what_shows_later_than_reading_names_file_and_line_too(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "floors.json"
    job = '{"id": "a", "tenant": "t", "options": [{"id": "o", "value": 1, "uses": {"gpu": 2}}]}'
    path.write_text(
        '{"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize",\n'
        f'"capacities": {{"gpu": 4}}, "jobs": [{job}], "tenants": [{{"id": "t"}}],\n'
        '"fairness": {"floors": {"t": 5}}}'
    )
    more = ["--pin", "a=o"] if command == ["what-if"] else []
    done = call(main, command[0], path, *command[1:], *more)
    said = "line 3, column 25: $.fairness.floors.t: is 5, but its jobs reach 2 at most\n"
    assert (done.code, done.err) == (3, f"apportion: {path}: {said}")
    assert call(main, "validate", path).out.startswith(said)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_schema_prints_the_committed_schema(kind: str) -> None:
    assert json.loads(call(main, "schema", kind).out)["$id"] == f"https://apportion.dev/schemas/{kind}-1.json"


@pytest.mark.parametrize("kind", ["", "nonsense", "../schemas/gap_filling", "__init__"])
def test_schema_of_an_unknown_kind_names_the_known_ones(kind: str) -> None:
    done = call(main, "schema", kind)
    assert done.code == 2
    assert ", ".join(KINDS) in done.err


def test_check_verifies_a_stored_result_without_any_solver(small: Path, tmp_path: Path, root: Path) -> None:
    stored = tmp_path / "result.json"
    call(solve, small, "--no-keep-running", "-o", stored)
    source = "import sys\ntry:\n    " + GROUP + "\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    done = process(root, source, "check", small, stored, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["verified"] is True and told["words"] == []
    assert all(check["ok"] and check["verdict"] in ("derived", "nothing") for check in told["checks"])
    loaded = set(done.stderr.decode().split())
    assert not loaded & {"ortools", "highspy", "scipy", "pandas", "pyomo", "networkx"}
    assert not any(name.startswith("apportion.solvers.") for name in loaded)


def test_check_refuses_an_edited_result(small: Path, tmp_path: Path) -> None:
    stored = tmp_path / "result.json"
    call(solve, small, "-o", stored)
    document = json.loads(stored.read_text())
    document["objective"] *= 1.001
    stored.write_text(json.dumps(document))
    done = call(main, "check", small, stored)
    assert done.code == 3
    assert "FAIL  objective" in done.out and "NOT verified" in done.out


@pytest.mark.parametrize("content", ["", "[]", "5", '{"plan": 1}', '{"a": NaN}', '{"plan": {}, "plan": {}}'])
def test_check_of_a_malformed_result_is_3(small: Path, content: str) -> None:
    done = call(main, "check", small, "-", stdin=content.encode())
    assert done.code == 3
    assert "Traceback" not in done.err


def test_check_cannot_read_both_from_standard_input() -> None:
    assert call(main, "check", "-", "-").code == 2


def test_convert_reads_a_foreign_format_by_name_and_by_option(tmp_path: Path) -> None:
    (tmp_path / "mknap1.txt").write_bytes(MKNAP)
    by_name = call(main, "convert", tmp_path / "mknap1.txt", "-o", tmp_path / "out.json")
    assert (by_name.code, by_name.out) == (0, "")
    told = json.loads((tmp_path / "out.json").read_text())
    by_option = call(main, "convert", "-", "--format", "orlib-mknap", stdin=MKNAP)
    assert json.loads(by_option.out)["jobs"] == told["jobs"]
    assert call(main, "validate", tmp_path / "out.json").code == 0
    assert json.loads(call(solve, tmp_path / "mknap1.txt", "--json").out)["solution"] == "optimal"


def test_convert_says_which_problem_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "mknap1.txt").write_bytes(MKNAP)
    done = call(main, "convert", tmp_path / "mknap1.txt", "--index", 4)
    assert done.code == 3
    assert "$.problem[4]: does not exist" in done.err


def test_backends_says_what_is_installed() -> None:
    rows = json.loads(call(main, "backends", "--json").out)
    named = {row["name"]: row for row in rows}
    assert {"exact", "highs", "cp-sat", "scip", "pyomo:NAME"} <= set(named)
    assert named["exact"]["available"] and named["exact"]["accepts"] == "knapsack"
    assert "exact" in call(main, "backends").out


def test_backends_says_which_compiled_parts_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_UNCOMPILED", "1")
    assert "compiled parts of exact: switched off by APPORTION_UNCOMPILED" in call(main, "backends").out
    monkeypatch.setenv("APPORTION_UNCOMPILED", "0")
    told = call(main, "backends").out
    assert "compiled parts of exact: all " in told or "compiled parts of exact: not in use: " in told


def test_backends_says_why_one_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"highspy": None}
    monkeypatch.setattr("apportion.solving.registry.version_of", lambda package: missing.get(package, "1"))
    rows = {row["name"]: row for row in json.loads(call(main, "backends", "--json").out)}
    assert rows["highs"]["available"] is False
    assert rows["highs"]["why"] == "highspy not installed"
    assert "(highspy not installed)" in call(main, "backends").out


def test_snapshot_needs_its_options() -> None:
    assert call(main, "snapshot").code == 2


def test_snapshot_of_the_real_trace_is_solved_and_verified(data: Path, tmp_path: Path) -> None:
    folder = data / "bftrainer"
    trace = next(iter(sorted(folder.rglob("summit_idle_intervals.npz"))))
    jobs = next(iter(sorted(folder.rglob("ImageNet-imgps-jobs.csv"))))
    out = tmp_path / "snapshot.json"
    done = call(
        main, "snapshot", "--trace", trace, "--jobs", jobs, "--at", 400_000, "--trainers", 20, "-o", out
    )
    assert (done.code, done.err) == (0, "")
    assert len(json.loads(out.read_text())["jobs"]) == 20
    call(solve, out, "-o", tmp_path / "result.json")
    assert call(main, "check", out, tmp_path / "result.json").code == 0


def test_snapshot_of_a_missing_trace_is_one_message(tmp_path: Path) -> None:
    done = call(
        main,
        "snapshot",
        "--trace",
        tmp_path / "no.npz",
        "--jobs",
        tmp_path / "no.csv",
        "--at",
        0,
        "--trainers",
        1,
    )
    assert done.code in (2, 3)
    assert done.err.count("\n") == 1


def test_convert_writes_json_and_no_other_format(tmp_path: Path) -> None:
    done = call(main, "convert", "examples/gap_filling_small.json", "-o", tmp_path / "x.csv")
    assert done.code == 2 and "an instance is written as JSON; name FILE.json" in done.err
    assert not (tmp_path / "x.csv").exists()


def test_the_first_of_several_problems_is_said_to_be_the_first(tmp_path: Path) -> None:
    file = tmp_path / "mknap9.txt"
    file.write_text("3\n" + "2 1 0 5 4 3 2 4\n" * 3)
    assert (
        f"{file}: the first of 3 problems; --index K takes another, from 0" in call(main, "solve", file).err
    )
    assert call(main, "solve", file, "--index", "0").err == ""
    assert call(main, "solve", file, "-q").err == ""


def test_what_was_not_checked_is_said_with_the_way_to_check_it(tmp_path: Path) -> None:
    stored = tmp_path / "r.json"
    assert call(main, "solve", "examples/gap_filling_small.json", "-o", stored).code == 0
    told = call(main, "check", "examples/gap_filling_small.json", stored)
    assert told.code == 0
    assert told.out.splitlines()[-1].startswith(
        "plan and objective are right; that nothing is better was not checked: solve with --proof"
    )
