"""Jobs, worker types and throughputs: the data of every policy over shares of time.

The notation is that of Narayanan et al., OSDI 2020. A row is a job alone, or a pair of jobs that share their
workers; X[row, type] is the share of time that a row runs on a type.

    P = { X >= 0,   sum over the rows of m of X <= 1 for every job m,   sum of s_row X <= N for every type }

The time that the steps done so far would have taken in isolation, kept over several calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption

__all__ = ["IsolatedTime", "SharesProblem"]


class IsolatedTime:
    """Adds, at every call, the steps done since the last one over the isolated throughput of the last one."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._last: dict[int, tuple[float, float]] = {}

    def upto(
        self, jobs: Sequence[int], steps_left: NDArray[np.float64], isolated: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return float64 [jobs]: isolated seconds of every job's steps until now; others are forgotten.

        Parameters
        ----------
        jobs
            A number that stays the same for every job.
        steps_left
            float64 [jobs].
        isolated
            float64 [jobs]: isolated throughput from now on.
        """
        seconds = {}
        for job, left in zip(jobs, steps_left.tolist(), strict=True):
            before, speed = self._last.get(job, (left, 1.0))
            seconds[job] = self._seconds.get(job, 0.0) + max(0.0, before - left) / speed
        self._seconds = seconds
        self._last = dict(zip(jobs, zip(steps_left.tolist(), isolated.tolist(), strict=True), strict=True))
        return np.array([seconds[job] for job in jobs], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SharesProblem:
    """Who can run where, and how fast.

    Attributes
    ----------
    throughput
        float64 [jobs, types]: T, steps per second of a job alone, when all its workers are of one type.
    scale
        float64 [jobs]: s, workers that a job needs.
    workers
        float64 [types]: N, how many there are.
    pairs
        int64 [pairs, 2]: jobs that may share their workers; a pair of unlike scales never runs.
    pair_throughput
        float64 [pairs, 2, types]: steps per second of the first and of the second job of each pair.
    """

    throughput: NDArray[np.float64]
    scale: NDArray[np.float64]
    workers: NDArray[np.float64]
    pairs: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    pair_throughput: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        jobs, types = self.throughput.shape
        shapes = {"scale": (jobs,), "workers": (types,), "pairs": (len(self.pairs), 2)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InvalidOption(f"{name} must have the shape {shape}, not {getattr(self, name).shape}")
        together = self.pair_throughput
        if (len(self.pairs) > 0) != (together is not None) or (
            together is not None and together.shape != (len(self.pairs), 2, types)
        ):
            raise InvalidOption(f"pair_throughput must have the shape {(len(self.pairs), 2, types)}")
        if not (np.isfinite(self.throughput).all() and (self.throughput >= 0).all()):
            raise InvalidOption("throughput must be finite and at least 0")
        if not ((self.scale > 0).all() and (self.workers >= 0).all()):
            raise InvalidOption("scale must be positive and workers at least 0")

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return int(self.throughput.shape[0])

    @property
    def num_types(self) -> int:
        """How many worker types there are."""
        return int(self.workers.size)

    @property
    def equal_share(self) -> NDArray[np.float64]:
        """float64 [jobs]: throughput where a job sees all types in proportion, all the time."""
        return np.asarray(self.throughput @ self.workers / self.workers.sum())

    @property
    def isolated_shares(self) -> NDArray[np.float64]:
        """float64 [jobs, types]: shares of time of a job that has one part in `num_jobs` of all workers."""
        alone = self.workers[None, :] / (self.num_jobs * self.scale[:, None])
        return np.asarray(alone / np.maximum(1.0, alone.sum(axis=1))[:, None])

    @property
    def isolated(self) -> NDArray[np.float64]:
        """float64 [jobs]: throughput on the isolated shares."""
        return np.asarray((self.throughput * self.isolated_shares).sum(axis=1))

    @property
    def row_scale(self) -> NDArray[np.float64]:
        """float64 [rows]: workers of every row, the jobs alone first, then the pairs."""
        return np.concatenate((self.scale, self.scale[self.pairs[:, 0]]))

    @property
    def row_runs(self) -> NDArray[np.bool_]:
        """Which rows may run at all: bool [rows]."""
        alike = self.scale[self.pairs[:, 0]] == self.scale[self.pairs[:, 1]]
        return np.concatenate((np.ones(self.num_jobs, dtype=np.bool_), alike))

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return job, row and float64 [entries, types] throughput of every job in every row."""
        alone = np.arange(self.num_jobs)
        if self.pair_throughput is None:
            return alone, alone, self.throughput
        rows = self.num_jobs + np.repeat(np.arange(len(self.pairs)), 2)
        together = self.pair_throughput.reshape(-1, self.num_types)
        return (
            np.concatenate((alone, self.pairs.ravel())),
            np.concatenate((alone, rows)),
            np.concatenate((self.throughput, together)),
        )

    def rates(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [jobs]: the throughput of every job under shares [rows, types]."""
        job, row, speed = self.entries()
        made = (speed * shares[row]).sum(axis=1)
        return np.bincount(job, weights=made, minlength=self.num_jobs).astype(np.float64)

    def excess(self, shares: NDArray[np.float64]) -> float:
        """Return by how much shares break a rule of P at most: 0 for a feasible point."""
        job, row, _ = self.entries()
        time = np.bincount(job, weights=shares.sum(axis=1)[row], minlength=self.num_jobs)
        used = (shares * self.row_scale[:, None]).sum(axis=0)
        over = (
            -shares.min(initial=0.0),
            (time - 1.0).max(initial=0.0),
            (used - self.workers).max(initial=0.0),
        )
        return float(max(*over, shares[~self.row_runs].max(initial=0.0)))
