"""The state of all jobs of a simulated cluster as arrays, and how it advances with time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError
from apportion.policies.cluster.cluster_view import Nodes
from apportion.policies.cluster.placing import run_lengths
from apportion.simulation.cluster.co_location import CoLocation
from apportion.simulation.cluster.nature import Nature

__all__ = ["JobStates", "NoProgress"]


class NoProgress(ApportionError):
    """A job was put where it cannot train; the message names the job and the place."""


class JobStates:
    """Progress, allocation and account of every job.

    Parameters
    ----------
    nature
        What the jobs really do.
    nodes
        The machines.
    submitted_s
        float64 [jobs].
    restart_s
        float64 [jobs]: standstill after every (re)start.
    rebuild_s
        Standstill after a change of the frozen depth alone.
    co_location
        What jobs lose by whom they run beside; ``None``: nothing.

    Attributes
    ----------
    epoch, depth, restarts
        int64 [jobs].
    progress, attained_s, attained_gpu_s, frozen_s
        float64 [jobs].
    completed_s
        float64 [jobs]: NaN until the job completes.
    held
        Node index of every GPU of every job.
    """

    def __init__(
        self,
        nature: Nature,
        nodes: Nodes,
        submitted_s: NDArray[np.float64],
        restart_s: NDArray[np.float64],
        rebuild_s: float = 0.0,
        co_location: CoLocation | None = None,
    ) -> None:
        jobs = submitted_s.size
        self._nature, self._nodes = nature, nodes
        self.restart_s, self._rebuild_s, self._co_location = restart_s, rebuild_s, co_location
        self.epoch = np.zeros(jobs, dtype=np.int64)
        self.depth = np.zeros(jobs, dtype=np.int64)
        self.restarts = np.zeros(jobs, dtype=np.int64)
        self.progress = np.zeros(jobs)
        self.attained_s = np.zeros(jobs)
        self.attained_gpu_s = np.zeros(jobs)
        self.frozen_s = np.zeros(jobs)
        self.completed_s = np.full(jobs, np.nan)
        self.held: list[tuple[int, ...]] = [()] * jobs
        self._gpus = np.zeros(jobs, dtype=np.int64)
        self._delay_s = np.zeros(jobs)
        self._rate = np.zeros(jobs)
        self._target = np.zeros(jobs)
        self._frozen = np.zeros(jobs)
        self._slowdown = np.zeros(jobs)

    def reallocate(self, job: int, held: tuple[int, ...], depth: int) -> None:
        """Give a job another allocation or depth; GPUs it did not hold like that cost a restart."""
        moved = held != self.held[job]
        if not moved and (depth == self.depth[job] or not held):
            self.depth[job] = depth
            return
        self.held[job], self._gpus[job] = held, len(held)
        if held:
            if moved:
                self._delay_s[job] = self.restart_s[job]
                self.restarts[job] += 1
            else:
                self._delay_s[job] = max(self._delay_s[job], self._rebuild_s)
        self.depth[job] = depth
        self._frozen[job] = depth / self._nature.layers(job) if held else 0.0
        if held:
            self._refresh(job)

    def evict(self, jobs: NDArray[np.int64], there: NDArray[np.bool_]) -> int:
        """Take all GPUs from jobs that hold one on a machine that is gone; return how many lost them."""
        lost = [job for job in jobs.tolist() if self.held[job] and not there[list(self.held[job])].all()]
        for job in lost:
            self.reallocate(job, (), 0)
        return len(lost)

    def share_nodes(self, jobs: NDArray[np.int64]) -> None:
        """Slow down jobs by whom they now run beside."""
        if self._co_location is None:
            return
        lost = self._co_location(jobs, [self.held[job] for job in jobs.tolist()])
        for job in jobs[lost != self._slowdown[jobs]].tolist():
            self._slowdown[job] = lost[np.searchsorted(jobs, job)]
            if self.held[job]:
                self._refresh(job)

    def advance(self, active: NDArray[np.int64], now_s: float, seconds: float) -> None:
        """Let `seconds` pass from `now_s` for the active jobs."""
        running = active[self._gpus[active] > 0]
        if not running.size:
            return
        for job in running[self.depth[running] > 0].tolist():
            # the frozen penalty moves with the phase of the training, within an epoch too
            self._refresh(job)
        delay = self._delay_s[running]
        wait = np.minimum(delay, seconds)
        self._delay_s[running] = delay - wait
        left = seconds - wait
        new = self.progress[running] + self._rate[running] * left
        ends = np.flatnonzero((new >= self._target[running]) & (left > 0))
        self.progress[running] = np.where(new >= self._target[running], self.progress[running], new)
        used = np.full(running.size, seconds)
        for index in ends.tolist():
            used[index] = float(wait[index]) + self._through_epochs(
                int(running[index]), now_s + float(wait[index]), float(left[index])
            )
        self.attained_s[running] += used
        self.attained_gpu_s[running] += used * self._gpus[running]
        self.frozen_s[running] += used * self._frozen[running]
        for index in ends.tolist():
            job = int(running[index])
            if not np.isnan(self.completed_s[job]):
                self.held[job], self._gpus[job] = (), 0

    def _through_epochs(self, job: int, now_s: float, seconds: float) -> float:
        """Advance a job whose epoch ends within `seconds`; return the seconds it used."""
        left, progress = seconds, float(self.progress[job])
        while left > 0:
            rate, target = float(self._rate[job]), float(self._target[job])
            if progress + rate * left < target:
                progress += rate * left
                left = 0
                break
            # whole seconds, as the published simulator counts them; it may overdraw by half a second
            left -= round((target - progress) / rate)
            progress = target
            self.epoch[job] += 1
            if self.epoch[job] >= self._nature.epochs(job):
                self.completed_s[job] = now_s + seconds - left
                break
            self.progress[job] = progress
            self._refresh(job)
        self.progress[job] = progress
        return seconds - left

    def _refresh(self, job: int) -> None:
        held, epoch = self.held[job], int(self.epoch[job])
        rate = self._nature.rate(
            job,
            epoch,
            float(self.progress[job]),
            run_lengths(held),
            self._nodes.type_of(held),
            int(self.depth[job]),
        )
        if not rate > 0:
            where = f"{run_lengths(held)} GPUs of type {self._nodes.type_of(held)}"
            raise NoProgress(f"job {job} makes no progress on {where}: nothing was measured there")
        self._rate[job] = rate * (1.0 - self._slowdown[job]) if self._slowdown[job] else rate
        self._target[job] = self._nature.progress_at(job, epoch + 1)
