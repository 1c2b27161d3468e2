"""What no policy undercuts, by workload and setting: computed once, in memory and in a file."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from apportion.cluster.simulation.rounds.completion_bound import completion_bound
from apportion.cluster.simulation.rounds.job_states import RoundRules
from paper_repro.icefrog.cases import WORKLOADS, Case, prepared
from paper_repro.icefrog.store import Runs
from paper_repro.intervals import Mean
from paper_repro.progress import Progress

__all__ = ["Bounds", "above", "way_gone"]


class _Line(msgspec.Struct):
    case: Case
    rounds_s: tuple[float, ...]
    mean_s: float


class Bounds:
    """Mean completion times that no policy undercuts which freezes nothing.

    Parameters
    ----------
    data
        Folder with ``pollux`` and ``sia``.
    runs
        Where the search for prices begins: the completions under prices of work.
    file
        JSON lines, one a bound; read first, and appended to.
    workers
        Processes.
    """

    def __init__(self, data: Path, runs: Runs, file: Path, workers: int) -> None:
        self._data, self._runs, self._file, self._workers = data, runs, file, workers
        lines = file.read_bytes().splitlines() if file.is_file() else []
        found = [msgspec.json.decode(line, type=_Line) for line in lines]
        self._known = {(line.case, line.rounds_s): line.mean_s for line in found}

    def of(self, rounds_s: set[float], **changed: object) -> list[float]:
        """Return the bound of every workload for policies of such rounds, in a setting as of `Case`."""
        cases = [msgspec.structs.replace(Case(name, "costate", gpus=48), **changed) for name in WORKLOADS]
        rounds = tuple(sorted(rounds_s))
        missing = [case for case in cases if (case, rounds) not in self._known]
        if missing:
            self._runs.run(missing)
            progress = Progress("bounds", len(missing))
            jobs = [self._runs[case].jct_s for case in missing]
            bound = partial(_bound, self._data, rounds)
            with (
                self._file.open("ab") as out,
                ProcessPoolExecutor(self._workers, multiprocessing.get_context("spawn")) as pool,
            ):
                for case, mean_s in zip(missing, pool.map(bound, missing, jobs), strict=True):
                    self._known[case, rounds] = mean_s
                    out.write(msgspec.json.encode(_Line(case, rounds, mean_s)) + b"\n")
                    out.flush()
                    progress.step()
        return [self._known[case, rounds] for case in cases]


def _bound(data: Path, rounds_s: tuple[float, ...], case: Case, jct_s: Sequence[int]) -> float:
    made = prepared(data, case)
    rules = [RoundRules(round_s=one, restart_s=case.restart_s) for one in rounds_s]
    steps = 60 if case.spread or case.early else 120  # where jobs differ a step takes six times as long
    return completion_bound(made, rules, made.submitted_s + np.array(jct_s), steps).mean_s


def above(own: Sequence[float], bounds: Sequence[float]) -> str:
    """Return in words, per cent: how far means are above the bounds."""
    return Mean.of([mean / bound - 1.0 for mean, bound in zip(own, bounds, strict=True)]).words(100.0, 1)


def way_gone(first: Sequence[float], own: Sequence[float], bounds: Sequence[float]) -> str:
    """Return in words, per cent: how much of the way from the first's means to the bounds is gone."""
    gone = [(one - mean) / (one - bound) for one, mean, bound in zip(first, own, bounds, strict=True)]
    return Mean.of(gone).words(100.0, 1)
