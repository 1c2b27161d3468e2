"""The suite's driver and guard: resume, torn lines, crashes, kills, executors of any kind."""

from __future__ import annotations

import json
import pickle
import platform
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import main
from benchmarks.suite import guard
from benchmarks.suite.cell import Cell, InstanceSpec, SolverSpec
from benchmarks.suite.guard import run_cell
from benchmarks.suite.machine import ChildrenClock
from benchmarks.suite.making import make
from benchmarks.suite.published import PUBLISHED
from benchmarks.suite.registry import Selection, UnknownPattern, cells_of, missing_data
from benchmarks.suite.rows import BadRows, RowWriter, read_rows
from benchmarks.suite.run_cells import run
from benchmarks.suite.sets import FAMILIES
from benchmarks.suite.solvers import OURS, SOLVERS
from click.testing import CliRunner


def spec(items: int = 6, maker: str = "knapsack", **arguments: Any) -> InstanceSpec:
    given = arguments or {"seed": 1, "items": items, "capacities": 1}
    return InstanceSpec(
        family="knapsack", set_name="tiny", name=f"{items}", maker=maker, arguments=tuple(given.items())
    )


def cell(solver: SolverSpec, instance: InstanceSpec | None = None, **options: Any) -> Cell:
    return Cell(instance=instance or spec(), solver=solver, limit_s=options.pop("limit_s", 2.0), **options)


def peer(name: str, **more: Any) -> SolverSpec:
    return SolverSpec(name=name, families=("knapsack",), peer=f"tests.benchmarks.suite_peers:{name}", **more)


TWO = [cell(SOLVERS[OURS], spec(6)), cell(SOLVERS[OURS], spec(7))]


class Instant(Executor):
    """Runs at once, in this thread, on pickled copies: as remote as an executor can be, with made-up rows."""

    def __init__(self, row: Callable[[Cell], dict[str, Any]]) -> None:
        self.row, self.ran = row, 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        function, (given,) = pickle.loads(pickle.dumps((fn, args)))
        assert function is run_cell
        future: Future[Any] = Future()
        self.ran += 1
        try:
            future.set_result(self.row(given))
        except Exception as error:
            future.set_exception(error)
        return future


def made_up(given: Cell) -> dict[str, Any]:
    return {"kind": "cell", "key": given.key, "termination": "optimal"}


