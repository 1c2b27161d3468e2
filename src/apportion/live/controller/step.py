"""One step of the controller, as a function: the core, observations and the time in; a core and actions out.

It reads no clock, asks nobody and changes nothing it is given: what it returns follows from its arguments. So
it can be played on a model of the world, in any order of faults (`tests/live/model`). Everything that is
to be done follows from what is on record and what is seen: a step whose actions were cut off leaves nothing
that the next one, of whatever process, does not find. Nothing but the scheduler's answer says that a pilot is
gone, and nothing but its agent's word, the pilot's end or the end of its lease says that a rank is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from apportion.live.channel.messages import Acknowledge, Exited
from apportion.live.controller.actions import Action, Actions, Tell
from apportion.live.controller.core import Core, Draft
from apportion.live.controller.generations import conclude, resize
from apportion.live.controller.observations import Observations
from apportion.live.controller.observing import (
    fence_s,
    hear,
    list_pilots,
    outcome,
    ranks_without_pilots,
    see_offers,
)
from apportion.live.controller.ordering import commands, give_back, put_on_record, releases
from apportion.live.controller.planned import Idle, Planned
from apportion.live.controller.settings import Limits
from apportion.live.record import requests
from apportion.live.record.state import State
from apportion.policies.gap_filling_view import InvalidPlan

__all__ = ["Planner", "step"]

_NEWS_S = 30.0
"""That a node is wanted so much earlier or later is a reason to decide again."""

Planner = Callable[[State, Idle, float, Collection[str]], Planned]
"""Says who is to hold which node, from the state, the idle nodes, the time and the pilots connected.

It may raise `InvalidPlan`. The step relies on nothing it answers: what cannot be is not put on record.
"""


def step(
    core: Core, seen: Observations, now_s: float, limits: Limits, planner: Planner
) -> tuple[Core, Actions]:
    """Take one step.

    Parameters
    ----------
    core
        Where the step before ended, or `apportion.live.controller.core.recalled`; it is not changed.
    seen
        What was seen and heard since.
    now_s
        Seconds of a clock that only goes forward, also from one process to the next.
    limits
        Times and limits.
    planner
        What decides, a function of its arguments; called at most once.

    Returns
    -------
    core, actions
        The new core, to be put on disk before any of the actions is carried out.
    """
    draft = Draft(core.state.copy(), core.memory.copy(), limits, now_s, seen.entropy)
    todo: list[Action] = [
        Tell(pilot, Acknowledge(exit.job, exit.generation)) for pilot, exit in _listen(draft, seen)
    ]
    orphans = _look(draft, seen)
    conclude(draft)
    planned = None if seen.cluster is None else _decide(draft, seen, planner)
    taken = [] if planned is None else put_on_record(draft, planned)
    resize(draft, seen.agents)
    give_back(draft, seen.agents)
    todo += [*commands(draft, seen.agents), *releases(draft, orphans), *taken]
    draft.memory.connections = {pilot: agent.connection for pilot, agent in seen.agents.items()}
    live = [pilot for pilot in draft.state.pilots.values() if pilot.live]
    actions = Actions(
        expect={pilot.pilot: pilot.token for pilot in live},
        todo=tuple(todo),
        lessons=tuple(draft.lessons),
        events=tuple(draft.events),
        planned=planned,
        finished=draft.state.draining and not live,
    )
    return Core(draft.state, draft.memory), actions


def _listen(draft: Draft, seen: Observations) -> list[tuple[str, Exited]]:
    """Write down outcomes, what was learnt, what users and agents say; return exits to be confirmed."""
    state = draft.state
    for came in seen.outcomes:
        outcome(draft, came)
    for learnt in seen.learnt:
        job = state.jobs.get(learnt.job)
        if job is not None and not job.ended:
            learnt.write(job)
    for request in seen.requests:
        draft.note("request", told=requests.apply(state, request, draft.now_s))
    for problem in seen.problems:
        draft.note("rejected", problem=problem)
    state.draining = state.draining or seen.drain
    heard = [(pilot, hear(draft, pilot, message)) for pilot, message in seen.heard]
    return [(pilot, exit) for pilot, exit in heard if exit is not None]


def _look(draft: Draft, seen: Observations) -> list[str]:
    """Write down what the scheduler shows, and which ranks are over by that; return orphans' handles."""
    state, orphans = draft.state, []
    if seen.cluster is not None:
        orphans = list_pilots(draft, seen.cluster, seen.agents.keys())
        see_offers(draft, seen.cluster)
    if state.draining:
        for pilot in state.pilots.values():
            if pilot.job is not None:
                pilot.job, pilot.free_s = None, draft.now_s
    # whoever said anything was connected for a moment at least, in which its lease was renewed
    spoke = {pilot for pilot, _ in seen.heard}
    reached = seen.agents.keys() | draft.memory.connections.keys() | spoke
    ranks_without_pilots(draft, reached, fence_s(draft.limits))
    return orphans


def _decide(draft: Draft, seen: Observations, planner: Planner) -> Planned | None:
    """Decide if anything has changed that is decided by."""
    memory, now_s = draft.memory, draft.now_s
    if draft.state.draining:
        return None
    idle = memory.idle.known(now_s)
    basis = _basis(draft.state, idle, seen.knowledge, now_s)
    woken = memory.wake_s is not None and now_s >= memory.wake_s
    if basis == memory.basis and not woken:
        return None
    if memory.decided_s is not None and 0 <= now_s - memory.decided_s < draft.limits.gap_s:
        return None
    try:
        planned = planner(draft.state, idle, now_s, seen.agents.keys())
    except InvalidPlan as error:
        draft.note("invalid_plan", message=str(error))
        memory.basis = basis
        return None
    memory.idle.departed_after_s = []
    memory.decided_s, memory.wake_s = now_s, planned.wake_s
    if planned.changes:
        draft.note("decided", jobs=list(planned.told), wake_s=planned.wake_s)
    memory.basis = None if planned.changes else basis
    return planned


def _basis(state: State, idle: Idle, knowledge: int, now_s: float) -> object:
    jobs = tuple(
        (job.number, job.state, job.trusted, job.not_before_s <= now_s)
        for job in state.jobs.values()
        if not job.ended and not job.cancel
    )
    pilots = tuple((pilot.pilot, pilot.job) for pilot in state.pilots.values() if pilot.usable)
    offers = tuple((node, idle.offers.get(node)) for node in sorted(set(idle.names)))
    wanted = tuple(sorted((node, round(at_s / _NEWS_S)) for node, at_s in idle.wanted_s.items()))
    return (tuple(sorted(idle.names)), offers, wanted, jobs, pilots, knowledge)
