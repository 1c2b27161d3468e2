"""Means over workloads, and by how much one policy's runs are shorter than another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from paper_repro.icefrog.cases import Case, Result
from paper_repro.icefrog.store import Runs
from paper_repro.intervals import Mean

__all__ = ["Study"]


@dataclass(frozen=True, slots=True)
class Study:
    """Runs, asked for by case without its workload.

    Attributes
    ----------
    runs
        All that was run.
    workloads
        On which.
    """

    runs: Runs
    workloads: Sequence[str]

    def results(self, case: Case) -> dict[str, Result]:
        """Return the results by workload; some policies were run on fewer."""
        asked = {name: replace(case, workload=name) for name in self.workloads}
        return {name: self.runs[one] for name, one in asked.items() if one in self.runs.known}

    def mean(self, case: Case, figure: Callable[[Result], float]) -> Mean:
        """Return the mean of a figure."""
        return Mean.of([figure(result) for result in self.results(case).values()])

    def shorter(self, case: Case, than: Case) -> Mean:
        """Return by which share the average completion time is shorter, workload by workload."""
        ours, theirs = self.results(case), self.results(than)
        both = [name for name in ours if name in theirs]
        return Mean.of([1.0 - ours[name].avg_jct_s / theirs[name].avg_jct_s for name in both])

    def completion_s(self, case: Case) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return the completion times of the jobs of all workloads, increasing."""
        return np.sort(np.concatenate([result.jct_s for result in self.results(case).values()]).astype(float))
