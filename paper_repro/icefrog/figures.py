"""Means over workloads, and by how much one policy's runs are shorter than another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from paper_repro.icefrog.cases import Case, Result
from paper_repro.icefrog.store import Runs

__all__ = ["Mean", "Study"]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over workloads with the half-width of its 95 % interval by Student's t.

    Attributes
    ----------
    value
        The mean.
    half
        ``None`` for fewer than three workloads.
    count
        Workloads.
    """

    value: float
    half: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return the mean of values."""
        if len(values) < 3:
            return cls(float(np.mean(values)), None, len(values))
        from scipy.stats import t

        half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
        return cls(float(np.mean(values)), half, len(values))

    def told(self, scale: float = 1.0, digits: int = 0) -> str:
        """Return it in words."""
        if self.half is None:
            return f"{self.value * scale:.{digits}f}"
        return f"{self.value * scale:.{digits}f} ± {self.half * scale:.{digits}f}"


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
