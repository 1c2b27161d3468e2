"""From what is on record to a policy's view, and from its plan back to who is to run where."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.choosing_types import TypedJobs, choose_types
from apportion.live.controller.decision import Decision
from apportion.live.controller.earning import unearned
from apportion.live.controller.placing import Units, placed
from apportion.live.controller.planned import Idle
from apportion.live.controller.scene import Scene, rescale_costs, under_first_measurement, view_of
from apportion.live.controller.settings import Limits
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import State
from apportion.policies.gap_filling_view import FREE, GapFillingView, Plan, Policy, check_plan, count_held

__all__ = ["Policies", "admitted", "decide"]

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
        learnt = advisor.of(only)
        view = view_of(scene, jobs, units.nodes, scene.holder, learnt)
        return _planned(scene, jobs, units, view, policies(learnt))
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
    typed = TypedJobs(rates, allowed, held, low, high, up_s, down_s)
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
        learnt = advisor.of(str(type))
        view = view_of(scene, own, part.nodes, local[scene.holder[at]], learnt)
        decided = _planned(scene, own, part, view, policies(learnt))
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
