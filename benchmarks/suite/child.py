"""The process of one cell: reads the cell, says which stage it is in, sends the row, ends."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from multiprocessing.connection import Connection

__all__ = ["main"]


def main(rows_fd: int) -> None:
    """Measure the cell that stands on standard input; nothing native can print reaches the rows.

    Standard input stays open as a lifeline: its end is the end of whoever waits for this cell.
    """
    rows = Connection(rows_fd, readable=False)
    source = sys.stdin.buffer
    cell = pickle.loads(source.read(int(source.readline())))
    os.dup2(2, 1)
    threading.Thread(target=_end_with_the_guard, args=(source.fileno(),), daemon=True).start()
    if cell.memory_mib is not None:
        import resource

        limit = cell.memory_mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    from benchmarks.suite.measure import measure

    row = measure(cell, lambda stage: rows.send(("stage", stage)))
    rows.send(("row", row))
    sys.stderr.flush()
    os._exit(0)  # native libraries may crash while they are unloaded


def _end_with_the_guard(lifeline_fd: int) -> None:
    while os.read(lifeline_fd, 4096):
        pass
    os._exit(1)
