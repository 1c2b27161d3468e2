"""The jobs of a replay as arrays, in the order in which they are admitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, InvalidOption, Problem
from apportion.instances.gap_filling import ScalingCurve
from apportion.simulation.job_table import SubmittedJob
from apportion.simulation.snapshot import curve_of_jobs

__all__ = ["Workload", "workload"]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Malleable jobs, first come first served.

    Attributes
    ----------
    ids
        Name of every job.
    curve
        int64 [jobs]: row of `rates` and `believed`.
    rates
        float64 [curves, counts]: true samples per second on 0, 1, 2, ... nodes.
    believed
        float64 [curves, counts]: what the policy is told instead; the same by default.
    min_nodes, max_nodes
        int64 [jobs].
    up_s, down_s
        float64 [jobs]: seconds of standstill after growing or shrinking.
    work
        float64 [jobs]: samples until the job is done.
    submitted_s
        float64 [jobs], never falling.
    endless
        Whether the jobs are submitted again and again, so that the queue never runs dry.
    """

    ids: tuple[str, ...]
    curve: NDArray[np.int64]
    rates: NDArray[np.float64]
    believed: NDArray[np.float64]
    min_nodes: NDArray[np.int64]
    max_nodes: NDArray[np.int64]
    up_s: NDArray[np.float64]
    down_s: NDArray[np.float64]
    work: NDArray[np.float64]
    submitted_s: NDArray[np.float64]
    endless: bool = False

    def __repr__(self) -> str:
        endless = ", endless" if self.endless else ""
        return f"<Workload: {len(self.ids)} jobs, {len(self.rates)} curves{endless}>"

    @property
    def num_jobs(self) -> int:
        """How many jobs there are, one round of an endless workload."""
        return len(self.ids)

    def repeated(self) -> Workload:
        """Return the same jobs, submitted again and again."""
        return replace(self, endless=True)

    def submitted(self, at_s: float) -> int:
        """Return how many jobs of a round are submitted by then."""
        return int(np.searchsorted(self.submitted_s, at_s, side="right"))

    def speedups(self) -> NDArray[np.float64]:
        """Return float64 [curves, counts]: rates divided by the least positive rate, that on one node."""
        unit = np.where(self.rates > 0, self.rates, np.inf).min(axis=1, keepdims=True)
        return self.rates / np.where(np.isfinite(unit), unit, 1.0)

    def believing(self, believed: NDArray[np.float64]) -> Workload:
        """Return the same jobs with other rates shown to the policy.

        Raises
        ------
        InvalidOption
            If the table has not the shape of `rates`, or is not finite and at least 0.
        """
        if believed.shape != self.rates.shape or not (np.isfinite(believed).all() and (believed >= 0).all()):
            raise InvalidOption(f"believed rates must be finite, at least 0 and of shape {self.rates.shape}")
        return replace(self, believed=believed)


def workload(
    jobs: Sequence[SubmittedJob],
    curves: Mapping[str, ScalingCurve],
    endless: bool = False,
    curve: str | None = None,
) -> Workload:
    """Return submitted jobs as arrays, ordered by submission (the given order among equals).

    Parameters
    ----------
    jobs
        At least one.
    curves
        Throughput curves by what follows the first ``-`` of a job's id, letter case ignored.
    endless
        Whether the jobs are submitted again and again.
    curve
        The name of the curve that all jobs have, whatever their ids say.

    Raises
    ------
    InvalidInstance
        If there is no job, a job names no curve, or its curve does not reach its maximum.
    """
    if not jobs:
        raise InvalidInstance(Problem("jobs", "there is no job"))
    ordered = sorted(jobs, key=lambda job: job.submitted_s)
    found = curve_of_jobs(ordered, curves, curve)
    short = [
        Problem(f"job {job.id!r}", f"its curve ends at {known.nodes[-1]} nodes, Jmax is {job.max_nodes}")
        for job, known in zip(ordered, found, strict=True)
        if known.nodes[-1] < job.max_nodes
    ]
    if short:
        raise InvalidInstance(short)
    counts = np.arange(max(job.max_nodes for job in ordered) + 1)
    index: dict[tuple[tuple[int, ...], tuple[float, ...]], int] = {}
    row = [index.setdefault((curve.nodes, curve.rate), len(index)) for curve in found]
    rates = np.array([np.interp(counts, nodes, rate) for nodes, rate in index])
    return Workload(
        ids=tuple(job.id for job in ordered),
        curve=np.array(row, dtype=np.int64),
        rates=rates,
        believed=rates,
        min_nodes=np.array([job.min_nodes for job in ordered], dtype=np.int64),
        max_nodes=np.array([job.max_nodes for job in ordered], dtype=np.int64),
        up_s=np.array([job.rescale_up_s for job in ordered], dtype=np.float64),
        down_s=np.array([job.rescale_down_s for job in ordered], dtype=np.float64),
        work=np.array([job.work_samples for job in ordered], dtype=np.float64),
        submitted_s=np.array([job.submitted_s for job in ordered], dtype=np.float64),
        endless=endless,
    )
