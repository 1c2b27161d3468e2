"""Run a policy over a workload on a cluster, round by round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError, InvalidOption
from apportion.interruption import raise_if_interrupted
from apportion.policies.cluster.belief import Belief
from apportion.policies.cluster.view import ClusterPlan, ClusterPolicy, ClusterView, Nodes, check_cluster_plan
from apportion.simulation.cluster.co_location import CoLocation, DistributedNeighbours
from apportion.simulation.cluster.job_states import JobStates
from apportion.simulation.cluster.nature import Nature

__all__ = ["Beliefs", "ClusterRun", "Present", "Stalled", "run_cluster"]

_PATIENCE_ROUNDS = 10_000

Present = Callable[[float], NDArray[np.bool_]]
"""bool [nodes]: which machines are there at a time; the others' GPUs are gone and their jobs pre-empted."""

Beliefs = Callable[[int, JobStates], Belief]
"""What the scheduler believes of a job now, given its number and what can be observed of it."""


class Stalled(ApportionError):
    """Jobs wait, none runs, and the policy gives nobody a GPU round after round."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterRun:
    """What happened.

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
) -> ClusterRun:
    """Simulate until every job is complete.

    Every round all jobs advance by `round_s`; then the policy sees those submitted and not complete. Jobs are
    numbered in the workload's order.

    Parameters
    ----------
    policy
        What to do; sees views only.
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
    co_location: CoLocation | None
    if callable(interference):
        co_location = interference
    elif 0 <= interference < 1:
        co_location = DistributedNeighbours(interference) if interference else None
    else:
        raise InvalidOption(f"interference must be from 0 to below 1, not {interference}")
    delays = np.broadcast_to(np.asarray(restart_s, dtype=np.float64), submitted_s.shape).copy()
    states = JobStates(nature, nodes, submitted_s, delays, rebuild_s, co_location)
    arrivals = np.argsort(submitted_s, kind="stable")
    arrived, rounds, events, idle_rounds, now = 0, 0, 0, 0, 0.0
    active = np.empty(0, dtype=np.int64)
    while active.size or arrived < arrivals.size:
        if not active.size:
            # nothing can happen before the next submission; stay on the grid of rounds
            ahead = float(submitted_s[arrivals[arrived]]) - now
            now += max(0.0, np.ceil(ahead / round_s) - 1) * round_s
        if limit_s is not None and now >= limit_s:
            break
        states.advance(active, now, round_s)
        now += round_s
        finished = ~np.isnan(states.completed_s[active])
        active = active[~finished]
        upto = int(np.searchsorted(submitted_s[arrivals], now, side="right"))
        if upto > arrived:
            active = np.sort(np.concatenate((active, arrivals[arrived:upto])))
        events += int(finished.sum()) + upto - arrived
        arrived = upto
        if not active.size:
            continue
        machines, evicted = nodes, 0
        if present is not None:
            there = present(now)
            machines = Nodes(np.where(there, nodes.gpus, 0), nodes.kind, nodes.types)
            evicted = states.evict(active, there)
            events += evicted
        view = _view(active, now, round_s, machines, requested_gpus, submitted_s, states, beliefs)
        plan = policy(view)
        raise_if_interrupted()
        check_cluster_plan(view, plan)
        changed = _apply(states, view, plan)
        if changed or evicted or finished.any():
            states.share_nodes(active)
        rounds += 1
        events += changed
        idle_rounds = 0 if any(plan.nodes) or arrived < arrivals.size else idle_rounds + 1
        if idle_rounds > _PATIENCE_ROUNDS:
            raise Stalled(f"{active.size} jobs wait and none has run for {idle_rounds} rounds")
        if observe is not None:
            observe(view, plan)
    return ClusterRun(
        submitted_s=submitted_s,
        completed_s=states.completed_s,
        restarts=states.restarts,
        attained_s=states.attained_s,
        attained_gpu_s=states.attained_gpu_s,
        frozen_s=states.frozen_s,
        rounds=rounds,
        events=events,
    )


def _view(
    active: NDArray[np.int64],
    now: float,
    round_s: float,
    nodes: Nodes,
    requested: NDArray[np.int64],
    submitted_s: NDArray[np.float64],
    states: JobStates,
    beliefs: Beliefs,
) -> ClusterView:
    return ClusterView(
        time_s=now,
        round_s=round_s,
        nodes=nodes,
        jobs=active,
        submitted_s=submitted_s[active],
        requested_gpus=requested[active],
        held=[states.held[job] for job in active.tolist()],
        depth=states.depth[active],
        attained_s=states.attained_s[active],
        attained_gpu_s=states.attained_gpu_s[active],
        restarts=states.restarts[active],
        frozen_s=states.frozen_s[active],
        restart_s=states.restart_s[active],
        beliefs=_Lazily(active, states, beliefs),
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


def _apply(states: JobStates, view: ClusterView, plan: ClusterPlan) -> int:
    """Reallocate whoever changes and return how many did."""
    changed = 0
    depth = np.zeros(view.num_jobs, dtype=np.int64) if plan.depth is None else plan.depth
    refrozen = depth != view.depth
    for position, (held, gets) in enumerate(zip(view.held, plan.nodes, strict=True)):
        if (gets is not held and gets != held) or refrozen[position]:
            states.reallocate(int(view.jobs[position]), tuple(gets), int(depth[position]))
            changed += 1
    return changed
