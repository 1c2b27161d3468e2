"""A workload on a cluster, ready to be run under any policy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.application import Application, GoodputTable
from apportion.cluster.estimation.training.freezing_profile import FreezingProfiles
from apportion.cluster.policies.rounds.belief import BelievedFreezing, JobBelief, RememberedBelief
from apportion.cluster.policies.rounds.cluster_view import Nodes
from apportion.cluster.policies.rounds.placing import filled
from apportion.cluster.simulation.rounds.job_states import (
    Beliefs,
    JobStates,
    MeasuredTraining,
    fixed_batches,
    most_goodput,
)
from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.core.files import optional_columns, text_columns

__all__ = ["Scenario", "TrainingJob", "homogeneous", "parse_nodes", "read_workload"]


_SHOWN = 20
_MANY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One job of the workload.

    Attributes
    ----------
    name
        Unique.
    submitted_s
        Seconds since the start of the workload.
    application
        Name of its application.
    gpus
        GPUs its user asks for.
    batch
        Samples of an optimiser step its user asks for.
    epochs
        After how many of its application's epochs it really ends; ``None``: all, which its user asked for.
    work
        How many times its application's progress every epoch takes.
    """

    name: str
    submitted_s: float
    application: str
    gpus: int
    batch: int
    epochs: int | None = None
    work: float = 1.0


def read_workload(path: str | Path, applications: Mapping[str, Application]) -> tuple[TrainingJob, ...]:
    """Read a CSV with columns name, time, application, num_replicas, batch_size, and perhaps epochs and work.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a field is wrong, a name stands twice, or an application is unknown.
    """
    path = Path(path)
    problems: list[Problem] = []
    jobs: dict[str, TrainingJob] = {}
    columns = ("name", "time", "application", "num_replicas", "batch_size")
    more = optional_columns(path, ("epochs", "work"))
    for row, (line, (name, time, application, gpus, batch)) in enumerate(text_columns(path, columns)):
        where = f"{path}, line {line}"
        if application not in applications:
            known = ", ".join(applications)
            problems.append(Problem(where, f"application {application!r} has no profile; known: {known}"))
            continue
        try:
            job = TrainingJob(
                name,
                float(time),
                application,
                int(gpus),
                int(batch),
                int(more["epochs"][row]) if more.get("epochs", {row: ""})[row] else None,
                float(more["work"][row]) if more.get("work", {row: ""})[row] else 1.0,
            )
        except ValueError:
            said = "time and work must be numbers, num_replicas, batch_size and epochs whole numbers"
            problems.append(Problem(where, said))
            continue
        if not (0 <= job.submitted_s <= _MANY and 1 <= job.gpus <= _MANY and 1 <= job.batch <= _MANY):
            problems.append(Problem(where, "time must be at least 0, num_replicas and batch_size at least 1"))
        elif name in jobs:
            problems.append(Problem(where, f"name {name!r} stands twice"))
        most = applications[application].epochs
        if not (job.epochs is None or 1 <= job.epochs <= most):
            problems.append(Problem(where, f"epochs must be from 1 to {application}'s {most}"))
        if not 1e-6 <= job.work <= 1e6:
            problems.append(Problem(where, "work must be from a millionth to a million"))
        jobs[name] = job
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    return tuple(jobs.values())


