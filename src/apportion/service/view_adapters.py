"""What a gap-filling policy is shown of an instance, and what its answer means to the instance.

What a cluster policy is shown of a layer-freezing round, and what its answer means to the round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.cluster.policies.gap_filling_view import FREE, GapFillingView, Plan, check_plan
from apportion.cluster.policies.rounds.cluster_view import (
    ClusterPlan,
    ClusterPolicy,
    ClusterView,
    Nodes,
    check_cluster_plan,
)
from apportion.core.errors import InvalidOption
from apportion.instances import FreezingInstance, FreezingJob, GapFillingInstance
from apportion.instances.freezing.nodes import TypeNodes, nodes_of

__all__ = ["ClusterViewAdapter", "GapFillingViewAdapter", "MenuBelief", "PlacementViewAdapter"]


class PlacementViewAdapter:
    """The instance itself, to policies that read it, whose answers are plans."""

    def view(self, instance: Any, time_s: float) -> Any:
        """Return the instance."""
        return instance

    def plan(self, view: Any, policy: Callable[[Any], Any], instance: Any) -> dict[str, Any]:
        """Return the answer."""
        found: dict[str, Any] = policy(view)
        return found


_MOST_GPUS = 1_000_000
"""GPUs of a round up to which policies are asked."""


class MenuBelief:
    """A job known by the menu of its instance: its effective progress with nothing frozen."""

    def __init__(self, job: FreezingJob, gpus: Mapping[str, int]) -> None:
        self._job = job
        self._rates = {
            (row.gpu_type, row.gpus): row.effective_progress[row.depths.index(0)]
            for row in job.menu
            if 0 in row.depths and row.effective_progress[row.depths.index(0)] > 0
            if row.gpus <= gpus.get(row.gpu_type, 0)
        }

    @property
    def counts(self) -> set[int]:
        """The GPU counts on which it makes any progress, as far as the cluster has as many."""
        return {gpus for _, gpus in self._rates}

    @property
    def remaining_progress(self) -> float:
        """The job's ``remaining_work``.

        Raises
        ------
        InvalidOption
            If the instance does not say it.
        """
        if self._job.remaining_work is None:
            raise InvalidOption(
                f"this policy asks what is left to do; give job {self._job.id!r} remaining_work"
            )
        return self._job.remaining_work

    @property
    def max_gpus(self) -> int:
        """The most GPUs on its menu, at least 1."""
        return max((gpus for _, gpus in self._rates), default=1)

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the effective progress on that many GPUs, NaN where the menu has none."""
        return self._rates.get((gpu_type, sum(placement)), float("nan"))


class _Layout:
    """The nodes of a round: those of every GPU type one after the other; a type without any is one node."""

    def __init__(self, instance: FreezingInstance) -> None:
        self.types = list(instance.gpus)
        self.nodes: dict[str, TypeNodes | None] = {name: nodes_of(instance, name) for name in self.types}
        self.first: dict[str, int] = {}
        gpus: list[int] = []
        kind: list[int] = []
        for number, name in enumerate(self.types):
            nodes, self.first[name] = self.nodes[name], len(gpus)
            room = [instance.gpus[name]] if nodes is None else nodes.room()
            gpus += room
            kind += [number] * len(room)
        self.gpus, self.kind = np.array(gpus, dtype=np.int64), np.array(kind, dtype=np.int64)

    def nodes_of_gpus(self, jobs: Sequence[FreezingJob]) -> list[tuple[int, ...]]:
        """Return the node of every GPU that a job holds; who does not say its nodes is put where it fits."""
        room = self.gpus.copy()
        found: list[tuple[int, ...]] = [()] * len(jobs)
        order = sorted(range(len(jobs)), key=lambda at: (not _says_nodes(jobs[at]), -_gpus(jobs[at]), at))
        for at in order:
            indices = self._place(jobs[at], room)
            for node in indices:
                room[node] -= 1
            found[at] = indices
        return found

    def _place(self, job: FreezingJob, room: NDArray[np.int64]) -> tuple[int, ...]:
        now = job.current
        if now is None or now.gpu_type not in self.first:
            return ()
        first, nodes = self.first[now.gpu_type], self.nodes[now.gpu_type]
        if nodes is None:
            return (first,) * now.gpus if room[first] >= now.gpus else ()
        needed, each = nodes.needed(now.gpus), min(now.gpus, nodes.size)
        if needed is None:
            return ()
        own = range(first, first + len(nodes.names))
        wanted = list(own)
        if now.nodes is not UNSET:
            wanted = [first + nodes.names.index(name) for name in now.nodes]
        free = [node for node in wanted if room[node] >= each][:needed]
        return tuple(node for node in free for _ in range(each)) if len(free) == needed else ()


