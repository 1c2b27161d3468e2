"""The suite on a Dask cluster of two worker processes, one of them killed in the middle."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.suite.executing import opened
from benchmarks.suite.rows import read_rows
from benchmarks.suite.run_cells import run
from benchmarks.suite.solvers import OURS, SOLVERS

from tests.benchmarks.test_rows import cell, spec


@pytest.mark.slow
def test_a_worker_killed_mid_run_loses_no_row_and_repeats_no_finished_one(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra apportion[dask] is not installed")
    cells = [cell(SOLVERS[OURS], spec(items)) for items in range(4, 9)]
    out = tmp_path / "rows.jsonl"
    told: list[str] = []
    with opened("dask:2", 2) as executor:
        worker = executor.submit(os.getpid).result(timeout=300)

        def note(row: dict[str, Any], done: int, total: int) -> None:
            told.append(row["key"])
            if len(told) == 2:
                os.kill(worker, signal.SIGKILL)

        assert run(cells, out, executor, on_row=note) == len(cells)
    rows = [row for row in read_rows(out) if row["kind"] == "cell"]
    assert Counter(row["key"] for row in rows) == Counter(given.key for given in cells)
    assert Counter(told) == Counter(given.key for given in cells)
    assert all(row["termination"] == "optimal" and row["check"]["feasible"] for row in rows)
