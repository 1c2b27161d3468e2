"""What callers of ``solve-instance`` rely on: the object, the exit codes, a clean standard output."""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apportion.cli import running
from apportion.cli.solve_instance import main
from apportion.core.errors import BackendUnavailable
from apportion.core.outcome import Outcome, Termination
from apportion.instances.gap_filling.generator import generate
from tests.cli.calling import SOLVE, call, process
from tests.patience import patience, wait_until

FIELDS = tuple(
    """
    kind name backend termination solution objective bound gap reason verified_bound plan check certificate
    times versions seed
    """.split()  # noqa: SIM905
)

INFEASIBLE = {
    "kind": "multiple_choice_knapsack",
    "schema_version": "1",
    "sense": "maximize",
    "capacities": {"gpu": 1},
    "jobs": [{"id": "a", "required": True, "options": [{"id": "big", "value": 1.0, "uses": {"gpu": 2}}]}],
}


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, all threads together; /proc may not be read by everybody.

    The clock is what clock_getcpuclockid(3) gives for a process on Linux.
    """
    return time.clock_gettime((~pid << 3) | 2)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_bytes(msgspec.json.encode(generate(13, jobs=6, nodes=24, decided_ago_s=900)))
    return path


def test_the_object_has_the_documented_fields_in_their_order(small: Path) -> None:
    done = call(main, small, "--json", "--seed", 3)
    told = json.loads(done.out)
    assert done.code == 0
    assert tuple(told)[: len(FIELDS)] == FIELDS
    assert told["solution"] == "optimal" and told["seed"] == 3
    assert set(told["check"]) == {"feasible", "objective", "violations"}
    assert {"read", "compile", "solve", "check", "total"} <= set(told["times"])
    assert done.out.count("\n") == 1
    assert done.err == ""


def test_standard_input_and_a_file_give_the_same_plan(small: Path) -> None:
    by_path = json.loads(call(main, small, "--json").out)
    by_stdin = json.loads(call(main, "-", "--json", stdin=small.read_bytes()).out)
    assert by_path["plan"] == by_stdin["plan"]


def test_people_get_a_summary_and_a_table(small: Path) -> None:
    done = call(main, small)
    assert done.code == 0
    assert "termination     optimal" in done.out
    assert "24 of 24 idle nodes used" in done.out
    assert "j002-ResNet18" in done.out


def test_a_long_table_is_cut_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_bytes(msgspec.json.encode(generate(1, jobs=60, nodes=100)))
    out = call(main, path).out
    assert "and 30 jobs with fewer nodes; --json or -o FILE has the whole plan" in out
    assert len(out.splitlines()) < 50


def test_the_result_is_written_whole_beside_the_summary(small: Path, tmp_path: Path) -> None:
    done = call(main, small, "-o", tmp_path / "result.json")
    assert "termination" in done.out
    assert json.loads((tmp_path / "result.json").read_text())["solution"] == "optimal"
    assert {path.name for path in tmp_path.iterdir()} == {"small.json", "result.json"}


def test_out_dash_writes_only_the_object(small: Path) -> None:
    assert json.loads(call(main, small, "-o", "-").out)["kind"] == "gap_filling"


def test_a_result_and_a_bare_plan_start_the_next_solve(small: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    first = json.loads(call(main, small, "--json", "-o", result).out)
    (tmp_path / "plan.json").write_text(json.dumps(first["plan"]))
    for start in ("result.json", "plan.json"):
        again = json.loads(call(main, small, "--json", "--warm-start", tmp_path / start).out)
        assert again["objective"] == first["objective"]
        assert again["notes"] == []


def test_a_malformed_warm_start_is_an_invalid_input(small: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[1")
    done = call(main, small, "--warm-start", tmp_path / "bad.json")
    assert (done.code, done.out) == (3, "")
    assert "warm start $: the JSON text is truncated" in done.err


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_the_plan_is_drawn(small: Path, tmp_path: Path, suffix: str) -> None:
    assert call(main, small, "--plot", tmp_path / f"plan.{suffix}").code == 0
    assert "<svg" in (tmp_path / f"plan.{suffix}").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Missing argument"),
        (("SMALL", "--gap", "-1"), 2, "gap must be"),
        (("SMALL", "--threads", "zero"), 2, "threads"),
        (("SMALL", "--time-limit", "soon"), 2, "neither a number nor none"),
        (("SMALL", "--time-limit", "0"), 2, "time_limit must be"),
        (("SMALL", "--formulation", "magic"), 2, "formulation must be one of by_count"),
        (("SMALL", "--plot", "plan.gif"), 2, "FILE.svg, .html, .png or .pdf"),
        (("SMALL", "--format", "cobol"), 2, "format must be one of"),
        (("SMALL", "--index", "1"), 2, "index does not apply to JSON"),
        (("SMALL", "--out", "nowhere/at/all.json"), 2, "its folder does not exist"),
        (("missing.json",), 2, "No such file"),
        ((".",), 2, "Is a directory"),
        (("SMALL", "--backend", "abacus"), 7, "there is no backend 'abacus'"),
    ],
)
def test_usage_errors_say_what_to_do(
    small: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = call(main, *(small if argument == "SMALL" else argument for argument in arguments))
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_an_invalid_instance_is_3_with_every_problem_and_nothing_on_stdout() -> None:
    done = call(
        main, "-", "--json", stdin=b'{"kind":"gap_filling","schema_version":"1","nodes":[],"jobs":[5]}'
    )
    assert (done.code, done.out) == (3, "")
    assert "$.horizon_s: is missing" in done.err
    assert "$.jobs[0]: must be an object, not 5" in done.err


def test_many_problems_are_counted_not_all_shown() -> None:
    bad = {"kind": "gap_filling", "schema_version": "1", "horizon_s": 1, "nodes": [0] * 500, "jobs": []}
    lines = call(main, "-", stdin=json.dumps(bad).encode()).err.splitlines()
    assert len(lines) == 51
    assert lines[-1].endswith("and 450 more problems; `apportion validate` lists them all")


def test_proven_infeasible_is_4_and_still_tells_the_object() -> None:
    done = call(main, "-", "--json", stdin=json.dumps(INFEASIBLE).encode())
    told = json.loads(done.out)
    assert done.code == 4
    assert (told["termination"], told["solution"], told["plan"]) == ("infeasible", "none", None)
    human = call(main, "-", "--plot", "unused.svg", stdin=json.dumps(INFEASIBLE).encode())
    assert human.code == 4
    assert "no plan" in human.out
    assert "no plan to draw" in human.err


def _backend(monkeypatch: pytest.MonkeyPatch, outcome: Outcome | BaseException) -> None:
    def solve(*_: Any, **__: Any) -> Outcome:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr("apportion.solvers.exact.solve", solve)


@pytest.mark.parametrize(
    ("termination", "code"),
    [
        (Termination.TIME_LIMIT, 5),
        (Termination.NODE_LIMIT, 5),
        (Termination.MEMORY_LIMIT, 5),
        (Termination.SOLUTION_LIMIT, 5),
        (Termination.INFEASIBLE, 4),
        (Termination.UNBOUNDED, 1),
        (Termination.INFEASIBLE_OR_UNBOUNDED, 1),
        (Termination.NUMERICAL_ERROR, 1),
        (Termination.ERROR, 1),
        (Termination.INTERRUPTED, 130),
        (Termination.OPTIMAL, 1),
        (Termination.GAP_REACHED, 1),
    ],
)
def test_every_termination_without_a_plan_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, termination: Termination, code: int
) -> None:
    assert {entry[0] for entry in _CODES} == set(Termination)
    path = tmp_path / "large.json"  # too large to be decided in whole numbers where the backend gives up
    path.write_bytes(msgspec.json.encode(generate(13, jobs=60, nodes=24)))
    _backend(monkeypatch, Outcome(termination=termination, raw_status="made up"))
    done = call(main, path, "--json")
    assert done.code == code
    assert json.loads(done.out)["solution"] == "none"


_CODES = test_every_termination_without_a_plan_has_its_code.pytestmark[0].args[1]  # type: ignore[attr-defined]


def test_interrupted_is_130_and_the_incumbent_is_written(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = json.loads(call(main, small, "--json", "-o", tmp_path / "first.json").out)
    _backend(monkeypatch, KeyboardInterrupt())
    done = call(
        main, small, "--json", "--warm-start", tmp_path / "first.json", "-o", tmp_path / "second.json"
    )
    assert done.code == 130
    for told in (json.loads(done.out), json.loads((tmp_path / "second.json").read_text())):
        assert (told["termination"], told["plan"]) == ("interrupted", first["plan"])


def test_a_missing_backend_is_7(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _backend(monkeypatch, BackendUnavailable("backend 'exact' needs luck"))
    done = call(main, small)
    assert (done.code, done.out, done.err) == (7, "", "solve-instance: backend 'exact' needs luck\n")


def test_an_unexpected_error_is_one_line_and_its_traceback_only_on_request(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apportion.io.stored.document", lambda *_: 1 / 0)
    done = call(main, small)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1 and "ZeroDivisionError" in done.err
    monkeypatch.setenv("APPORTION_DEBUG", "1")
    assert "Traceback" in call(main, small).err


def test_a_name_cannot_forge_a_line_of_the_messages() -> None:
    bad = {"kind": "gap_filling", "x\nsolve-instance: all is well": 1}
    err = call(main, "-", stdin=json.dumps(bad).encode()).err
    assert not any(line == "solve-instance: all is well" for line in err.splitlines())


def test_native_printing_stays_out_of_the_object(small: Path, root: Path) -> None:
    noisy = (
        "import os, apportion.solvers.exact as e; own = e.solve\n"
        "def solve(*a, **k):\n"
        "    os.write(1, b'banner of a native solver'); print('and of Python')\n"
        "    return own(*a, **k)\n"
        "e.solve = solve\n"
    )
    done = process(root, noisy + SOLVE, small, "--json")
    assert done.returncode == 0
    assert b"banner of a native solver" in done.stderr and b"and of Python" in done.stderr
    assert json.loads(done.stdout)["solution"] == "optimal"


def test_the_exact_path_loads_no_solver_package(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "summit_like.json"
    path.write_bytes(msgspec.json.encode(generate(2021, jobs=30, nodes=500)))
    told = (
        "import sys\ntry:\n    from apportion.cli.solve_instance import main; main()\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = process(root, told, path, "--json")
    assert json.loads(done.stdout)["solution"] == "optimal"
    loaded = set(done.stderr.decode().split())
    assert "apportion.solvers.exact" in loaded
    heavy = (
        "ortools",
        "highspy",
        "scipy",
        "pandas",
        "pyomo",
        "networkx",
        "rich",
        "jsonschema_rs",
        "hypothesis",
    )
    assert not loaded & set(heavy)


@pytest.mark.slow
def test_a_whole_process_answers_30_jobs_on_500_nodes_in_0_6_s(tmp_path: Path, root: Path) -> None:

    path = tmp_path / "summit_like.json"
    path.write_bytes(msgspec.json.encode(generate(2021, jobs=30, nodes=500)))
    spent = []
    for _ in range(5):
        began = time.perf_counter()
        assert process(root, SOLVE, path, "--json").returncode == 0
        spent.append(time.perf_counter() - began)
    assert min(spent) < patience(0.6)


def test_a_closed_pipe_is_no_error(small: Path, root: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", SOLVE, str(small), "--json"],
            stdout=writing,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(root / "src")},
            timeout=300,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_version_and_help(root: Path) -> None:
    assert call(main, "--version").out.startswith("solve-instance, version ")
    assert "Exit codes: 0 a solution" in " ".join(call(main, "--help").out.split())
    told = process(
        root,
        "import sys\ntry:\n    " + SOLVE + "\nfinally:\n    print('numpy' in sys.modules, file=sys.stderr)",
        "-h",
    )
    assert told.stderr == b"False\n"


def test_progress_is_shown_on_a_terminal_only(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apportion.core.options import Incumbent

    monkeypatch.setattr(running, "_PATIENCE_S", 0.0)
    monkeypatch.setenv("NO_COLOR", "1")
    assert running.Progress(True).callback is None  # standard error is no terminal here
    importlib.import_module("rich.progress")  # it may take longer than the call

    def solve(*_: Any, **options: Any) -> Any:

        options["on_incumbent"](Incumbent(12.0, 13.0, 0.1))
        time.sleep(patience(0.6))
        raise BackendUnavailable("enough")

    monkeypatch.setattr("apportion.solving.api.solve", solve)
    shown = call(main, small, terminal=True)
    assert "objective 12, bound 13" in shown.err
    assert "\x1b[3" not in shown.err  # NO_COLOR


def test_ctrl_c_ends_a_running_solve_with_130_and_its_incumbent(tmp_path: Path, root: Path) -> None:
    import signal

    import numpy as np

    rng = np.random.default_rng(0)
    uses = rng.integers(1, 60, (200, 5, 10)).tolist()
    hard = {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {f"c{k}": 1500 for k in range(10)},
        "jobs": [
            {
                "id": f"j{job}",
                "required": False,
                "options": [
                    {
                        "id": f"o{i}",
                        "value": 100.0 + row[0],
                        "uses": {f"c{k}": use for k, use in enumerate(row)},
                    }
                    for i, row in enumerate(menu)
                ],
            }
            for job, menu in enumerate(uses)
        ],
    }
    path, began = tmp_path / "hard.json", time.perf_counter()
    path.write_text(json.dumps(hard))
    running = subprocess.Popen(
        [sys.executable, "-c", SOLVE, str(path), "--json", "--time-limit", "40"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
    )
    assert wait_until(lambda: cpu_seconds(running.pid) > 2.0, 60.0)  # imported, and searching
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, b"")
    told = json.loads(out)
    assert (told["termination"], told["check"]["feasible"]) == ("interrupted", True)
    assert time.perf_counter() - began < patience(30)


def test_an_answer_that_is_cut_off_is_an_error(root: Path, tmp_path: Path) -> None:
    """An unbuffered stream takes what fits; the rest of a full disk's answer was lost with exit code 0."""
    out = tmp_path / "out.json"
    with out.open("wb") as stream:
        done = subprocess.run(
            [sys.executable, "-u", "-m", "apportion", "solve", "examples/gap_filling_small.json", "--json"],
            cwd=root,
            stdout=stream,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)),
            check=False,
        )
    assert out.stat().st_size == 500
    assert done.returncode != 0 and b"standard output" in done.stderr
