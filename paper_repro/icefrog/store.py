"""Runs by case, in memory and in a file: what was run once is not run again."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from paper_repro.icefrog.cases import Case, Result, run_case
from paper_repro.progress import Progress

__all__ = ["Runs"]


class _Line(msgspec.Struct):
    case: Case
    result: Result


class Runs:
    """All results so far.

    Parameters
    ----------
    data
        Folder with ``pollux`` and ``sia``.
    file
        JSON lines, one a run; read first, and appended to as runs end.
    workers
        Processes.
    """

    def __init__(self, data: Path, file: Path, workers: int) -> None:
        self._data, self._file, self._workers = data, file, workers
        self.known: dict[Case, Result] = {}
        if file.is_file():
            decoder = msgspec.json.Decoder(_Line)
            for text in file.read_bytes().splitlines():
                line = decoder.decode(text)
                self.known[line.case] = line.result

    def __getitem__(self, case: Case) -> Result:
        return self.known[case]

    def run(self, asked: Iterable[Case], until: float | None = None) -> int:
        """Run what is not known and return how many cases remain, which is 0 unless the clock stopped it.

        Parameters
        ----------
        asked
            The cases.
        until
            Value of ``time.monotonic()`` after which no more runs are begun; ``None``: no limit.
        """
        missing = [case for case in dict.fromkeys(asked) if case not in self.known]
        if not missing:
            return 0
        progress = Progress("runs", len(missing))
        one = partial(run_case, self._data)
        left = list(reversed(missing))
        # spawned: forking after a solver has started threads may hang
        with (
            self._file.open("ab") as out,
            ProcessPoolExecutor(self._workers, multiprocessing.get_context("spawn")) as pool,
        ):
            going: dict[Future[Result], Case] = {}
            while left or going:
                while left and len(going) < self._workers and (until is None or time.monotonic() < until):
                    case = left.pop()
                    going[pool.submit(one, case)] = case
                if not going:
                    break
                ended = [future for future in going if future.done()]
                if not ended:
                    time.sleep(0.02)
                for future in ended:
                    case = going.pop(future)
                    self.known[case] = future.result()
                    out.write(msgspec.json.encode(_Line(case, self.known[case])) + b"\n")
                    out.flush()
                    progress.step()
        return len(left)
