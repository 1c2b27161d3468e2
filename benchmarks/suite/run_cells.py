"""Run cells on any executor and write their rows: by this process, once, as they come."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future, as_completed
from pathlib import Path
from typing import Any

from benchmarks.suite.cell import Cell
from benchmarks.suite.guard import run_cell
from benchmarks.suite.machine import commit, machine, versions
from benchmarks.suite.rows import RowWriter

__all__ = ["run"]


def run(
    cells: Sequence[Cell],
    out: Path,
    executor: Executor,
    *,
    resume: bool = False,
    about: dict[str, Any] | None = None,
    on_row: Callable[[dict[str, Any], int, int], None] | None = None,
) -> int:
    """Run the cells that a file does not have yet, and return how many rows were written.

    Parameters
    ----------
    cells
        What to run; a cell whose row is in the file is skipped.
    out
        The file of rows.
    executor
        Where cells run; `benchmarks.suite.guard.run_cell` is submitted with a cell, both can be pickled, and
        each cell starts a process of its own wherever it runs.
    resume
        Go on with a file that exists.
    about
        What the row that opens this run says besides: workers, selection, what is missing.
    on_row
        Called with every row, how many are done and how many there are.

    Notes
    -----
    A future that fails (a worker that died for good) becomes a row ``lost``; a resumed run does it again.
    """
    with RowWriter(out, resume) as writer:
        waiting = [cell for cell in cells if cell.key not in writer.done]
        writer.append(
            {
                "kind": "run",
                "version": 1,
                "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "commit": commit(),
                "machine": machine(),
                "versions": versions(("highspy", "ortools", "scipy", "pyomo")),
                "cells": len(waiting),
                "skipped": len(cells) - len(waiting),
                **(about or {}),
            }
        )
        futures: dict[Future[dict[str, Any]], Cell] = {
            executor.submit(run_cell, cell): cell for cell in waiting
        }
        done, began = 0, time.perf_counter()
        try:
            for future in as_completed(futures):
                try:
                    row = future.result()
                except (Exception, CancelledError) as error:
                    row = _lost(futures[future], error)
                writer.append(row)
                done += 1
                if on_row is not None:
                    on_row(row, done, len(waiting))
        finally:
            for future in futures:
                future.cancel()
        writer.append({"kind": "end", "version": 1, "wall_s": round(time.perf_counter() - began, 1)})
    return done


def _lost(cell: Cell, error: BaseException) -> dict[str, Any]:
    return {
        "kind": "cell",
        "version": 1,
        "key": cell.key,
        "family": cell.instance.family,
        "set": cell.instance.set_name,
        "instance": cell.instance.name,
        "solver": cell.solver.name,
        "ours": cell.solver.ours,
        "limit_s": cell.limit_s,
        "termination": "lost",
        "told": f"{type(error).__name__}: {error}"[:300],
    }
