"""Run a cell in a process of its own under a hard limit; a crash, a kill or a hang is a row like any."""

from __future__ import annotations

import contextlib
import datetime
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from benchmarks.suite.cell import REPEATED_BELOW_S, Cell
from benchmarks.suite.machine import load, machine

__all__ = ["run_cell"]

_START_S, _MAKE_S = 300.0, 600.0
"""Seconds for starting, importing and warming up, and for making the instance and checking the plan.

Only a hang takes so many, also on a busy machine."""
_GRACE_S = 3.0
"""Seconds a solver may overrun its limit before its process is ended; the limit itself if that is longer."""
_PATIENCE = 5
"""How many times as long a cell of ours may overrun when it is tried again.

A busy machine holds up one that ends by itself; one that hangs is ended again, and counts as a failure."""
_CODE = "import sys; from benchmarks.suite.child import main; main(int(sys.argv[1]))"


def run_cell(cell: Cell) -> dict[str, Any]:
    """Return the row of a cell. It can be pickled and submitted to any executor."""
    began = time.perf_counter()
    measured = _guarded(cell)
    if cell.solver.ours and measured["termination"] == "killed":
        measured = _guarded(cell, _PATIENCE)
    spec = cell.instance
    return {
        "kind": "cell",
        "version": 1,
        "key": cell.key,
        "family": spec.family,
        "set": spec.set_name,
        "instance": spec.name,
        "size": spec.size,
        "size_of": spec.size_of,
        "solver": cell.solver.name,
        "ours": cell.solver.ours,
        "limit_s": cell.limit_s,
        "gap_asked": spec.gap,
        "threads": cell.threads,
        "seed": cell.seed,
        "best_known": spec.best_known,
        **measured,
        "wall_s": round(time.perf_counter() - began, 3),
        "machine": machine(),
        "load": load(),
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _guarded(cell: Cell, patience: int = 1) -> dict[str, Any]:
    with tempfile.TemporaryFile() as errors:
        receiving, sending = os.pipe()
        rows = Connection(receiving, writable=False)
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(sending)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(sending,),
                start_new_session=True,
                env=_environment(cell.threads),
            )
        finally:
            os.close(sending)
        try:
            assert process.stdin is not None
            raw = pickle.dumps(cell)
            with contextlib.suppress(OSError):
                process.stdin.write(b"%d\n%b" % (len(raw), raw))
                process.stdin.flush()
            return _wait(cell, patience, process, rows, errors)
        finally:
            _end(process)
            rows.close()


def _wait(
    cell: Cell, patience: int, process: subprocess.Popen[bytes], rows: Connection, errors: IO[bytes]
) -> dict[str, Any]:
    """Return the row, or one that says in which stage it ended and how."""
    stage = "start"
    repeated = REPEATED_BELOW_S * cell.repeats
    allowed = {
        "start": _START_S,
        "warm_up": _START_S,
        "make": _MAKE_S,
        "proof": _MAKE_S + 6 * cell.proof_s,
        "solve": cell.limit_s + patience * (max(cell.limit_s, _GRACE_S) + repeated),
        "check": _MAKE_S,
    }
    deadline = time.monotonic() + allowed[stage]
    while True:
        try:
            if not rows.poll(max(deadline - time.monotonic(), 0.0)):
                reason = f"ended at the hard limit of {allowed[stage]:g} s while it should {_word(stage)}"
                return {"termination": "killed", "told": reason, "seconds": allowed[stage]}
            message: tuple[str, Any] = rows.recv()
        except (EOFError, OSError):
            return _crash(process, stage, errors)
        if message[0] == "row":
            return dict(message[1])
        stage = message[1]
        deadline = time.monotonic() + allowed[stage]


def _word(stage: str) -> str:
    return stage.replace("_", " ")


def _crash(process: subprocess.Popen[bytes], stage: str, errors: IO[bytes]) -> dict[str, Any]:
    try:
        code = process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        code = None
    how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
    errors.seek(0, os.SEEK_END)
    errors.seek(max(errors.tell() - 4000, 0))
    return {"termination": "crash", "told": f"{how} in the stage {stage}; {_last_words(errors.read())}"}


def _last_words(raw: bytes) -> str:
    """Return the last telling line, without any path: rows are published."""
    lines = [line.strip() for line in raw.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line.split(":")[0]]
    telling = errors or [line for line in lines if not line.startswith(("/", "File ", "<"))]
    return re.sub(r"(?:/[\w.+-]+){2,}", "...", telling[-1] if telling else "no last words")[:300]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _environment(threads: int) -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    found = [root, str(Path(root) / "src"), *(entry for entry in sys.path if entry and entry != root)]
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {
        **os.environ,
        **counts,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(found)),
        "PYTHONHASHSEED": "0",
    }
