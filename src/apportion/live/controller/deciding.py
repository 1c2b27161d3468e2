"""From what is on record to a policy's view, and from its plan back to who is to run where, and why.

A re-scale is made only if it earns back what it costs before its nodes are wanted by others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.gap_filling_view import (
    FREE,
    GapFillingView,
    Plan,
    Policy,
    check_plan,
    count_held,
)
from apportion.live.controller.actions import Idle, Place, Planned
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.core import Limits
from apportion.live.controller.placing import TypedJobs, Units, choose_types, placed
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import Pilot, State

__all__ = [
    "Decision",
    "Policies",
    "Scene",
    "admitted",
    "decide",
    "earned",
    "rescale_costs",
    "under_first_measurement",
    "unearned",
    "view_of",
]


@dataclass(frozen=True, slots=True)
class Decision:
    """A checked plan, with what it was made from.

    Attributes
    ----------
    jobs
        The admitted jobs, positions as in the view.
    nodes
        Names of the view's nodes; one of which GPUs are taken appears once for every GPU.
    pilots
        Their pilots, ``None`` where none is held yet.
    counts, held
        int64 [jobs]: nodes every job gets, and held before.
    replaced
        Positions of nodes whose pilots are given back, for one with a larger share to take their place.
    """

    jobs: tuple[Job, ...]
    nodes: tuple[str, ...]
    pilots: tuple[Pilot | None, ...]
    view: GapFillingView
    plan: Plan
    counts: NDArray[np.int64]
    held: NDArray[np.int64]
    replaced: frozenset[int] = frozenset()

    @property
    def changes(self) -> bool:
        """Whether any node changes hands."""
        return bool(self.replaced) or not np.array_equal(self.plan.holder, self.view.holder)

    def planned(self) -> Planned:
        """Return the decision as the core takes it."""
        numbers = [
            None if holder == FREE else self.jobs[holder].number for holder in self.plan.holder.tolist()
        ]
        places = tuple(
            Place(node, None if pilot is None else pilot.pilot, number, place in self.replaced)
            for place, (node, pilot, number) in enumerate(zip(self.nodes, self.pilots, numbers, strict=True))
        )
        decisions = tuple(self.explain()) if self.changes else ()
        return Planned(places, self.plan.wake_s, self.changes, decisions)

    def explain(self) -> list[dict[str, object]]:
        """Return, for every admitted job, what it gets, and what is believed of it there."""
        rows = []
        for index, job in enumerate(self.jobs):
            count, held = int(self.counts[index]), int(self.held[index])
            rates = self.view.rates[index]
            points = sorted(job.curve)
            if count == held:
                why = "keeps its nodes" if count else "waits"
            elif not count:
                why = "its nodes are worth more to others"
            elif not points and job.spec.curve:
                why = "the best use of these nodes by the curve its user gave"
            elif not points:
                why = "nothing is measured yet: profiled from here downwards"
            elif count not in job.curve:
                why = f"measured on {points} nodes; this size is predicted, or to be measured"
            else:
                why = "the best use of these nodes by its measured curve"
            nodes = [self.nodes[place] for place in np.flatnonzero(self.plan.holder == index).tolist()]
            rows.append(
                {
                    "job": job.id,
                    "held": held,
                    "gets": count,
                    "nodes": nodes,
                    "rate": round(float(rates[count]), 3),
                    "rate_before": round(float(rates[held]), 3),
                    "why": why,
                }
            )
        return rows


_ENDLESS = 1e15
"""Samples still to train on that are assumed of a job without a goal."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What a decision is made from; `holder` is int64 [nodes]: the job that holds a node."""

    state: State
    idle: Idle
    limits: Limits
    now_s: float
    holder: NDArray[np.int64]