class ClusterViewAdapter:
    """Turns rounds into views, and remembers what a round does not hold: how long jobs have had GPUs."""

    def __init__(self) -> None:
        self._jobs: dict[str, int] = {}
        self._attained: dict[str, NDArray[np.float64]] = {}  # seconds, GPU seconds, frozen seconds
        self._before: tuple[float, FreezingInstance] | None = None

    def view(self, instance: FreezingInstance, time_s: float) -> ClusterView:
        """Return what a policy is shown.

        A job asks for the GPUs that it holds, one that waits for the fewest on its menu; one that makes no
        progress anywhere is not shown. Seconds of service are counted from the decisions that this session
        has seen.

        Raises
        ------
        InvalidOption
            If there are more than a million GPUs.
        """
        if sum(instance.gpus.values()) > _MOST_GPUS:
            raise InvalidOption(f"policies look at GPUs one by one: at most {_MOST_GPUS:,} of them")
        self._serve(time_s)
        self._before = (time_s, instance)
        for job in instance.jobs:
            self._jobs.setdefault(job.id, len(self._jobs))
        layout = _Layout(instance)
        believed = [(job, MenuBelief(job, instance.gpus)) for job in instance.jobs]
        jobs, beliefs = (
            [job for job, known in believed if known.counts],
            [known for _, known in believed if known.counts],
        )
        served = np.array([self._attained.get(job.id, np.zeros(3)) for job in jobs]).reshape(len(jobs), 3)
        came = [job.submitted_s if job.submitted_s is not UNSET else time_s - job.age_s for job in jobs]
        return ClusterView(
            time_s=time_s,
            round_s=instance.round_s,
            nodes=Nodes(layout.gpus, layout.kind, tuple(layout.types)),
            jobs=np.array([self._jobs[job.id] for job in jobs], dtype=np.int64),
            submitted_s=np.array(came, dtype=np.float64),
            requested_gpus=np.array(
                [_requested(job, known) for job, known in zip(jobs, beliefs, strict=True)], dtype=np.int64
            ),
            held=layout.nodes_of_gpus(jobs),
            depth=np.array([0 if job.current is None else job.current.depth for job in jobs], dtype=np.int64),
            attained_s=served[:, 0],
            attained_gpu_s=served[:, 1],
            restarts=np.array([job.restarts for job in jobs], dtype=np.int64),
            frozen_s=served[:, 2],
            restart_s=np.array([job.restart_s for job in jobs], dtype=np.float64),
            beliefs=beliefs,
        )

    def plan(self, view: ClusterView, policy: ClusterPolicy, instance: FreezingInstance) -> dict[str, Any]:
        """Return the plan of a policy's answer as it stands in JSON; it is not asked where no job is shown.

        Raises
        ------
        InvalidClusterPlan
            If the answer breaks a rule of its view.
        """
        answer = policy(view) if view.num_jobs else ClusterPlan(())
        check_cluster_plan(view, answer)
        layout, configuration = _Layout(instance), {}
        names = {number: name for name, number in self._jobs.items()}
        depth = [0] * view.num_jobs if answer.depth is None else answer.depth.tolist()
        for job, gpus, frozen in zip(view.jobs.tolist(), answer.nodes, depth, strict=True):
            if not gpus:
                continue
            name = layout.types[int(layout.kind[gpus[0]])]
            nodes = layout.nodes[name]
            place: dict[str, Any] = {"gpu_type": name, "gpus": len(gpus), "depth": frozen}
            if nodes is not None:
                place["nodes"] = [nodes.names[node - layout.first[name]] for node in sorted(set(gpus))]
            configuration[names[job]] = place
        return {"configuration": configuration}

    def _serve(self, time_s: float) -> None:
        """Book the time since the last view to the jobs that ran then."""
        if self._before is None:
            return
        then_s, instance = self._before
        seconds = max(0.0, time_s - then_s)
        for job in instance.jobs:
            if job.current is not None:
                share = job.current.depth / job.layers
                served = np.array([seconds, seconds * job.current.gpus, seconds * share])
                self._attained[job.id] = self._attained.get(job.id, np.zeros(3)) + served


