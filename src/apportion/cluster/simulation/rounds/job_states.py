"""What the simulated jobs really do, apart from what any scheduler believes, and their state as arrays.

That is the truth about an application, what jobs lose by whom they run beside (distributed jobs on one node,
or two jobs on one GPU), and how all of them advance with time under the rules of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.application import (
    Application,
    BatchSplit,
    GoodputTable,
    split_batch,
)
from apportion.cluster.estimation.training.freezing_profile import LEVELS, FreezingProfile
from apportion.cluster.policies.rounds.belief import Belief
from apportion.cluster.policies.rounds.cluster_view import Claims, ClusterPlan, ClusterView, Nodes
from apportion.cluster.policies.rounds.packing import PairSpeeds
from apportion.cluster.policies.rounds.placing import run_lengths
from apportion.core.errors import ApportionError, InvalidOption

__all__ = [
    "Beliefs",
    "CoLocation",
    "DistributedNeighbours",
    "GroundTruth",
    "JobStates",
    "MeasuredTraining",
    "NoProgress",
    "Observe",
    "Present",
    "RoundRules",
    "SharedGpus",
    "SimulatedJobs",
    "SplitRule",
    "fixed_batches",
    "most_goodput",
]

_LEAST_KEPT = 0.01

SplitRule = Callable[[int, tuple[int, ...], str, int], BatchSplit | None]
"""How a job, given its placement, GPU type and epoch, splits its batch; ``None`` where it cannot run."""


class GroundTruth(Protocol):
    """The truth about every job of a workload; jobs are numbered in its order."""

    def epochs(self, job: int) -> int:
        """Return how many epochs the job trains."""

    def layers(self, job: int) -> int:
        """Return how many layers there are to freeze."""

    def progress_at(self, job: int, epoch: int) -> float:
        """Return the progress at which `epoch` starts."""

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return the progress per second; NaN where nothing was measured."""


def fixed_batches(applications: Sequence[Application], batches: Sequence[int]) -> SplitRule:
    """Return the rule of jobs that keep their user's batch."""
    return lambda job, placement, gpu_type, epoch: split_batch(
        applications[job], batches[job], sum(placement)
    )


def most_goodput(tables: Sequence[GoodputTable]) -> SplitRule:
    """Return the rule of jobs that choose by themselves (Pollux's agent), each from its own table."""

    def rule(job: int, placement: tuple[int, ...], gpu_type: str, epoch: int) -> BatchSplit | None:
        best = tables[job].best(placement, gpu_type, epoch)
        return None if best is None else best[1]

    return rule


