"""Run a policy over a workload on a cluster, round by round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError, InvalidOption
from apportion.interruption import raise_if_interrupted
from apportion.policies.cluster.belief import Belief
from apportion.policies.cluster.claims import Claims
from apportion.policies.cluster.cluster_view import (
    ClusterPlan,
    ClusterPolicy,
    ClusterView,
    Nodes,
    check_cluster_plan,
)
from apportion.simulation.cluster.co_location import CoLocation, DistributedNeighbours
from apportion.simulation.cluster.job_states import JobStates
from apportion.simulation.cluster.nature import Nature

__all__ = ["Account", "Beliefs", "ClusterRun", "Present", "Stalled", "run_cluster"]

_PATIENCE_ROUNDS = 10_000

Present = Callable[[float], NDArray[np.bool_]]
"""bool [nodes]: which machines are there at a time; the others' GPUs are gone and their jobs pre-empted."""

Beliefs = Callable[[int, JobStates], Belief]
"""What the scheduler believes of a job now, given its number and what can be observed of it."""


class Account(Protocol):
    """Somebody who watches every round from before it to after it."""

    def before(self, active: NDArray[np.int64], states: JobStates) -> None:
        """Look at the jobs that are there when a round begins."""

    def after(self, now_s: float, seconds: float, active: NDArray[np.int64], states: JobStates) -> None:
        """Look at the same jobs when it has ended, at `now_s`."""