_NOTHING: FreezingProfiles = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Jobs, their profiles, and machines.

    Attributes
    ----------
    jobs
        In the workload's order.
    applications
        The measured profile of every job.
    nodes
        The machines.
    tables
        Goodput by application name.
    """

    jobs: tuple[TrainingJob, ...]
    applications: tuple[Application, ...]
    nodes: Nodes
    tables: Mapping[str, GoodputTable]

    @classmethod
    def of(cls, jobs: Sequence[TrainingJob], profiles: Mapping[str, Application], nodes: Nodes) -> Scenario:
        """Join jobs, profiles and machines.

        Raises
        ------
        InvalidInstance
            If there is no job, a job wants more GPUs than there are, or a profile lacks a GPU type.
        """
        problems = []
        if not jobs:
            problems.append(Problem("workload", "has no job"))
        total = nodes.total_gpus
        for job in jobs:
            if job.gpus > total:
                problems.append(Problem(job.name, f"asks for {job.gpus} GPUs, the cluster has {total}"))
        used = {job.application for job in jobs}
        for name in sorted(used):
            if not set(nodes.types) & set(profiles[name].step_times):
                known = ", ".join(profiles[name].step_times)
                problems.append(Problem(name, f"was measured on none of the cluster's GPUs, only on {known}"))
        if problems:
            raise InvalidInstance(problems[:20])
        ending: dict[tuple[str, int, float], Application] = {}  # jobs that are alike share theirs
        applications = tuple(
            ending.setdefault((job.application, epochs, job.work), profile.ending(epochs, job.work))
            for job in jobs
            if (profile := profiles[job.application]) and (epochs := job.epochs or profile.epochs)
        )
        tables = {name: GoodputTable(profiles[name]) for name in sorted(used)}
        return cls(tuple(jobs), applications, nodes, tables)

    @property
    def submitted_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """float64 [jobs]."""
        return np.array([job.submitted_s for job in self.jobs], dtype=np.float64)

    @property
    def requested_gpus(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """int64 [jobs]."""
        return np.array([job.gpus for job in self.jobs], dtype=np.int64)

    def check_requests(self) -> None:
        """Check that every job can run as its user asked, on at least one GPU type.

        For policies that keep the users' GPU counts and batches: what nobody measured would wait for ever.

        Raises
        ------
        InvalidInstance
            If nothing was measured for a job's batch on its GPU count; every such job is named.
        """
        sizes = {
            name: self.nodes.gpus[self.nodes.of_type(kind)] for kind, name in enumerate(self.nodes.types)
        }
        groups = ", ".join(f"{own.sum()} of type {name}" for name, own in sizes.items())
        known: dict[tuple[str, int, int], bool] = {}
        problems = []
        for job, application in zip(self.jobs, self.applications, strict=True):
            asked = (job.application, job.batch, job.gpus)
            if asked not in known:
                belief = JobBelief(application, job.batch, epoch=0, progress=0.0)
                known[asked] = any(
                    own.sum() >= job.gpus and belief.rate(filled(job.gpus, int(own.max())), name) > 0
                    for name, own in sizes.items()
                )
            if not known[asked]:
                problems.append(
                    Problem(
                        job.name,
                        f"a batch of {job.batch} on {job.gpus} GPUs was measured for {job.application} on "
                        f"none of the cluster's GPUs ({groups}): it would wait for ever; change "
                        "num_replicas or batch_size, or take a policy that chooses them (sia, pollux)",
                        job=job.name,
                    )
                )
        if problems:
            raise InvalidInstance(problems)

    def ground_truth(
        self,
        adaptive: bool,
        freezing: FreezingProfiles = _NOTHING,
        theta: float = 1.0,
        slowdowns: Mapping[str, float] = MappingProxyType({}),
    ) -> MeasuredTraining:
        """Return what the jobs really do.

        Parameters
        ----------
        adaptive
            Whether they choose their batch by themselves, or keep their user's.
        freezing
            The true effect of freezing, by application.
        theta
            True scale of the frozen penalty.
        slowdowns
            By application, by how much its jobs run slower than was measured.

        Raises
        ------
        InvalidOption
            If a slow-down is not positive, or of an application that no job has.
        """
        for name, factor in slowdowns.items():
            if name not in self.tables:
                known = ", ".join(self.tables)
                raise InvalidOption(f"slowdown: no job is of application {name!r}; there are {known}")
            if not 0 < factor < 1e6:
                raise InvalidOption(f"slowdown of {name} must be positive, not {factor}")
        if adaptive:
            rule = most_goodput([self.tables[job.application] for job in self.jobs])
        else:
            rule = fixed_batches(self.applications, [job.batch for job in self.jobs])
        return MeasuredTraining(self.applications, rule, freezing, theta, slowdowns)

    def unfreezable(self, freezing: FreezingProfiles) -> dict[str, int]:
        """Return how many jobs each application has that `freezing` does not tell: they run unfrozen."""
        return dict(Counter(job.application for job in self.jobs if job.application not in freezing))

    def beliefs(
        self,
        adaptive: bool,
        freezing: FreezingProfiles = _NOTHING,
        theta: float = 1.0,
        noise: float = 0.0,
        seed: int = 0,
    ) -> Beliefs:
        """Return what the scheduler believes; nothing of it moves with the truth but what can be observed.

        Parameters
        ----------
        adaptive
            Whether jobs choose their batch by themselves.
        freezing
            What freezing is believed to do, by application; one that is not there is not to be frozen.
        theta
            Believed scale of the frozen penalty.
        noise
            Standard deviation of the logarithm of an error in the believed throughput, drawn once for every
            job and GPU count.
        seed
            Random seed of the errors of the beliefs.
        """
        errors: NDArray[np.float64] | None = None
        if noise:
            shape = (len(self.jobs), self.nodes.total_gpus + 1)
            errors = np.exp(np.random.default_rng(seed).normal(0.0, noise, shape))

        memories: dict[tuple[str, int | None], dict[Any, Any]] = {}

        def belief(job: int, states: JobStates) -> JobBelief:
            application = self.applications[job]
            profile = freezing.get(application.name)
            belief = JobBelief(
                application=application,
                batch=self.jobs[job].batch,
                epoch=int(states.epoch[job]),
                progress=float(states.progress[job]),
                goodput=self.tables[application.name] if adaptive else None,
                freezing=None if profile is None else BelievedFreezing(profile, theta),
                asked=float(self.tables[application.name].application.progress[-1]) * self.jobs[job].work,
            )
            known = memories.setdefault((application.name, None if adaptive else belief.batch), {})
            return RememberedBelief.of(belief, known, None if errors is None else errors[job])

        return belief


def homogeneous(nodes: int, gpus_per_node: int, gpu_type: str) -> Nodes:
    """Return `nodes` alike machines."""
    return Nodes(np.full(nodes, gpus_per_node), np.zeros(nodes, dtype=np.int64), (gpu_type,))


def parse_nodes(text: str) -> Nodes:
    """Read machines as ``TYPE:NODESxGPUS`` joined by commas.

    Raises
    ------
    InvalidOption
        If the text is not of that form.

    Examples
    --------
    >>> parse_nodes("aws:2x4,dgx:1x8").gpus.tolist()
    [4, 4, 8]
    """
    form = re.compile(r"([\w-]+):([1-9]\d{0,5})x([1-9]\d{0,3})")
    found = [form.fullmatch(part.strip()) for part in text.split(",")]
    types = [match[1] for match in found if match]
    if len(types) != len(found) or len(set(types)) != len(types):
        raise InvalidOption(f"machines must be TYPE:NODESxGPUS by commas, each type once; got {text!r}")
    counts = [int(match[2]) for match in found if match]
    sizes = [int(match[3]) for match in found if match]
    return Nodes(np.repeat(sizes, counts), np.repeat(np.arange(len(types)), counts), tuple(types))