def _says_nodes(job: FreezingJob) -> bool:
    return job.current is not None and job.current.nodes is not UNSET


def _gpus(job: FreezingJob) -> int:
    return 0 if job.current is None else job.current.gpus


def _requested(job: FreezingJob, known: MenuBelief) -> int:
    held = _gpus(job)
    return held if held in known.counts else min(known.counts)


class GapFillingViewAdapter:
    """Turns instances into views, and remembers what an instance does not hold.

    Jobs and nodes get numbers that stay the same; since when a node has been idle, and how long those that
    left had been, is counted from when they were first seen.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._idle_since: dict[str, float] = {}

    def view(self, instance: GapFillingInstance, time_s: float) -> GapFillingView:
        """Return what a policy is shown.

        Rates are those of the instance times the weight of the job, so that the sum of the rates is what the
        objective weighs. How much is left of a job is not known: infinity. A job whose minimum exceeds the
        idle nodes is not shown; it can get none.
        """
        idle = len(instance.nodes)
        departed = self._see_nodes(instance, time_s)
        for job in instance.jobs:
            self._jobs.setdefault(job.id, len(self._jobs))
        shown = sorted(
            (job for job in instance.jobs if job.min_nodes <= idle), key=lambda job: self._jobs[job.id]
        )
        width = 1 + min(idle, max((max(job.max_nodes, len(job.current_nodes)) for job in shown), default=0))
        counts = np.arange(width)
        rates = [job.weight * np.interp(counts, job.scaling.nodes, job.scaling.rate) for job in shown]
        listed = np.array(
            [[job.allows(count) for count in range(width)] for job in shown], dtype=np.bool_
        ).reshape(len(shown), width)
        nodes = sorted(instance.nodes, key=self._nodes.__getitem__)
        position = {node: at for at, node in enumerate(nodes)}
        holder = np.full(idle, FREE, dtype=np.int64)
        for number, job in enumerate(shown):
            holder[[position[node] for node in job.current_nodes]] = number
        return GapFillingView(
            time_s=time_s,
            jobs=np.array([self._jobs[job.id] for job in shown], dtype=np.int64),
            rates=np.array(rates, dtype=np.float64).reshape(len(shown), width),
            min_nodes=np.array([job.min_nodes for job in shown], dtype=np.int64),
            max_nodes=np.array([min(job.max_nodes, width - 1) for job in shown], dtype=np.int64),
            up_s=np.array([job.rescale_up_s for job in shown], dtype=np.float64),
            down_s=np.array([job.rescale_down_s for job in shown], dtype=np.float64),
            remaining=np.full(len(shown), np.inf),
            nodes=np.array([self._nodes[node] for node in nodes], dtype=np.int64),
            holder=holder,
            idle_since_s=np.array([self._idle_since[node] for node in nodes], dtype=np.float64),
            departed_after_s=departed,
            waiting=0,
            measured=np.full(len(shown), np.nan),
            listed=listed if any(not row.all() for row in listed) else None,
        )

    def plan(
        self, view: GapFillingView, policy: Callable[[GapFillingView], Plan], _: GapFillingInstance
    ) -> dict[str, Any]:
        """Return the plan of a policy's answer as it stands in JSON.

        Raises
        ------
        InvalidPlan
            If the answer breaks a rule of its view.
        """
        answer = policy(view)
        check_plan(view, answer)
        jobs = {number: name for name, number in self._jobs.items()}
        nodes = {number: name for name, number in self._nodes.items()}
        allocation: dict[str, list[str]] = {}
        for node, job in zip(view.nodes.tolist(), answer.holder.tolist(), strict=True):
            if job != FREE:
                allocation.setdefault(jobs[int(view.jobs[job])], []).append(nodes[node])
        return {"allocation": allocation}

    def _see_nodes(self, instance: GapFillingInstance, time_s: float) -> NDArray[np.float64]:
        """Note which nodes came and went; return how long those that left had been idle."""
        idle = set(instance.nodes)
        gone = [node for node in self._idle_since if node not in idle]
        departed = [time_s - self._idle_since.pop(node) for node in gone]
        for node in instance.nodes:
            self._nodes.setdefault(node, len(self._nodes))
            self._idle_since.setdefault(node, time_s)
        return np.array(departed, dtype=np.float64)
