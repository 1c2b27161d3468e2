"""The controller: observe, decide, act, as one step that may be cut off anywhere and be taken again.

Everything that is to be done is on disk before it is done (`apportion.live.record.store`), and follows from
what is on disk and what is seen: a step that was cut off leaves nothing that the next one, of whatever
process, does not find. Nothing but the scheduler's answer says that a pilot is gone, and nothing but its
agent's word or the pilot's end says that a rank is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from apportion.live.channel.messages import (
    AgentMessage,
    Exited,
    Hello,
    Leaving,
    Progress,
    RankRefused,
    grace_after_lease,
)
from apportion.live.cluster import Channel, Cluster, ClusterSeen
from apportion.live.controller.acting import Acting
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.deciding import Decision, Idle, decide, put_on_record
from apportion.live.controller.generations import Generations
from apportion.live.controller.idle_nodes import IdleNodes
from apportion.live.controller.observing import hear, list_pilots, ranks_without_pilots
from apportion.live.controller.settings import Limits
from apportion.live.errors import ClusterUnreachable, StateUnwritable
from apportion.live.record import requests
from apportion.live.record.state import Pilot, State
from apportion.live.record.store import Store
from apportion.policies.gap_filling_view import InvalidPlan, Policy

__all__ = ["POINTS", "Controller", "Event", "Stepped"]

POINTS = (
    "heard",
    "looked",
    "observed",
    "acknowledged",
    "decided",
    "intended",
    "commanding",
    "commanded",
    "releasing",
    "released",
    "taking",
    "taken",
    "acted",
)
"""The points of a step at which the hook is called; ``commanding`` to ``taken`` once for every action."""

Event = dict[str, object]
_AWAY_S = 3.0


@dataclass(slots=True)
class Stepped:
    """What a step came to.

    Attributes
    ----------
    events
        The journal of this step.
    decision
        The decision, if one was made.
    finished
        Whether all nodes were given back after a drain.
    trouble
        Why nothing new was begun, ``None`` if all is well.
    """

    events: list[Event] = field(default_factory=list)
    decision: Decision | None = None
    finished: bool = False
    trouble: str | None = None


class Controller:
    """One controller of one state folder.

    Parameters
    ----------
    store
        The state; its lock is the caller's.
    cluster, channel
        The scheduler, and the agents.
    policy
        Any gap-filling policy, the same callables as in a replay.
    advisor
        What learns how jobs scale; share its estimator with a policy that profiles.
    limits
        Times and limits.
    folder
        Where requests are left, ``None`` for nowhere.
    clock
        Seconds; the same clock after a restart.
    at
        Called at every point of `POINTS`: for tests that end the process there.
    """

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        channel: Channel,
        policy: Policy,
        advisor: LiveAdvisor,
        limits: Limits,
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
        at: Callable[[str], None] = lambda point: None,
    ) -> None:
        self.store, self.cluster, self.channel, self.policy = store, cluster, channel, policy
        self.advisor, self.limits, self.folder, self.clock, self.at = advisor, limits, folder, clock, at
        self.state: State = store.load()
        self._events: list[Event] = []
        self._generations = Generations(limits, advisor, self._note)
        self._acting = Acting(cluster, channel, limits, self._note, at)
        self._idle = IdleNodes()
        self._inbox: list[tuple[str, AgentMessage]] = []
        self._orphans: list[str] = []
        self._connections: dict[str, int] = {}
        self._reached: frozenset[str] = frozenset()
        self._looked_s: float | None = None
        self._away: tuple[float, str] | None = None
        self._decided_s: float | None = None
        self._wake_s: float | None = None
        self._basis: object = None
        for pilot in self.state.pilots.values():
            if pilot.lost_s is not None:  # the controller before this one may have renewed its lease
                pilot.lost_s = clock()
        advisor.recall(self.state.jobs.values())
        self._expect()

    def step(self, timeout_s: float = 0.0) -> Stepped:
        """Take one step, after waiting at most `timeout_s` for news from the agents.

        A state file that cannot be written, or a scheduler that does not answer, is told in `trouble`; ranks
        that run go on.
        """
        stepped = Stepped()
        self._events = stepped.events
        try:
            self._step(timeout_s, stepped)
        except StateUnwritable as error:
            self.state = self.store.load()
            self._basis = None
            self._inbox = _newest(self._inbox)
            stepped.trouble = f"{error}; what runs goes on, nothing new is begun"
        return stepped

    def _step(self, timeout_s: float, stepped: Stepped) -> None:
        stirred = self._listen(timeout_s)
        self.at("heard")
        now_s = self.clock()
        seen = self._look(now_s, stirred, stepped)
        self.at("looked")
        self._observe(seen, now_s)
        decision = None if seen is None else self._decide(now_s)
        self.at("decided")
        taken: list[Pilot] = []
        if decision is not None:
            taken = put_on_record(self.state, decision, now_s)
            stepped.decision = decision
            for pilot in taken:
                self._note("take", node=pilot.node, pilot=pilot.pilot, job=self.state.jobs[pilot.job or 0].id)
        agents = self.channel.agents()
        self._generations.resize(self.state, agents, now_s)
        self._acting.give_back(self.state, agents, now_s)
        self.store.commit(self.state, now_s)
        self.at("intended")
        self._expect()
        trouble = self._acting.act(self.state, taken, self._orphans, self._idle.avoid, now_s)
        self._orphans = []
        stepped.trouble = stepped.trouble or trouble
        self.store.commit(self.state, now_s)
        self.at("acted")
        stepped.finished = self.state.draining and not any(pilot.live for pilot in self.state.pilots.values())

    def finish_drain(self) -> None:
        """Write down that all nodes were given back, so that the next controller harvests again."""
        self.state.draining = False
        self.store.commit(self.state, self.clock())

    def _listen(self, timeout_s: float) -> bool:
        """Take in what agents say; return whether anything is more than a report of progress."""
        fresh = self.channel.receive(timeout_s)
        self._inbox.extend(fresh)
        connections = {pilot: agent.connection for pilot, agent in self.channel.agents().items()}
        stirred = connections != self._connections
        self._reached = frozenset(connections.keys() | self._connections.keys())
        self._connections = connections
        return stirred or any(isinstance(heard, Exited | Leaving | RankRefused | Hello) for _, heard in fresh)

    def _look(self, now_s: float, stirred: bool, stepped: Stepped) -> ClusterSeen | None:
        """Look at the scheduler if it is time, or something has happened; ``None`` if not."""
        due = self._looked_s is None or now_s - self._looked_s >= self.limits.interval_s
        asked = self.folder is not None and bool(requests.waiting(self.folder)[0])
        if not (due or stirred or asked or (self._wake_s is not None and now_s >= self._wake_s)):
            return None
        if self._away is not None and 0 <= now_s - self._away[0] < max(self.limits.interval_s, _AWAY_S):
            stepped.trouble = self._away[1]
            return None
        try:
            seen = self.cluster.look()
        except ClusterUnreachable as error:
            # its commands wait long before they give up: agents are listened to in between
            stepped.trouble = f"{error}; what runs goes on"
            self._away = (self.clock(), stepped.trouble)
            return None
        self._away = None
        self._looked_s = now_s
        return seen

    def _observe(self, seen: ClusterSeen | None, now_s: float) -> None:
        """Write down all that was seen and heard, then tell those who wait for that."""
        state = self.state
        asked, problems = ([], []) if self.folder is None else requests.waiting(self.folder)
        for request in asked:
            self._note("request", told=requests.apply(state, request.request, now_s))
        for problem in problems:
            self._note("rejected", problem=str(problem))
        exits = [
            (pilot, exit)
            for pilot, heard in self._inbox
            if (exit := hear(state, pilot, heard, self.advisor, now_s, self._note)) is not None
        ]
        if seen is not None:
            self._orphans = list_pilots(state, seen, self._connections.keys(), now_s, self._note)
            live = {pilot.node for pilot in state.pilots.values() if pilot.live}
            self._idle.saw([*seen.idle, *live], seen.idle, now_s)
        if state.draining:
            for pilot in state.pilots.values():
                if pilot.job is not None:
                    pilot.job, pilot.free_s = None, now_s
        lease_s = self.limits.lease_s
        fence_s = lease_s + grace_after_lease(lease_s) + self.limits.overdue_s
        ranks_without_pilots(state, self._reached, fence_s, now_s, self._note)
        self._generations.conclude(state, now_s)
        self.store.commit(state, now_s)
        self._inbox = []
        self.at("observed")
        for request in asked:
            request.remove()
        if self.folder is not None:
            requests.put_aside(self.folder, problems)
        self._acting.acknowledge(exits)
        self.at("acknowledged")

    def _decide(self, now_s: float) -> Decision | None:
        """Ask the policy if anything has changed that it decides by."""
        state = self.state
        if state.draining:
            return None
        idle = Idle(self._idle.free(now_s), self._idle.since_s, self._idle.departed_after_s)
        basis = self._basis_of(idle, now_s)
        woken = self._wake_s is not None and now_s >= self._wake_s
        if basis == self._basis and not woken:
            return None
        if self._decided_s is not None and 0 <= now_s - self._decided_s < self.limits.gap_s:
            return None
        try:
            decision = decide(
                state, idle, self.policy, self.advisor, self.limits, now_s, self._connections.keys()
            )
        except InvalidPlan as error:
            self._note("invalid_plan", message=str(error))
            self._basis = basis
            return None
        self._idle.departed_after_s = []
        self._decided_s, self._wake_s = now_s, decision.plan.wake_s
        if decision.changes:
            self._note("decided", jobs=decision.explain(), wake_s=decision.plan.wake_s)
        self._basis = None if decision.changes else basis
        return decision

    def _basis_of(self, idle: Idle, now_s: float) -> object:
        jobs = tuple(
            (job.number, job.state, job.trusted, job.not_before_s <= now_s)
            for job in self.state.jobs.values()
            if not job.ended and not job.cancel
        )
        pilots = tuple((pilot.pilot, pilot.job) for pilot in self.state.pilots.values() if pilot.usable)
        return (tuple(sorted(idle.names)), jobs, pilots, self.advisor.version)

    def _expect(self) -> None:
        self.channel.expect({pilot.pilot: pilot.token for pilot in self.state.pilots.values() if pilot.live})

    def _note(self, event: str, **heard: object) -> None:
        job = heard.get("job")
        if isinstance(job, int):
            heard["job"] = self.state.jobs[job].id if job in self.state.jobs else None
        self._events.append({"time_s": round(self.clock(), 3), "event": event, **heard})


def _newest(heard: list[tuple[str, AgentMessage]]) -> list[tuple[str, AgentMessage]]:
    """Return the messages without the reports of progress that a later one makes needless."""
    last = {
        (pilot, line.job): index for index, (pilot, line) in enumerate(heard) if isinstance(line, Progress)
    }
    keep = set(last.values())
    return [item for index, item in enumerate(heard) if not isinstance(item[1], Progress) or index in keep]