def view_of(
    scene: Scene, jobs: list[Job], nodes: tuple[str, ...], holder: NDArray[np.int64], advisor: LiveAdvisor
) -> GapFillingView:
    """Return what a policy sees of some jobs and nodes, `holder` by their positions."""
    state, idle, limits, now_s = scene.state, scene.idle, scene.limits, scene.now_s
    num = len(jobs)
    held = count_held(holder, num)
    low = np.array([job.spec.min_nodes for job in jobs], dtype=np.int64)
    high = np.array([job.spec.max_nodes for job in jobs], dtype=np.int64)
    reach = int(np.minimum(high, np.maximum(len(nodes), low)).max(initial=1))
    high = np.minimum(high, reach)
    for index, job in enumerate(jobs):
        if under_first_measurement(job, int(held[index]), limits, now_s):
            high[index] = held[index]
    rates = np.zeros((num, reach + 1))
    for index, job in enumerate(jobs):
        rates[index] = advisor.fitted(job, reach)
    waiting = sum(not job.ended for job in state.jobs.values()) - num
    return GapFillingView(
        time_s=now_s,
        jobs=np.array([job.number for job in jobs], dtype=np.int64),
        rates=rates,
        min_nodes=low,
        max_nodes=high,
        up_s=rescale_costs([job.up_s for job in jobs], limits),
        down_s=rescale_costs([job.down_s for job in jobs], limits),
        remaining=np.array([_remaining(job) for job in jobs], dtype=np.float64),
        nodes=np.arange(len(nodes)),
        holder=holder,
        idle_since_s=np.array([idle.since_s(node) for node in nodes], dtype=np.float64),
        departed_after_s=np.array(idle.departed_after_s, dtype=np.float64),
        waiting=max(waiting, 0),
        measured=np.full(num, np.nan),
        listed=allowed_counts_of(jobs, reach + 1),
    )


def allowed_counts_of(jobs: Sequence[Job], num_counts: int) -> NDArray[np.bool_] | None:
    """Return bool [jobs, num_counts]: the counts that jobs list, all of those that list none.

    ``None`` where no job lists any.
    """
    if not any(job.spec.allowed_counts for job in jobs):
        return None
    found = np.ones((len(jobs), num_counts), dtype=np.bool_)
    for row, job in zip(found, jobs, strict=True):
        if job.spec.allowed_counts:
            row[1:] = np.isin(np.arange(1, num_counts), job.spec.allowed_counts)
    return found


def _remaining(job: Job) -> float:
    return _ENDLESS if job.spec.samples is None else max(float(job.spec.samples - job.samples), 0.0)


def rescale_costs(measured: list[float | None], limits: Limits) -> NDArray[np.float64]:
    """Return the rescale costs, the median of the measured ones where a job has none of its own."""
    known = [cost for cost in measured if cost is not None]
    usual = float(np.median(known)) if known else limits.stall_s
    return np.array([usual if cost is None else cost for cost in measured], dtype=np.float64)


def under_first_measurement(job: Job, held: int, limits: Limits, now_s: float) -> bool:
    """Return whether a job that nothing is known of runs and is soon measured: it must not grow before."""
    known = job.curve or job.spec.curve_on(job.type)
    if known or job.state is not JobState.RUNNING or held < job.spec.min_nodes:
        return False
    patience_s = 2.0 * (limits.warm_up_s + limits.measure_s) + limits.stall_s
    return now_s - job.changed_s < patience_s


def earned(
    rate_before: float, rate_after: float, up_s: float, down_s: float, stays_s: float, horizon_s: float
) -> bool:
    """Return whether growing pays before the first of the new nodes goes.

    Until then the job makes `rate_after` but for the standstill of growing; once the node is gone it stands
    still again, as long as shrinking takes, and goes on as before. Beyond the horizon the policy judges.
    """
    if stays_s >= horizon_s:
        return True
    return rate_after * max(stays_s - up_s, 0.0) > rate_before * (stays_s + down_s)


def unearned(
    view: GapFillingView, plan: NDArray[np.int64], stays_s: NDArray[np.float64], horizon_s: float
) -> dict[int, int]:
    """Return, for every job of which a growth is not earned back, the largest count that is.

    Parameters
    ----------
    view
        The instant.
    plan
        int64 [nodes]: the job that gets a node.
    stays_s
        float64 [nodes]: in how many seconds a node is wanted by others; infinite where nothing is known.
    horizon_s
        Forward-looking time, seconds.
    """
    found: dict[int, int] = {}
    soon = stays_s < horizon_s
    if not soon.any():
        return found
    held = view.held()
    running = view.running_rate(held)
    for job in np.unique(plan[soon & (plan >= 0) & (plan != view.holder)]).tolist():
        added = np.sort(stays_s[(plan == job) & (view.holder != job)])[::-1]
        before = int(np.count_nonzero((plan == job) & (view.holder == job)))
        costs = float(running[job]), float(view.up_s[job]), float(view.down_s[job])
        for more in range(added.size, 0, -1):
            rate = float(view.rates[job, before + more])
            if earned(costs[0], rate, *costs[1:], float(added[more - 1]), horizon_s):
                break
        else:
            more = 0
        if more < added.size:
            found[int(job)] = before + more
    return found