class MeasuredTraining:
    """Jobs with measured step times and gradient statistics.

    Parameters
    ----------
    applications
        The measured profile of every job.
    splits
        How the jobs split their batch into local batches and accumulation steps.
    freezing
        What freezing really does, by application; one that is not there does not gain and loses nothing.
    theta
        Scale of the frozen penalty: 1 - theta (1 - psi) of the statistical progress remains, but never less
        than a hundredth: a scheduler that trusts a wrong penalty shall lose much, not wait for ever.
    slowdowns
        By how much jobs of an application run slower than was measured, 1 where it is not told: what Sia's
        simulator calls calibration.
    """

    def __init__(
        self,
        applications: Sequence[Application],
        splits: SplitRule,
        freezing: Mapping[str, FreezingProfile] = MappingProxyType({}),
        theta: float = 1.0,
        slowdowns: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._applications, self._splits = applications, splits
        self._freezing, self._theta = freezing, theta
        self._slowdowns = [slowdowns.get(application.name, 1.0) for application in applications]

    def epochs(self, job: int) -> int:
        """Return how many epochs the job trains."""
        return self._applications[job].epochs

    def layers(self, job: int) -> int:
        """Return the number of depths that are told apart."""
        return LEVELS

    def progress_at(self, job: int, epoch: int) -> float:
        """Return the progress at which `epoch` starts."""
        return float(self._applications[job].progress[epoch])

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return AdaScale's gain over the seconds of a step, less the frozen penalty."""
        application = self._applications[job]
        split, times = self._splits(job, placement, gpu_type, epoch), application.step_times.get(gpu_type)
        if split is None or split.local < 1 or times is None:
            return float("nan")
        step, sync = times.seconds(placement, split.local)
        gain = application.gain(split.total(sum(placement)), epoch)
        gain /= self._slowdowns[job]
        profile = self._freezing.get(application.name)
        if depth == 0 or profile is None:
            return gain / split.seconds(step, sync)
        frozen_s = float(profile.seconds(step, sync, split.accumulation, sum(placement))[depth])
        return self.retained(job, progress, depth) * gain / frozen_s

    def retained(self, job: int, progress: float, depth: int) -> float:
        """Return the share of its statistical progress that a job keeps when frozen to `depth`."""
        application = self._applications[job]
        profile = self._freezing.get(application.name)
        if depth == 0 or profile is None:
            return 1.0
        psi = float(profile.retained_at(progress / float(application.progress[-1]))[depth])
        return max(_LEAST_KEPT, 1.0 - self._theta * (1.0 - psi))


CoLocation = Callable[[NDArray[np.int64], Sequence[tuple[int, ...]]], NDArray[np.float64]]
"""Given jobs in rising order and the nodes of each, float64 [jobs]: the share of its rate that each loses."""


@dataclass(frozen=True, slots=True)
class DistributedNeighbours:
    """Distributed jobs that share a node with another distributed one are slower.

    Attributes
    ----------
    lost
        Share of the rate, 0 to 1.
    """

    lost: float

    def __call__(self, jobs: NDArray[np.int64], held: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """Return the share that every job loses."""
        spread = [frozenset(nodes) if len(set(nodes)) > 1 else frozenset() for nodes in held]
        tenants = np.bincount([node for nodes in spread for node in nodes], minlength=1)
        crowded = [any(tenants[node] > 1 for node in nodes) for nodes in spread]
        return np.where(np.array(crowded, dtype=np.bool_), self.lost, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class SharedGpus:
    """Two jobs on one GPU run as fast as they were measured together.

    A node is one GPU with two slots: a job that holds one of them lets another in.

    Attributes
    ----------
    nodes
        The GPUs.
    pairs
        Measured speeds of pairs.
    """

    nodes: Nodes
    pairs: PairSpeeds

    def __call__(self, jobs: NDArray[np.int64], held: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """Return the share that every job loses; all of it beside one it does not fit with."""
        lost = np.zeros(jobs.size)
        single = np.array(
            [position for position, nodes in enumerate(held) if len(nodes) == 1], dtype=np.int64
        )
        gpu = np.array([held[position][0] for position in single.tolist()], dtype=np.int64)
        order = np.argsort(gpu, kind="stable")
        gpu, single = gpu[order], single[order]
        first = np.flatnonzero(gpu[1:] == gpu[:-1])
        one, two = single[first], single[first + 1]
        kind = self.nodes.kind[gpu[first]]
        for this, other in ((one, two), (two, one)):
            speed = self.pairs.relative_to_alone(kind, jobs[this], jobs[other])
            lost[this] = 1.0 - np.where(np.isnan(speed), 0.0, speed)
        return lost


class NoProgress(ApportionError):
    """A job was put where it cannot train; the message names the job and the place."""


class JobStates:
    """Progress, allocation and account of every job.

    Parameters
    ----------
    ground_truth
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
        ground_truth: GroundTruth,
        nodes: Nodes,
        submitted_s: NDArray[np.float64],
        restart_s: NDArray[np.float64],
        rebuild_s: float = 0.0,
        co_location: CoLocation | None = None,
    ) -> None:
        jobs = submitted_s.size
        self._nature, self._nodes = ground_truth, nodes
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


Present = Callable[[float], NDArray[np.bool_]]
"""bool [nodes]: which machines are there at a time; the others' GPUs are gone and their jobs pre-empted."""

Beliefs = Callable[[int, JobStates], Belief]
"""What the scheduler believes of a job now, given its number and what can be observed of it."""

Observe = Callable[[ClusterView, ClusterPlan], None]
"""Called with what the policy saw, and what it answered."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedJobs:
    """The jobs of a simulation, numbered in the workload's order.

    Attributes
    ----------
    ground_truth
        What the jobs really do.
    submitted_s, requested_gpus
        float64 and int64 [jobs].
    beliefs
        What the scheduler believes.
    claims
        Whose the jobs are and what they claim; policies see it.
    """

    ground_truth: GroundTruth
    submitted_s: NDArray[np.float64]
    requested_gpus: NDArray[np.int64]
    beliefs: Beliefs
    claims: Claims | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundRules:
    """How long the rounds of a simulation are, what changes cost, and when it ends.

    Attributes
    ----------
    round_s
        Seconds of a round.
    restart_s
        Standstill after a (re)start, for all or float64 [jobs].
    rebuild_s
        Standstill after a change of depth alone.
    interference
        Share of its rate that a distributed job loses beside another one, 0 to 1; or what jobs lose by whom
        they run beside.
    limit_s
        Stop at this time; what is not complete by then stays so.
    present
        Which machines are there, asked once a round; ``None``: all of them, always.

    Raises
    ------
    InvalidOption
        If a number is out of its range.
    """

    round_s: float = 60.0
    restart_s: float | NDArray[np.float64] = 30.0
    rebuild_s: float = 0.0
    interference: float | CoLocation = 0.0
    limit_s: float | None = None
    present: Present | None = None

    def __post_init__(self) -> None:
        if not 0 < self.round_s < 1e9:
            raise InvalidOption(f"round_s must be positive seconds, not {self.round_s}")
        if not callable(self.interference) and not 0 <= self.interference < 1:
            raise InvalidOption(f"interference must be from 0 to below 1, not {self.interference}")

    @property
    def co_location(self) -> CoLocation | None:
        """What jobs lose by whom they run beside, ``None`` if nothing."""
        if callable(self.interference):
            return self.interference
        return DistributedNeighbours(self.interference) if self.interference else None
