"""Means over seeds with 95 % intervals (Student's t), and their tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.simulation.cluster.cluster_summary import ClusterSummary
from paper_repro.joint.tasks import Result

__all__ = ["Estimate", "estimate", "figures", "table"]

Figure = Callable[[ClusterSummary], float | None]
_HOUR = 3600.0
COLUMNS: tuple[tuple[str, Figure], ...] = (
    ("average, h", lambda told: told.avg_jct_s and told.avg_jct_s / _HOUR),
    ("99th percentile, h", lambda told: told.p99_jct_s and told.p99_jct_s / _HOUR),
    ("makespan, h", lambda told: told.makespan_s and told.makespan_s / _HOUR),
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the half-width of its 95 % interval; ``None`` of one value alone."""

    mean: float
    half: float | None

    def __str__(self) -> str:
        digits = 2 if abs(self.mean) < 100 else 0
        told = f"{self.mean:.{digits}f}"
        return told if self.half is None else f"{told} ± {self.half:.{digits}f}"


def estimate(values: NDArray[np.float64]) -> Estimate:
    """Return the mean of independent values and its interval."""
    from scipy.stats import t

    if values.size < 2:
        return Estimate(float(values.mean()), None)
    spread = float(values.std(ddof=1)) / np.sqrt(values.size)
    return Estimate(float(values.mean()), float(t.ppf(0.975, values.size - 1)) * spread)


def figures(results: Sequence[Result], setting: str, case: str, figure: Figure) -> NDArray[np.float64]:
    """Return one figure of a case by rising seed."""
    own = [one for one in results if (one.task.setting, one.task.case) == (setting, case)]
    told = [figure(one.summary) for one in sorted(own, key=lambda one: one.task.seed)]
    return np.array([np.nan if value is None else value for value in told], dtype=np.float64)


def table(
    results: Sequence[Result], setting: str, cases: Sequence[str], base: str, settings: dict[str, str]
) -> Iterator[str]:
    """Yield a table: a row a case; the last columns are relative to `base`, seed by seed.

    Parameters
    ----------
    results
        Of one part.
    setting
        Which runs.
    cases
        The rows; one without runs is left out.
    base
        Compared with, seed by seed.
    settings
        Where a case was run under another setting that is the same for it.
    """
    yield (
        f"| {setting} | "
        + " | ".join(name for name, _ in COLUMNS)
        + " | restarts a job | average over base | makespan over base |"
    )
    yield "|---" * (len(COLUMNS) + 4) + "|"
    compared = [figures(results, settings.get(base, setting), base, figure) for _, figure in COLUMNS]
    for case in cases:
        where = settings.get(case, setting)
        told = [figures(results, where, case, figure) for _, figure in COLUMNS]
        if not told[0].size:
            continue
        restarts = figures(results, where, case, lambda one: one.restarts / one.jobs).mean()
        cells = " | ".join(str(estimate(values)) for values in told)
        average, makespan = estimate(told[0] / compared[0]), estimate(told[2] / compared[2])
        yield f"| {case} | {cells} | {restarts:.1f} | {average} | {makespan} |"
