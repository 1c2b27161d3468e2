"""Whatever happens to the child process, the caller has a valid incumbent, in time, and is told why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.core.errors import BackendUnavailable
from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import LinearModel
from apportion.solvers.isolation import isolated
from apportion.solvers.isolation.isolated import Child
from tests.patience import patience
from tests.solvers.conformance import BACKENDS, Backend, hard_knapsack, small

LATE = 0.25
"""Seconds after the limit by which every call must have returned."""
STREAMING = [backend for backend in BACKENDS if backend.streams]
BAD = "tests.solvers.misbehaving:"
HIGHS = "apportion.solvers.general.highs:solve"


@pytest.fixture
def child() -> Iterator[Child]:
    one = Child()
    yield one
    one.close()


@pytest.fixture(scope="module")
def hard() -> LinearModel:
    return hard_knapsack(columns=120, rows=10)


def entry(backend: Backend) -> str:
    """Return how a child calls a backend."""
    return f"{backend.module}:solve"


def timed(child: Child, function: str, model: LinearModel, limit: float, **more: Any) -> Outcome:
    """Solve and hold the deadline."""
    began = time.perf_counter()
    outcome = child.solve(
        function, model, SolveOptions(time_limit=limit), np.zeros(model.num_columns), **more
    )
    assert time.perf_counter() - began <= patience(limit + LATE)
    return outcome


def assert_incumbent(model: LinearModel, outcome: Outcome) -> None:
    assert outcome.point is not None
    report = model.check(outcome.point)
    assert report.feasible
    assert outcome.objective == report.objective


def warm(child: Child, backend: Backend) -> None:
    """Let the child import the backend."""
    outcome = child.solve(entry(backend), small(), SolveOptions(time_limit=60.0), None, backend.extra)
    assert outcome.termination is Termination.OPTIMAL


@pytest.mark.one_in(4)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_the_deadline_is_kept_cold_and_warm(backend: Backend, child: Child, hard: LinearModel) -> None:
    for limit in (0.01, 0.05, 0.2):
        assert_incumbent(hard, timed(child, entry(backend), hard, limit, extra=backend.extra))
    warm(child, backend)
    for limit in (0.01, 0.1, 0.5):
        outcome = timed(child, entry(backend), hard, limit, extra=backend.extra)
        assert_incumbent(hard, outcome)
        assert outcome.termination is Termination.TIME_LIMIT


def test_a_start_too_short_to_load_the_solver_is_not_wasted(child: Child) -> None:
    """The child goes on importing while calls run out of time, and answers once it is ready."""
    deadline = time.monotonic() + patience(60.0)
    cp_sat = "apportion.solvers.general.cp_sat:solve"
    outcome = timed(child, cp_sat, small(), 0.05)
    first = child.pid
    while outcome.termination is not Termination.OPTIMAL and time.monotonic() < deadline:
        outcome = timed(child, cp_sat, small(), patience(0.1))
    assert outcome.termination is Termination.OPTIMAL
    assert child.pid == first


def test_an_import_that_ends_during_another_backends_call_is_noted(child: Child) -> None:
    """Else the slow one would be waited for in every later call, until its limit."""
    warm(child, BACKENDS[0])
    slow = "tests.solvers.slow_to_load:solve"
    cut = child.solve(slow, small(), SolveOptions(time_limit=0.01), None)
    assert cut.termination is Termination.TIME_LIMIT
    warm(child, BACKENDS[0])  # its answer comes behind the word that the slow one is loaded
    limit = patience(10.0)
    assert child.solve(slow, small(), SolveOptions(time_limit=limit), None).termination is Termination.OPTIMAL


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", STREAMING, ids=lambda backend: backend.name)
def test_killed_at_a_random_moment(backend: Backend, child: Child, hard: LinearModel) -> None:
    warm(child, backend)
    rng = np.random.default_rng(5)
    for delay in rng.uniform(0.0, 0.5, 2):
        pid = child.pid
        assert pid is not None
        killer = threading.Timer(float(delay), os.kill, (pid, signal.SIGKILL))
        killer.start()
        began = time.perf_counter()
        outcome = child.solve(entry(backend), hard, SolveOptions(time_limit=8.0), np.zeros(hard.num_columns))
        killer.join()
        assert time.perf_counter() - began < patience(delay + 1.0)
        assert_incumbent(hard, outcome)
        assert outcome.termination is Termination.ERROR
        assert "SIGKILL" in outcome.raw_status
        warm(child, backend)
        assert child.pid != pid


def test_killed_between_two_calls(child: Child) -> None:
    warm(child, BACKENDS[0])
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    warm(child, BACKENDS[0])


@pytest.mark.parametrize("columns", [3, 20_000], ids=["small", "more than a pipe holds"])
def test_a_stopped_child_does_not_delay_the_answer(child: Child, columns: int) -> None:
    """It reads nothing: handing over a large model used to wait for it for ever."""
    child.solve(HIGHS, small(), SolveOptions(time_limit=20.0), None)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    model = hard_knapsack(columns=columns)
    began = time.perf_counter()
    outcome = child.solve(HIGHS, model, SolveOptions(time_limit=0.3), np.zeros(columns))
    assert time.perf_counter() - began < patience(0.3 + LATE)
    assert outcome.termination is Termination.TIME_LIMIT
    assert outcome.objective == 0.0
    assert child.solve(HIGHS, small(), SolveOptions(time_limit=20.0), None).termination is Termination.OPTIMAL


def test_memory_runs_out() -> None:
    child = Child(memory_bytes=2**30)
    try:
        outcome = child.solve(BAD + "eats_memory", small(), SolveOptions(time_limit=30.0), None)
        assert outcome.termination is Termination.MEMORY_LIMIT
        assert outcome.raw_status
        assert_incumbent(small(), outcome)
        outcome = child.solve(BAD + "good", small(), SolveOptions(time_limit=30.0), None)
        assert outcome.raw_status == "good"
    finally:
        child.close()


def test_too_little_memory_to_start() -> None:
    child = Child(memory_bytes=8 * 2**20)
    try:
        start = np.zeros(3)
        outcome = child.solve(BAD + "good", small(), SolveOptions(time_limit=30.0), start)
        assert outcome.termination in (Termination.ERROR, Termination.MEMORY_LIMIT)
        assert "memory is limited" in outcome.raw_status
        assert_incumbent(small(), outcome)
    finally:
        child.close()


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("returns_text", "returned str"),
        ("returns_none", "returned NoneType"),
        ("returns_wrong_fields", "returned Outcome"),
        ("returns_a_wrong_point", "not finite numbers"),
        ("returns_a_point_of_a_wrong_shape", "must be float64 [3]"),
        ("returns_what_cannot_be_pickled", "unsendable answer"),
        ("returns_what_cannot_be_unpickled", "unreadable answer"),
        ("raises", "the solver crashed"),
        ("raises_what_cannot_be_pickled", "unsendable answer"),
        ("exits", "code 3"),
        ("exits_politely", "SystemExit"),
        ("crashes", "SIGSEGV"),
        ("streams_garbage", "after garbage"),
        ("no_such_function", "AttributeError"),
    ],
)
def test_garbage(child: Child, function: str, told: str) -> None:
    start = np.array([0.0, 1.0, 0.0])
    outcome = child.solve(BAD + function, small(), SolveOptions(time_limit=30.0), start)
    assert outcome.termination is Termination.ERROR
    assert told in outcome.raw_status
    assert outcome.objective == 4.0
    assert outcome.bound is None
    assert_incumbent(small(), outcome)
    again = child.solve(BAD + "good", small(), SolveOptions(time_limit=30.0), None)
    assert again.raw_status == "good"


def test_an_infeasible_answer_does_not_replace_the_incumbent(child: Child) -> None:
    start = np.array([0.0, 1.0, 0.0])
    outcome = child.solve(BAD + "returns_an_infeasible_point", small(), SolveOptions(time_limit=30.0), start)
    assert_incumbent(small(), outcome)


@pytest.mark.parametrize("function", ["never_returns", "ignores_signals_and_spins"])
def test_never_returning(child: Child, function: str) -> None:
    child.solve(BAD + "good", small(), SolveOptions(time_limit=30.0), None)
    outcome = timed(child, BAD + function, small(), 0.2)
    assert outcome.termination is Termination.TIME_LIMIT
    assert_incumbent(small(), outcome)
    assert child.pid is None
    again = child.solve(BAD + "good", small(), SolveOptions(time_limit=30.0), None)
    assert again.raw_status == "good"


def test_an_error_on_purpose_propagates_and_leaves_the_child(child: Child) -> None:
    with pytest.raises(BackendUnavailable) as first:
        child.solve(BAD + "says_its_path", small(), SolveOptions(time_limit=30.0), None)
    assert str(child.pid) == str(first.value)
    with pytest.raises(BackendUnavailable) as second:
        child.solve(BAD + "says_its_path", small(), SolveOptions(time_limit=30.0), None)
    assert str(first.value) == str(second.value)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("limit", [None, 20.0])
def test_ctrl_c_returns_the_incumbent(child: Child, hard: LinearModel, limit: float | None) -> None:
    warm(child, BACKENDS[0])
    signal.setitimer(signal.ITIMER_REAL, 0.6)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        began = time.perf_counter()
        outcome = child.solve(HIGHS, hard, SolveOptions(time_limit=limit), np.zeros(hard.num_columns))
        assert time.perf_counter() - began < patience(0.6 + LATE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
    assert outcome.termination is Termination.INTERRUPTED
    assert outcome.objective is not None and outcome.objective > 0.0
    assert_incumbent(hard, outcome)
    warm(child, BACKENDS[0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", STREAMING, ids=lambda backend: backend.name)
def test_incumbents_are_relayed(backend: Backend, child: Child, hard: LinearModel) -> None:
    warm(child, backend)
    told: list[Incumbent] = []
    outcome = child.solve(entry(backend), hard, SolveOptions(time_limit=0.8, on_incumbent=told.append), None)
    assert told
    assert all(later.objective > earlier.objective for earlier, later in pairwise(told))
    assert outcome.objective is not None and outcome.objective >= told[-1].objective


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), OSError("no pipe"), EOFError(), KeyboardInterrupt()], ids=repr
)
def test_what_the_callback_raises_propagates(child: Child, hard: LinearModel, error: BaseException) -> None:
    def stop(incumbent: Incumbent) -> None:
        raise error

    began = time.perf_counter()
    with pytest.raises(type(error)) as caught:
        child.solve(HIGHS, hard, SolveOptions(time_limit=20.0, on_incumbent=stop), None)
    assert caught.value is error
    assert time.perf_counter() - began < patience(10.0)
    assert child.pid is None, "the abandoned solve is ended"


@pytest.mark.slow
def test_two_threads_on_one_child_keep_their_own_limits(child: Child, hard: LinearModel) -> None:
    warm(child, BACKENDS[0])
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(timed, child, HIGHS, hard, 1.5)
        time.sleep(0.2)
        short = pool.submit(timed, child, HIGHS, hard, 0.1)
        assert_incumbent(hard, short.result(timeout=300.0))
        assert short.result(timeout=300.0).raw_status == "the child process was busy"
        assert_incumbent(hard, long.result(timeout=300.0))


def test_threads_get_children_of_their_own() -> None:
    def answer(number: int) -> float | None:
        return isolated.solve(HIGHS, small(), SolveOptions(time_limit=30.0)).objective

    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(answer, range(8))) == {9.0}


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from tests.solvers.conformance import small, hard_knapsack
from apportion.core.options import SolveOptions
from apportion.solvers.isolation import isolated
print("once", flush=True)
"""


def script(tmp_path: Path, body: str) -> Path:
    file = tmp_path / "caller.py"
    file.write_text(SCRIPT.format(path=[entry for entry in sys.path if entry]) + body)
    return file


def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    """The child does not run the caller's script again, and leaves no warning at the end."""
    file = script(
        tmp_path,
        f'outcome = isolated.solve("{HIGHS}", small(), SolveOptions(time_limit=60))\n'
        "print(outcome.objective)\n",
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "once\n9.0\n", "")


def test_the_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    file = script(
        tmp_path,
        "import threading, time\n"
        "child = isolated.Child()\n"
        "def tell():\n"
        "    while child.pid is None: time.sleep(0.01)\n"
        "    time.sleep(1.0); print(child.pid, flush=True)\n"
        "threading.Thread(target=tell).start()\n"
        'child.solve("tests.solvers.misbehaving:never_returns", small(), SolveOptions(), None)\n',
    )
    with subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "once\n"
        orphan = int(parent.stdout.readline())
        os.kill(orphan, 0)
        parent.kill()
    for _ in range(200):
        if not _alive(orphan):
            return
        time.sleep(0.02)
    raise AssertionError(f"process {orphan} survived its parent")


def _alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