Policies = Callable[[LiveAdvisor], Policy]
"""Returns the policy for a type of node, by what is learnt of it."""


def admitted(state: State, limits: Limits, now_s: float) -> list[Job]:
    """Return the jobs that share the idle nodes now, in order of submission: those under way first."""
    able = [
        job
        for job in state.jobs.values()
        if not (job.ended or job.cancel or (job.state is JobState.QUEUED and job.not_before_s > now_s))
    ]
    busy = {pilot.job for pilot in state.pilots.values()}
    able.sort(key=lambda job: (job.state is JobState.QUEUED and job.number not in busy, job.number))
    return sorted(able[: limits.trainers], key=lambda job: job.number)


def decide(
    state: State,
    idle: Idle,
    policies: Policies,
    advisor: LiveAdvisor,
    limits: Limits,
    now_s: float,
    connected: Collection[str],
) -> Decision:
    """Ask the policy and check its plan.

    Where nodes are of several types every job is given one of them first; the policy is asked type by type.

    Raises
    ------
    InvalidPlan
        If the plan breaks a rule of gap filling.
    """
    jobs = admitted(state, limits, now_s)
    place = {job.number: index for index, job in enumerate(jobs)}
    rank_on = state.rank_on()
    pilots = [
        pilot
        for pilot in state.pilots.values()
        if pilot.usable
        and (pilot.job is None or pilot.job in place)
        and (pilot.pilot not in rank_on or rank_on[pilot.pilot].job in place)
    ]
    # a job that grows takes nodes in ascending order, one that shrinks gives back the last: those with an
    # agent that waits come first, those that others want soon last
    pilots.sort(key=lambda pilot: (_soon(idle, pilot.node), pilot.pilot not in connected, pilot.node))
    held = sum(pilot.live for pilot in state.pilots.values())
    room = None if limits.max_nodes is None else max(limits.max_nodes - held, 0)
    fresh = sorted(idle.names, key=lambda node: _soon(idle, node))[:room]
    units = Units((*(pilot.node for pilot in pilots), *fresh), (*pilots, *([None] * len(fresh))), idle.offers)
    holder = [FREE if pilot.job is None else place[pilot.job] for pilot in pilots] + [FREE] * len(fresh)
    scene = Scene(state, idle, limits, now_s, np.array(holder, dtype=np.int64))
    types = units.types()
    several = sorted(set(types))
    only = several[0] if several else ""
    if len(several) <= 1 and all(job.spec.runs_on(only) for job in jobs):
        updates = advisor.of(only)
        view = view_of(scene, jobs, units.nodes, scene.holder, updates)
        return _planned(scene, jobs, units, view, policies(updates))
    homes = _homes(scene, jobs, types, several, advisor)
    return _joined(scene, jobs, units, homes, advisor, policies)


def _soon(idle: Idle, node: str) -> float:
    """Return how early a node is wanted by others: a smaller number for later ones."""
    return -idle.wanted_s.get(node, math.inf)


def _planned(scene: Scene, jobs: list[Job], units: Units, view: GapFillingView, policy: Policy) -> Decision:
    """Ask the policy, and again with less for some, until all that is given fits and pays.

    Jobs are given less that too few nodes fit, or whose new nodes others will want before their standstill is
    earned back.
    """
    held = view.held()
    wanted_s = [scene.idle.wanted_s.get(node, math.inf) for node in units.nodes]
    stays_s = np.array(wanted_s, dtype=np.float64) - scene.now_s
    while True:
        plan = policy(view)
        check_plan(view, plan)
        holder, replaced, short = placed(units, jobs, view.holder, plan.holder)
        short = short or unearned(view, holder, stays_s, scene.limits.horizon_s)
        if not short:
            break
        most = view.max_nodes.copy()
        for job, count in short.items():
            most[job] = count if count >= view.min_nodes[job] else held[job]
        view = replace(view, max_nodes=most)
    plan = Plan(holder, plan.wake_s)
    counts = count_held(holder, view.num_jobs)
    return Decision(tuple(jobs), units.nodes, units.pilots, view, plan, counts, held, replaced)


