"""Means over seeds with 95 % intervals (Student's t), and their tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.rounds.accounts import ClusterSummary
from paper_repro.joint.tasks import Result

__all__ = ["COLUMNS", "Estimate", "Row", "estimate", "figures", "rows", "table"]

Figure = Callable[[ClusterSummary], float | None]
_HOUR = 3600.0
COLUMNS: tuple[tuple[str, Figure], ...] = (
    ("average, h", lambda summary: summary.avg_jct_s and summary.avg_jct_s / _HOUR),
    ("99th percentile, h", lambda summary: summary.p99_jct_s and summary.p99_jct_s / _HOUR),
    ("makespan, h", lambda summary: summary.makespan_s and summary.makespan_s / _HOUR),
)
_OVER = ("average over base", "makespan over base")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the half-width of its 95 % interval; ``None`` of one value alone."""

    mean: float
    half: float | None

    def __str__(self) -> str:
        digits = 2 if abs(self.mean) < 100 else 0
        cells = f"{self.mean:.{digits}f}"
        return cells if self.half is None else f"{cells} ± {self.half:.{digits}f}"


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
    cells = [figure(one.summary) for one in sorted(own, key=lambda one: one.task.seed)]
    return np.array([np.nan if value is None else value for value in cells], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Row:
    """What a case came to under a setting.

    Attributes
    ----------
    setting, case
        As in `Task`.
    runs
        Over how many seeds or workloads.
    figures
        `COLUMNS`, and after them average completion time and makespan over those of the base, seed by seed.
    restarts
        A job, on average.
    """

    setting: str
    case: str
    runs: int
    figures: tuple[Estimate, ...]
    restarts: float

    def as_row(self) -> dict[str, Any]:
        """Return it as a row of a table of results."""
        names = [*(name for name, _ in COLUMNS), *_OVER]
        cells: dict[str, Any] = {"setting": self.setting, "case": self.case, "runs": self.runs}
        for name, figure in zip(names, self.figures, strict=True):
            cells |= {name: figure.mean, f"± {name}": figure.half}
        return cells | {"restarts a job": self.restarts}


def rows(
    results: Sequence[Result], setting: str, cases: Sequence[str], base: str, settings: dict[str, str]
) -> Iterator[Row]:
    """Yield a row a case.

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
    compared = [figures(results, settings.get(base, setting), base, figure) for _, figure in COLUMNS]
    for case in cases:
        where = settings.get(case, setting)
        cells = [figures(results, where, case, figure) for _, figure in COLUMNS]
        if cells[0].size:
            over = (cells[0] / compared[0], cells[2] / compared[2])
            restarts = figures(results, where, case, lambda one: one.restarts / one.jobs).mean()
            estimates = tuple(estimate(values) for values in (*cells, *over))
            yield Row(setting, case, cells[0].size, estimates, float(restarts))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows of one setting as a table in Markdown."""
    yield (
        f"| {rows[0].setting} | "
        + " | ".join([*(name for name, _ in COLUMNS), "restarts a job", *_OVER])
        + " |"
    )
    yield "|---" * (len(COLUMNS) + 4) + "|"
    for row in rows:
        cells = [
            *map(str, row.figures[: len(COLUMNS)]),
            f"{row.restarts:.1f}",
            *map(str, row.figures[len(COLUMNS) :]),
        ]
        yield f"| {row.case} | " + " | ".join(cells) + " |"
