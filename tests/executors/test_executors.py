"""Executors: rows in order, errors kept, and workers that are killed in the middle."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.core.errors import BackendUnavailable, InvalidOption
from apportion.scale.dask_cluster import remote_dask
from apportion.scale.executors import SurvivingPool, WorkerDied, as_done, in_order, open_executor
from tests.patience import patience

AHEAD = 8
"""Calls handed out beyond the row that is waited for."""


def logged(index: int, log: str) -> tuple[int, int]:
    """Note start and end in a file; lines this short are appended whole."""
    with Path(log).open("a") as file:
        file.write(f"start {index}\n")
    time.sleep(0.05)
    with Path(log).open("a") as file:
        file.write(f"end {index}\n")
    return index, os.getpid()


def troubled(index: int, poison: int, error: int) -> int:
    if index == poison:
        os._exit(3)
    if index == error:
        raise ValueError(f"item {index}")
    return index * index


def square(index: int) -> int:
    return index * index


def deadly_once(marker: str) -> str:
    if not Path(marker).exists():
        Path(marker).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@pytest.fixture(scope="module", params=["process:2", "dask:2"])
def two_workers(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param.startswith("dask"):
        pytest.importorskip("distributed", reason="the extra apportion[dask] is not installed")
    with open_executor(request.param) as executor:
        yield executor


@pytest.mark.one_in(2)
def test_a_killed_worker_loses_no_row_and_repeats_no_finished_one(two_workers: Any, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    rows: dict[int, Any] = {}
    finished_before: set[int] = set()
    workers: set[int] = set()
    end = time.monotonic() + 240.0

    def calls() -> Iterator[tuple[int, str]]:
        """Forty calls, and more until the new worker, which takes its time to start, has answered one."""
        for index in itertools.count():
            if index >= 40 and (len(workers) >= 3 or time.monotonic() > end):
                return
            yield index, log

    for row in as_done(two_workers, logged, calls(), ahead=AHEAD):
        assert row.index not in rows
        rows[row.index] = row
        workers.add(row.require()[1])
        if len(rows) == 10:
            os.kill(row.require()[1], signal.SIGKILL)
            finished_before = set(rows)
    assert sorted(rows) == list(range(len(rows))) and len(rows) >= 40
    assert all(row.require()[0] == index for index, row in rows.items())
    assert len(workers) >= 3  # two workers and a new one
    lines = Path(log).read_text().split("\n")
    starts = Counter(int(line.split()[1]) for line in lines if line.startswith("start"))
    assert set(starts) == set(rows)
    repeated = {index for index, count in starts.items() if count > 1}
    assert not repeated & finished_before
    # what the worker that died had under way, and answers that it had not handed over
    assert len(repeated) <= AHEAD


@pytest.mark.one_in(2)
def test_a_call_that_kills_its_workers_becomes_an_error_and_the_others_do_not(two_workers: Any) -> None:
    rows = list(in_order(two_workers, troubled, ((index, 5, 7) for index in range(12)), ahead=6))
    assert [row.index for row in rows] == list(range(12))
    assert isinstance(rows[5].error, WorkerDied)
    assert isinstance(rows[7].error, ValueError)
    assert [row.value for row in rows if row.error is None] == [i * i for i in range(12) if i not in (5, 7)]


@pytest.mark.one_in(2)
def test_a_call_whose_worker_dies_once_is_answered(two_workers: Any, tmp_path: Path) -> None:
    assert two_workers.submit(deadly_once, str(tmp_path / "marker")).result(timeout=300.0) == "alive"


@pytest.mark.slow
def test_a_worker_that_is_slow_to_start_again_is_waited_for(tmp_path: Path) -> None:
    dask = pytest.importorskip("dask", reason="the extra apportion[dask] is not installed")
    # what a machine that is too busy does to the usual 15 s
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}),
        open_executor("dask:1") as executor,
    ):
        assert executor.submit(deadly_once, str(tmp_path / "marker")).result(timeout=300.0) == "alive"


def test_instances_solved_on_two_workers_are_those_solved_here(two_workers: Any) -> None:
    rng = np.random.default_rng(4)
    models = [
        apportion.MultipleChoiceKnapsack.from_arrays(
            rng.random(40), rng.integers(1, 9, 40), np.arange(0, 41, 4), [20]
        )
        for _ in range(9)
    ]
    here = [solution.objective for solution in apportion.solve_many(models)]
    there = [solution.objective for solution in apportion.solve_many(iter(models), two_workers, ahead=3)]
    assert here == there


def test_an_error_ends_many_solves_or_takes_its_place() -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays([3.0], [2], [0, 1], [3])
    mixed = [model, "not an instance", model]
    kept = list(apportion.solve_many(mixed, return_exceptions=True))
    assert [isinstance(one, Exception) for one in kept] == [False, True, False]
    stream = apportion.solve_many(mixed)
    assert next(stream).objective == 3.0
    with pytest.raises(Exception, match="str"):
        next(stream)


def test_items_are_read_only_a_little_ahead() -> None:
    read: list[int] = []

    def items() -> Iterator[tuple[int]]:
        for index in range(100):
            read.append(index)
            yield (index,)

    with ThreadPoolExecutor(2) as threads:
        for rows in (in_order(threads, square, items(), ahead=4), as_done(threads, square, items(), ahead=4)):
            read.clear()
            for taken, _ in enumerate(rows, start=1):
                assert len(read) <= taken + 4
            assert len(read) == 100


def test_leaving_early_cancels_what_waits(tmp_path: Path) -> None:
    with open_executor("process:1") as executor:
        log = str(tmp_path / "log")
        for row in in_order(executor, logged, ((index, log) for index in range(50)), ahead=50):
            if row.index == 1:
                break
    assert Path(log).read_text().count("start") <= 8


def test_a_closed_pool_takes_nothing() -> None:
    pool = SurvivingPool(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(square, 2)


@pytest.mark.parametrize(
    "name", ["", "processes", "process:0", "process:x", "dask:", "dask://", "dask://host"]
)
def test_a_wrong_name_says_what_is_right(name: str) -> None:
    with pytest.raises(InvalidOption, match="dask://HOST:PORT"), open_executor(name):
        pass


def test_an_executor_that_is_given_stays_open() -> None:
    with ThreadPoolExecutor(1) as threads:
        with open_executor(threads) as same:
            assert same is threads
        assert threads.submit(square, 3).result(timeout=60.0) == 9
    with open_executor(None) as nothing:
        assert nothing is None


def test_an_absent_scheduler_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra apportion[dask] is not installed")
    with (
        pytest.raises(BackendUnavailable, match=r"no dask scheduler answers at 127\.0\.0\.1:9") as caught,
        remote_dask("127.0.0.1:9", timeout_s=0.5),
    ):
        pass
    assert caught.value.exit_code == 7
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'apportion\[dask\]'"), open_executor("dask:1"):
        pass


def test_a_cluster_that_already_runs_is_used_and_left_running() -> None:
    distributed = pytest.importorskip("distributed", reason="the extra apportion[dask] is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        for _ in range(2):
            with open_executor(cluster.scheduler_address.replace("tcp", "dask")) as executor:
                assert [row.value for row in in_order(executor, square, ((i,) for i in range(3)))] == [
                    0,
                    1,
                    4,
                ]


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, signal\n"
        "from apportion.scale.executors import open_executor\n"
        "if __name__ == '__main__':\n"
        "    with open_executor('process:1') as executor:\n"
        "        print(executor.submit(os.getpid).result(), flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    source = str(Path(apportion.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    worker = int(run.stdout)
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline and _alive(worker):
        time.sleep(0.05)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_function_that_processes_cannot_import_is_refused_at_once() -> None:
    program = (
        "from apportion.scale.executors import open_executor\n"
        "def call(): return 1\n"
        "with open_executor('process:1') as executor:\n"
        "    executor.submit(call)\n"
    )
    source = str(Path(apportion.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, "-"],
        input=program,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "cannot import call from __main__" in run.stderr


def test_a_dask_client_given_as_executor_is_told_what_to_give() -> None:
    """It was "must be a name, an Executor or None", which a Client looks like."""

    class Client:
        def get_executor(self) -> None: ...

    with (
        pytest.raises(InvalidOption, match=r"a dask Client gives one: client.get_executor\(\)"),
        open_executor(Client()),  # type: ignore[arg-type]
    ):
        pass


@pytest.mark.one_in(4)
@pytest.mark.parametrize("executor", ["process:2", "dask:2"])
@pytest.mark.parametrize("mark", ["", "print(__name__)\n"])
def test_a_program_without_a_main_guard_fails_and_says_why(tmp_path: Path, executor: str, mark: str) -> None:
    """It waited for ever: every worker ran the program again and wanted workers of its own."""
    if executor.startswith("dask") and mark:
        return  # dask's own processes say it, in their own time
    script = tmp_path / "program.py"
    script.write_text(
        f"import apportion\n{mark}"
        "models = [apportion.MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])] * 2\n"
        f"print(list(apportion.solve_many(models, executor={executor!r})))\n"
    )
    source = str(Path(apportion.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120.0),
    )
    assert run.returncode == 1
    assert 'what it does must stand under if __name__ == "__main__":' in run.stderr