class Stalled(ApportionError):
    """Jobs wait, none runs, and the policy gives nobody a GPU round after round."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterRun:
    """The course of every job in one simulation, and what was counted.

    Attributes
    ----------
    submitted_s, completed_s
        float64 [jobs]: seconds; NaN for a job the limit cut off.
    restarts
        int64 [jobs].
    attained_gpu_s, attained_s, frozen_s
        float64 [jobs]: GPU-seconds, seconds with GPUs, and frozen fraction x seconds.
    rounds
        Rounds in which the policy was asked.
    events
        Submissions, reallocations and completions.
    """

    submitted_s: NDArray[np.float64]
    completed_s: NDArray[np.float64]
    restarts: NDArray[np.int64]
    attained_s: NDArray[np.float64]
    attained_gpu_s: NDArray[np.float64]
    frozen_s: NDArray[np.float64]
    rounds: int
    events: int

    def __repr__(self) -> str:
        done = int(np.isfinite(self.completed_s).sum())
        return f"<ClusterRun: {done} of {self.submitted_s.size} jobs done, {self.rounds} rounds>"


def run_cluster(
    policy: ClusterPolicy,
    nodes: Nodes,
    nature: Nature,
    submitted_s: NDArray[np.float64],
    requested_gpus: NDArray[np.int64],
    beliefs: Beliefs,
    *,
    round_s: float = 60.0,
    restart_s: float | NDArray[np.float64] = 30.0,
    rebuild_s: float = 0.0,
    interference: float | CoLocation = 0.0,
    limit_s: float | None = None,
    present: Present | None = None,
    observe: Callable[[ClusterView, ClusterPlan], None] | None = None,
    claims: Claims | None = None,
    account: Account | None = None,
) -> ClusterRun:
    """Simulate until every job is complete.

    Every round all jobs advance by `round_s`; then the policy sees those submitted and not complete. Jobs are
    numbered in the workload's order.

    Parameters
    ----------
    policy
        The policy; it sees views only.
    nodes
        The machines.
    nature
        What the jobs really do.
    submitted_s, requested_gpus
        float64 and int64 [jobs].
    beliefs
        What the scheduler believes.
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
    observe
        Called after every decision.
    claims
        Whose the jobs are and what they claim; policies see it.
    account
        Watches every round.

    Raises
    ------
    InvalidClusterPlan, NoProgress, Stalled
        If the policy's plan breaks a rule, puts a job where nothing was measured, or starves everyone.
    InvalidOption
        If a number is out of its range.
    KeyboardInterrupt
        After Ctrl-C, whatever a solver inside made of it.
    """
    if not 0 < round_s < 1e9:
        raise InvalidOption(f"round_s must be positive seconds, not {round_s}")
    delays = np.broadcast_to(np.asarray(restart_s, dtype=np.float64), submitted_s.shape).copy()
    states = JobStates(nature, nodes, submitted_s, delays, rebuild_s, _co_location(interference))
    course = _Course(nodes, states, submitted_s, requested_gpus, beliefs, round_s, claims, account)
    while course.goes_on:
        course.skip_to_the_next_submission()
        if limit_s is not None and course.now >= limit_s:
            break
        finished = course.advance()
        if not course.active.size:
            continue
        machines, evicted = course.machines(present)
        view = course.view(machines)
        plan = policy(view)
        raise_if_interrupted()
        check_cluster_plan(view, plan)
        course.apply(view, plan, finished or evicted)
        if observe is not None:
            observe(view, plan)
    return course.so_far()


def _co_location(interference: float | CoLocation) -> CoLocation | None:
    """Return what jobs lose by whom they run beside, ``None`` if nothing."""
    if callable(interference):
        return interference
    if not 0 <= interference < 1:
        raise InvalidOption(f"interference must be from 0 to below 1, not {interference}")
    return DistributedNeighbours(interference) if interference else None


class _Course:
    """A simulation under way: the time, who waits or runs, and what has been counted."""

    def __init__(
        self,
        nodes: Nodes,
        states: JobStates,
        submitted_s: NDArray[np.float64],
        requested_gpus: NDArray[np.int64],
        beliefs: Beliefs,
        round_s: float,
        claims: Claims | None,
        account: Account | None,
    ) -> None:
        self._nodes, self._states, self._beliefs = nodes, states, beliefs
        self._claims, self._account = claims, account
        self._submitted_s, self._requested_gpus, self._round_s = submitted_s, requested_gpus, round_s
        self._arrivals = np.argsort(submitted_s, kind="stable")
        self._arrived = self._rounds = self._events = self._idle_rounds = 0
        self.now = 0.0
        self.active = np.empty(0, dtype=np.int64)

    @property
    def goes_on(self) -> bool:
        """Whether a job is not complete, or not submitted yet."""
        return bool(self.active.size) or self._arrived < self._arrivals.size

    def skip_to_the_next_submission(self) -> None:
        """Where no job is there, skip the rounds before the one that the next submission falls into."""
        if not self.active.size:
            ahead = float(self._submitted_s[self._arrivals[self._arrived]]) - self.now
            self.now += max(0.0, np.ceil(ahead / self._round_s) - 1) * self._round_s

    def advance(self) -> bool:
        """Let all jobs run for a round and new ones arrive; return whether a job was completed."""
        if self._account is not None:
            self._account.before(self.active, self._states)
        self._states.advance(self.active, self.now, self._round_s)
        self.now += self._round_s
        if self._account is not None and self.active.size:
            self._account.after(self.now, self._round_s, self.active, self._states)
        finished = ~np.isnan(self._states.completed_s[self.active])
        self.active = self.active[~finished]
        upto = int(np.searchsorted(self._submitted_s[self._arrivals], self.now, side="right"))
        if upto > self._arrived:
            self.active = np.sort(np.concatenate((self.active, self._arrivals[self._arrived : upto])))
        self._events += int(finished.sum()) + upto - self._arrived
        self._arrived = upto
        return bool(finished.any())

    def machines(self, present: Present | None) -> tuple[Nodes, bool]:
        """Return the machines that are there, and whether a job was pre-empted because one is not."""
        if present is None:
            return self._nodes, False
        there = present(self.now)
        evicted = self._states.evict(self.active, there)
        self._events += evicted
        gpus = np.where(there, self._nodes.gpus, 0)
        return Nodes(gpus, self._nodes.kind, self._nodes.types), evicted > 0

    def view(self, machines: Nodes) -> ClusterView:
        """Return what the policy sees."""
        active, states = self.active, self._states
        return ClusterView(
            time_s=self.now,
            round_s=self._round_s,
            nodes=machines,
            jobs=active,
            submitted_s=self._submitted_s[active],
            requested_gpus=self._requested_gpus[active],
            held=[states.held[job] for job in active.tolist()],
            depth=states.depth[active],
            attained_s=states.attained_s[active],
            attained_gpu_s=states.attained_gpu_s[active],
            restarts=states.restarts[active],
            frozen_s=states.frozen_s[active],
            restart_s=states.restart_s[active],
            beliefs=_Lazily(active, states, self._beliefs),
            claims=None if self._claims is None else self._claims.of_jobs(active),
        )

    def apply(self, view: ClusterView, plan: ClusterPlan, disturbed: bool) -> None:
        """Reallocate whoever changes; `disturbed` says that jobs ended or were pre-empted in this round."""
        changed = 0
        depth = np.zeros(view.num_jobs, dtype=np.int64) if plan.depth is None else plan.depth
        refrozen = depth != view.depth
        for position, (held, gets) in enumerate(zip(view.held, plan.nodes, strict=True)):
            if (gets is not held and gets != held) or refrozen[position]:
                self._states.reallocate(int(view.jobs[position]), tuple(gets), int(depth[position]))
                changed += 1
        if changed or disturbed:
            self._states.share_nodes(self.active)
        self._rounds += 1
        self._events += changed
        waits = not any(plan.nodes) and self._arrived == self._arrivals.size
        self._idle_rounds = self._idle_rounds + 1 if waits else 0
        if self._idle_rounds > _PATIENCE_ROUNDS:
            raise Stalled(f"{self.active.size} jobs wait and none has run for {self._idle_rounds} rounds")

    def so_far(self) -> ClusterRun:
        """Return the course of every job until now."""
        return ClusterRun(
            submitted_s=self._submitted_s,
            completed_s=self._states.completed_s,
            restarts=self._states.restarts,
            attained_s=self._states.attained_s,
            attained_gpu_s=self._states.attained_gpu_s,
            frozen_s=self._states.frozen_s,
            rounds=self._rounds,
            events=self._events,
        )


class _Lazily(Sequence[Belief]):
    """Beliefs made when they are asked for: many policies look at none."""

    def __init__(self, active: NDArray[np.int64], states: JobStates, beliefs: Beliefs) -> None:
        self._active, self._states, self._beliefs = active, states, beliefs
        self._made: dict[int, Belief] = {}

    def __len__(self) -> int:
        return int(self._active.size)

    def __getitem__(self, position: int) -> Belief:  # type: ignore[override]
        if position not in self._made:
            self._made[position] = self._beliefs(int(self._active[position]), self._states)
        return self._made[position]