def _homes(
    scene: Scene, jobs: list[Job], types: Sequence[str], several: Sequence[str], advisor: LiveAdvisor
) -> list[str | None]:
    """Return the type of node that every job runs on, ``None`` where it runs on none of those there are."""
    capacities = [types.count(type) for type in several]
    held = np.zeros((len(jobs), len(several)), dtype=np.int64)
    for holder, type in zip(scene.holder.tolist(), types, strict=True):
        if holder != FREE:
            held[holder, several.index(type)] += 1
    low = np.array([job.spec.min_nodes for job in jobs], dtype=np.int64)
    high = np.array([job.spec.max_nodes for job in jobs], dtype=np.int64)
    allowed = np.array([[job.spec.runs_on(type) for type in several] for job in jobs], dtype=bool)
    for index, job in enumerate(jobs):
        if job.type in several and under_first_measurement(
            job, int(held[index].sum()), scene.limits, scene.now_s
        ):
            allowed[index] &= np.array([type == job.type for type in several])
    reach = max([*capacities, *low.tolist()])
    rates = np.array([[advisor.of(type).fitted(job, reach) for type in several] for job in jobs])
    up_s = rescale_costs([job.up_s for job in jobs], scene.limits)
    down_s = rescale_costs([job.down_s for job in jobs], scene.limits)
    typed = TypedJobs(rates, allowed, held, low, high, up_s, down_s, allowed_counts_of(jobs, reach + 1))
    chosen = choose_types(typed, capacities, scene.limits.horizon_s)
    homes: list[str | None] = []
    for index in range(len(jobs)):
        at = -1 if chosen is None else int(chosen[index])
        if at < 0 and allowed[index].any():
            worth = np.where(allowed[index], held[index] * 1e15 + rates[index, :, low[index]], -1.0)
            at = int(worth.argmax())
        homes.append(several[at] if at >= 0 else None)
    return homes


def _joined(
    scene: Scene,
    jobs: list[Job],
    units: Units,
    homes: Sequence[str | None],
    advisor: LiveAdvisor,
    policies: Policies,
) -> Decision:
    """Ask the policy type by type, and return the whole."""
    whole = view_of(scene, jobs, units.nodes, scene.holder, advisor)
    rates = np.zeros((len(jobs), max(len(units.nodes), whole.rates.shape[1] - 1) + 1))
    holder, replaced, wake_s = np.full(len(units.nodes), FREE, dtype=np.int64), set[int](), []
    types = np.array(units.types(), dtype=object)
    for type in sorted(set(homes) - {None}, key=str):
        here = [index for index, home in enumerate(homes) if home == type]
        at = np.flatnonzero(types == type)
        local = np.full(len(jobs) + 1, FREE, dtype=np.int64)
        local[here] = np.arange(len(here))
        own, part = [jobs[index] for index in here], units.part(at.tolist())
        updates = advisor.of(str(type))
        view = view_of(scene, own, part.nodes, local[scene.holder[at]], updates)
        decided = _planned(scene, own, part, view, policies(updates))
        holder[at] = np.array([*here, FREE], dtype=np.int64)[decided.plan.holder]
        replaced |= {int(at[place]) for place in decided.replaced}
        wake_s += [] if decided.plan.wake_s is None else [decided.plan.wake_s]
        for index, row in zip(here, view.rates, strict=True):
            rates[index, : row.size], rates[index, row.size :] = row, row[-1]
    view = replace(whole, rates=rates)
    plan = Plan(holder, min(wake_s, default=None))
    counts = count_held(holder, len(jobs))
    held = view.held()
    return Decision(tuple(jobs), units.nodes, units.pilots, view, plan, counts, held, frozenset(replaced))
