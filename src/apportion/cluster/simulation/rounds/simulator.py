"""Run a policy over a workload on a cluster, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.belief import Belief
from apportion.cluster.policies.rounds.cluster_view import (
    ClusterPlan,
    ClusterPolicy,
    ClusterView,
    Nodes,
    check_cluster_plan,
)
from apportion.cluster.policies.rounds.placing import filled
from apportion.cluster.simulation.rounds.job_states import (
    Beliefs,
    JobStates,
    Observe,
    RoundRules,
    SimulatedJobs,
)
from apportion.core.errors import ApportionError
from apportion.core.interruption import raise_if_interrupted

__all__ = ["Account", "ClusterRun", "Stalled", "run_cluster"]

_PATIENCE_ROUNDS = 10_000
_PATIENCE_UNMEASURED = 100
"""Rounds where no waiting job could run on the GPUs it asked for: a policy may yet choose other counts."""
_NAMED = 20


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
    jobs: SimulatedJobs,
    rules: RoundRules | None = None,
    *,
    observe: Observe | None = None,
    account: Account | None = None,
) -> ClusterRun:
    """Simulate until every job is complete.

    Every round all jobs advance by its length; then the policy sees those submitted and not complete.

    Parameters
    ----------
    policy
        The policy; it sees views only.
    nodes
        The machines.
    jobs
        The jobs.
    rules
        How long rounds are, what changes cost, and when it ends; ``None`` for the defaults.
    observe
        Called after every decision.
    account
        Watches every round.

    Raises
    ------
    InvalidClusterPlan, NoProgress, Stalled
        If the policy's plan breaks a rule, puts a job where nothing was measured, or starves everyone.
    KeyboardInterrupt
        After Ctrl-C, whatever a solver inside made of it.
    """
    rules = RoundRules() if rules is None else rules
    course = _Course(nodes, jobs, rules, account)
    while course.goes_on:
        course.skip_to_the_next_submission()
        if rules.limit_s is not None and course.now >= rules.limit_s:
            break
        finished = course.advance()
        if not course.active.size:
            continue
        machines, evicted = course.machines()
        view = course.view(machines)
        plan = policy(view)
        raise_if_interrupted()
        check_cluster_plan(view, plan)
        course.apply(view, plan, finished or evicted)
        if observe is not None:
            observe(view, plan)
    return course.so_far()


class _Course:
    """A simulation under way: the time, who waits or runs, and what has been counted."""

    def __init__(self, nodes: Nodes, jobs: SimulatedJobs, rules: RoundRules, account: Account | None) -> None:
        submitted_s = jobs.submitted_s
        delays = np.broadcast_to(np.asarray(rules.restart_s, dtype=np.float64), submitted_s.shape).copy()
        self._states = JobStates(
            jobs.ground_truth, nodes, submitted_s, delays, rules.rebuild_s, rules.co_location
        )
        self._nodes, self._jobs, self._rules, self._account = nodes, jobs, rules, account
        self._submitted_s, self._round_s = submitted_s, rules.round_s
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

    def machines(self) -> tuple[Nodes, bool]:
        """Return the machines that are there, and whether a job was pre-empted because one is not."""
        if self._rules.present is None:
            return self._nodes, False
        there = self._rules.present(self.now)
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
            requested_gpus=self._jobs.requested_gpus[active],
            held=[states.held[job] for job in active.tolist()],
            depth=states.depth[active],
            attained_s=states.attained_s[active],
            attained_gpu_s=states.attained_gpu_s[active],
            restarts=states.restarts[active],
            frozen_s=states.frozen_s[active],
            restart_s=states.restart_s[active],
            beliefs=_Lazily(active, states, self._jobs.beliefs),
            claims=None if self._jobs.claims is None else self._jobs.claims.of_jobs(active),
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
        if self._idle_rounds >= _PATIENCE_UNMEASURED:
            self._give_up(view)

    def _give_up(self, view: ClusterView) -> None:
        """Raise if waiting is in vain: every job that waits can run nowhere, or the rounds were too many."""
        nowhere = [position for position in range(view.num_jobs) if not _runs_as_asked(view, position)]
        if len(nowhere) < view.num_jobs and self._idle_rounds <= _PATIENCE_ROUNDS:
            return
        names = ", ".join(map(str, view.jobs[:_NAMED].tolist())) + (", ..." if view.num_jobs > _NAMED else "")
        raise Stalled(
            f"{view.num_jobs} jobs wait and none has run for {self._idle_rounds} rounds: {names} (numbered "
            f"from 0 in the workload's order). {len(nowhere)} of them run on the GPUs they asked for on no "
            "type: change their GPU counts or batches, or take a policy that chooses them"
        )

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


def _runs_as_asked(view: ClusterView, position: int) -> bool:
    """Return whether a job is believed to run on the GPU count it asked for, on some type."""
    wanted = int(view.requested_gpus[position])
    for kind, name in enumerate(view.nodes.types):
        own = view.nodes.gpus[view.nodes.of_type(kind)]
        if own.sum() >= wanted and view.beliefs[position].rate(filled(wanted, int(own.max())), name) > 0:
            return True
    return False


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