def test_a_resumed_run_repeats_no_finished_cell(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    with ThreadPoolExecutor(2) as pool:
        assert run(TWO[:1], out, pool) == 1
        before = out.read_bytes()
        with pytest.raises(BadRows, match="never overwritten"):
            run(TWO, out, pool)
        assert out.read_bytes() == before
        assert run(TWO, out, pool, resume=True) == 1
        assert run(TWO, out, pool, resume=True) == 0
    assert out.read_bytes().startswith(before)
    rows = [row for row in read_rows(out) if row["kind"] == "cell"]
    assert sorted(row["instance"] for row in rows) == ["6", "7"]
    assert all(row["termination"] == "optimal" and row["check"]["feasible"] for row in rows)


def test_a_torn_last_line_is_tolerated_and_done_again(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    executor = Instant(made_up)
    run(TWO, out, executor)
    lines = out.read_bytes().splitlines(keepends=True)
    whole = b"".join(lines[:2])
    out.write_bytes(whole + lines[2][:25])
    kinds = [row["kind"] for row in read_rows(out)]
    assert kinds == ["run", "cell"], "the torn row is not there"
    assert run(TWO, out, executor, resume=True) == 1 and executor.ran == 3
    assert out.read_bytes().startswith(whole)
    assert {row["key"] for row in read_rows(out) if row["kind"] == "cell"} == {c.key for c in TWO}


def test_a_file_torn_in_its_first_line_starts_over(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_bytes(b'{"kind": "ru')
    with RowWriter(out, resume=True) as writer:
        assert writer.done == frozenset()
        writer.append({"kind": "cell", "key": "a", "bound": float("inf"), "termination": "optimal"})
    assert read_rows(out) == [{"kind": "cell", "key": "a", "bound": None, "termination": "optimal"}]


def test_a_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text('{"kind": "run"}\nnonsense\n{"kind": "end"}\n')
    with pytest.raises(BadRows, match="line 2"):
        read_rows(out)


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    with RowWriter(tmp_path / "a"), pytest.raises(BadRows, match="another process"):
        RowWriter(tmp_path / "a", resume=True)


def test_a_lost_future_is_a_row_that_a_resumed_run_does_again(tmp_path: Path) -> None:
    def broken(given: Cell) -> dict[str, Any]:
        if given.key == TWO[1].key:
            raise RuntimeError("the worker is gone")
        return made_up(given)

    out = tmp_path / "rows.jsonl"
    run(TWO, out, Instant(broken))
    lost = [row for row in read_rows(out) if row.get("termination") == "lost"]
    assert [row["key"] for row in lost] == [TWO[1].key] and "worker is gone" in lost[0]["told"]
    assert run(TWO, out, Instant(made_up), resume=True) == 1
    assert not [row for row in read_rows(out) if row.get("termination") == "lost"]


def test_a_crash_is_a_row() -> None:
    row = run_cell(cell(peer("crash")))
    assert row["termination"] == "crash" and "SIGSEGV in the stage solve" in row["told"]
    assert row.get("objective") is None and row["key"].startswith("tiny/6|crash|")


def test_a_hang_is_ended_and_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_GRACE_S", 0.3)
    row = run_cell(cell(peer("hang"), limit_s=0.2, repeats=1))
    assert row["termination"] == "killed" and "hard limit of 1 s" in row["told"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "ends"), [("hang", "killed"), ("overrun", "time_limit")])
def test_a_cell_of_ours_that_is_held_up_is_given_longer_once(
    monkeypatch: pytest.MonkeyPatch, name: str, ends: str
) -> None:
    monkeypatch.setattr(guard, "_GRACE_S", 0.3)
    monkeypatch.setattr(SolverSpec, "ours", True)
    row = run_cell(cell(peer(name), limit_s=0.2, repeats=1))
    assert row["termination"] == ends
    assert ends != "killed" or "hard limit of 4.2 s" in row["told"]


def test_a_death_by_memory_is_a_row() -> None:
    row = run_cell(cell(peer("devour"), memory_mib=4096))
    assert row["termination"] == "memory_limit"


@pytest.mark.parametrize(
    ("solver", "termination", "told"),
    [
        (peer("fail"), "error", "ValueError: no good"),
        (peer("refuse"), "cannot_take", "not mine"),
        (peer("refuse", packages=("no-such-solver",)), "unavailable", "no-such-solver not installed"),
    ],
)
def test_a_peer_that_fails_is_a_row_that_says_so(solver: SolverSpec, termination: str, told: str) -> None:
    row = run_cell(cell(solver))
    assert row["termination"] == termination and told in row["told"] and row.get("objective") is None


def test_a_liar_is_found_out() -> None:
    row = run_cell(cell(peer("lie")))
    assert row["termination"] == "optimal" and row["claimed"] == 1e12
    assert row["objective"] is None and not row["check"]["feasible"] and row["check"]["violations"]


def test_missing_data_are_said_in_a_row_and_in_a_line(tmp_path: Path) -> None:
    missing = spec(1, "file", path="or/none.txt", format="mmkp")
    assert "no data folder" in run_cell(cell(SOLVERS[OURS], missing))["told"]
    row = run_cell(cell(SOLVERS[OURS], missing, data=str(tmp_path)))
    assert row["termination"] == "no_data" and row["told"].endswith("none.txt")
    told = CliRunner().invoke(main, ["list", "--quick", "--data", str(tmp_path)])
    assert "without files, so not run: summit-events" in told.stderr
    assert missing_data(Selection()) == list(PUBLISHED)


def test_a_row_has_its_phases_its_trace_and_nothing_about_the_host(root: Path) -> None:
    instance = InstanceSpec(
        family="gap_filling",
        set_name="events",
        name="a",
        maker="event",
        arguments=(("seed", 3), ("jobs", 3), ("nodes", 9)),
    )
    row = run_cell(cell(SOLVERS["apportion:highs"], instance))
    phases = row["phases"]
    assert {"read", "compile", "hand_over", "solve", "check"} <= set(phases)
    assert sum(phases.values()) - phases["read"] == pytest.approx(row["seconds"], rel=0.2)
    assert row["seconds"] == min(row["samples"]) and len(row["samples"]) == 5
    assert len(row["cpu_samples"]) == 5 and min(row["cpu_samples"]) > 0
    assert row["trace"][-1][1] == pytest.approx(row["objective"]) and row["peak_mib"] > row["base_mib"] > 0
    assert row["verified_bound"] >= row["objective"] * (1 - 1e-9) and row["maximizes"] is True
    assert row["versions"]["highspy"] and row["machine"]["cores"] >= 1
    text = json.dumps(row)
    assert str(root) not in text and str(Path.home()) not in text
    assert len(platform.node()) < 5 or platform.node() not in text


def test_processor_seconds_count_children_that_live_and_that_ended() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\n"
    before = ChildrenClock.now()
    with subprocess.Popen(
        [sys.executable, "-c", busy + "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        between = ChildrenClock.now()
        assert between.since(before) >= 0.3
        child.communicate(b"\n")
    assert ChildrenClock.now().since(before) >= 0.3
    # what it took before that moment is not counted again where it ends
    assert ChildrenClock.now().since(between) < 0.3


def first_cells_of_peers() -> list[Cell]:
    first: dict[str, Cell] = {}
    for candidate in cells_of(Selection(quick=True, only=("*",))):
        first.setdefault(candidate.solver.name, candidate)
    peers = [c for c in first.values() if not c.solver.ours]
    assert {c.solver.name for c in peers} == {name for name, s in SOLVERS.items() if not s.ours}
    return peers


@pytest.mark.slow
def test_every_peer_that_is_installed_agrees_with_the_exact_answer() -> None:
    assert_exact(first_cells_of_peers())


@pytest.mark.slow
def test_two_peers_agree_with_the_exact_answer() -> None:
    two = [c for c in first_cells_of_peers() if c.solver.name in ("scipy-milp", "ortools-knapsack")]
    assert len(two) == 2
    assert_exact(two)


def assert_exact(peers: list[Cell]) -> None:
    exact = {c.key: Cell(instance=c.instance, solver=SOLVERS[OURS], limit_s=5.0) for c in peers}
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(run_cell, peers))
        known = dict(zip(exact, pool.map(run_cell, exact.values()), strict=True))
    for position, row in enumerate(rows):
        # the clock of a busy machine ended it without a plan: once more, with time enough
        if row["termination"] in ("killed", "time_limit") and row.get("check") is None:
            rows[position] = run_cell(replace(peers[position], limit_s=120.0))
    for given, row in zip(peers, rows, strict=True):
        if row["termination"] == "unavailable":
            assert "not installed" in row["told"]
            continue
        if row["termination"] == "cannot_take":  # its own tests ask it about what it takes
            assert row["told"], given.key
            continue
        if given.solver.name == "leximin-milps+highs" and row["check"] is None:
            # its sequence of programs has no plan before the last one; test_leximin_milps compares its levels
            assert row["termination"] == "time_limit"
            continue
        reference = known[given.key]["objective"]
        assert row["check"]["feasible"], row["key"]
        if row["termination"] == "optimal":
            assert row["objective"] == pytest.approx(reference, rel=1e-6), row["key"]
        else:
            assert row["objective"] <= reference * (1 + 1e-9) or not row["maximizes"], row["key"]


def test_the_quick_suite_covers_every_family_and_every_solver() -> None:
    cells = cells_of(Selection(quick=True))
    assert {c.instance.family for c in cells} == set(FAMILIES)
    assert {c.solver.name for c in cells} == set(SOLVERS)
    keys = [c.key for c in cells]
    assert len(set(keys)) == len(keys)
    for family in FAMILIES:
        declared = {name for name, s in SOLVERS.items() if family in s.families}
        assert {c.solver.name for c in cells if c.instance.family == family} == declared


def test_an_unknown_executor_is_refused(tmp_path: Path) -> None:
    arguments = ["run", "--only", "events/5-25-s0", "--only", OURS, "--out", str(tmp_path / "rows")]
    done = CliRunner().invoke(main, [*arguments, "--executor", "carrier-pigeon"])
    assert done.exit_code == 2 and "executor must be" in done.output
    assert not (tmp_path / "rows").exists()


def test_patterns_choose_instances_and_solvers() -> None:
    chosen = cells_of(Selection(only=("sia", "events/5-*", "scipy-*", OURS)))
    assert {c.instance.set_name for c in chosen} == {"sia-rounds", "events"}
    assert {c.solver.name for c in chosen} == {"scipy-milp", OURS}
    with pytest.raises(UnknownPattern, match="no solver"):
        cells_of(Selection(only=("no-such-thing",)))
    assert CliRunner().invoke(main, ["list", "--only", "nothing"]).exit_code == 2


def test_published_instances_come_with_what_is_known_of_them(data: Path) -> None:
    cells = cells_of(Selection(data=data, only=("orlib-*", "mmkp-files", "rcmax-files", OURS)))
    known = [c for c in cells if c.instance.best_known is not None]
    assert len(cells) > 80 and len(known) / len(cells) > 0.9
    for c in known:
        if c.instance.name.startswith("c") and c.instance.set_name == "orlib-gap":
            made = make(c.instance.maker, dict(c.instance.arguments), str(data))
            assert c.instance.name == f"c{len(made.machines):02d}{len(made.jobs)}", "files list 5x100, 5x200"
    row = run_cell(next(c for c in known if c.instance.name == "assign100"))
    assert row["objective"] == row["best_known"] == 305.0
    assert missing_data(Selection(data=data)) == []
