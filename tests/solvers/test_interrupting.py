"""Ctrl-C during a native solve in this process: the incumbent comes back, and Ctrl-C works afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from apportion.solvers.general.guard import interruptibly

SCRIPT = """
import os, signal, sys, threading, time
sys.path[:0] = [{root!r}, {root!r} + "/src"]
from apportion.core.options import SolveOptions
from tests.patience import patience
from tests.solvers.conformance import BACKENDS, hard_knapsack, small
backend = next(b for b in BACKENDS if b.name == {backend!r})
backend.solve(small(), SolveOptions(), None)
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.perf_counter()
model = hard_knapsack(columns=120, rows=10)
outcome = backend.solve(model, SolveOptions(time_limit=30.0), None)
assert time.perf_counter() - began < patience(10.0), outcome
assert outcome.termination == "interrupted", outcome
assert outcome.objective is not None and model.check(outcome.point).feasible, outcome
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("heard")
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["highs", "cp-sat", "scip"])
def test_ctrl_c_returns_the_incumbent_and_still_works_afterwards(root: Path, backend: str) -> None:
    """SCIP used to run on to its limit; after CP-SAT the next Ctrl-C used to end the process."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(root=str(root), backend=backend)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "heard\n"), run.stderr


def test_results_and_errors_pass() -> None:
    assert interruptibly(lambda: 3, lambda: None) == (3, False)
    with pytest.raises(KeyboardInterrupt):  # the call's own, not a signal
        interruptibly(lambda: exec("raise KeyboardInterrupt"), lambda: None)


def test_other_threads_just_call() -> None:
    told: list[object] = []
    thread = threading.Thread(
        target=lambda: told.append(interruptibly(threading.current_thread, lambda: None)[0])
    )
    thread.start()
    thread.join()
    assert told == [thread]


NATIVE = """
import signal, sys, threading, time
sys.path.insert(0, {root!r} + "/src")
from apportion.solvers.general.guard import interruptibly
stopped = threading.Event()
def call():
    time.sleep(0.05)
    signal.raise_signal(signal.SIGINT)
    return "stopped" if stopped.wait(60.0) else "not stopped"
print(interruptibly(call, stopped.set))
"""


def test_a_signal_received_by_the_native_thread_stops_it(root: Path) -> None:
    """In a process of its own: a test's thread need not be the main one, and Ctrl-C would end the worker."""
    source = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + NATIVE.format(
        root=str(root)
    )
    run = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=300, check=False
    )
    assert (run.returncode, run.stdout) == (0, "('stopped', True)\n"), run.stderr
