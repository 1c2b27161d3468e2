"""The controller: a thin shell that observes, takes a step, puts it on disk and carries out what it wants.

What is decided is decided in `apportion.live.controller.step.step`, a function without a clock or an outside.
This process may be killed anywhere: what a step wants done is on disk before it is done.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from apportion.cluster.policies.gap_filling_view import Policy
from apportion.core.errors import ClusterUnreachable, Problem, SchedulerRefused, StateUnwritable
from apportion.live.channel.messages import AgentMessage, Exited, Hello, Leaving, Progress, RankRefused
from apportion.live.cluster import Channel, Cluster, ClusterSeen
from apportion.live.controller.actions import Action, Actions, Event, Idle, Planned, Release, Take, Tell
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.core import Core, Limits, recalled
from apportion.live.controller.deciding import Policies, decide
from apportion.live.controller.observing import Observations, Outcome, ProfileUpdate
from apportion.live.controller.step import step
from apportion.live.record import requests
from apportion.live.record.state import State
from apportion.live.record.store import Store

__all__ = ["POINTS", "Controller", "Event", "Stepped", "carry_out"]


def carry_out(
    todo: Iterable[Action], cluster: Cluster, channel: Channel, at: Callable[[str], None]
) -> tuple[list[Outcome], str | None]:
    """Carry actions out in order; return what came of them, and what stands in the way, if anything.

    Once the scheduler does not answer it is asked nothing more; agents are told all the same.

    Parameters
    ----------
    todo
        The actions.
    cluster, channel
        The scheduler, and the agents.
    at
        Called before and after every action.
    """
    came: list[Outcome] = []
    trouble: str | None = None
    for action in todo:
        if isinstance(action, Tell):
            at("commanding")
            channel.send(action.pilot, action.message)
            at("commanded")
        elif trouble is None:
            try:
                came.append(_ask(action, cluster, at))
            except ClusterUnreachable as error:
                trouble = f"{error}; what runs goes on"
    return came, trouble


def _ask(action: Release | Take, cluster: Cluster, at: Callable[[str], None]) -> Outcome:
    if isinstance(action, Release):
        at("releasing")
        cluster.release(action.handle)
        at("released")
        return Outcome(action)
    at("taking")
    try:
        outcome = Outcome(action, cluster.take(action.node, action.pilot, action.token, action.share))
    except SchedulerRefused as error:
        outcome = Outcome(action, refused=str(error))
    at("taken")
    return outcome


POINTS = (
    "heard",
    "looked",
    "decided",
    "intended",
    "taken_up",
    "commanding",
    "commanded",
    "releasing",
    "released",
    "taking",
    "taken",
    "acted",
)
"""The points of a step at which the hook is called; ``commanding`` to ``taken`` once for every action."""

_AWAY_S = 3.0


@dataclass(slots=True)
class Stepped:
    """What a step came to.

    Attributes
    ----------
    events
        The journal of this step.
    finished
        Whether all nodes were given back after a drain.
    trouble
        Why nothing new was begun, ``None`` if all is well.
    """

    events: list[Event] = field(default_factory=list)
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
    policies
        The policy for every type of node, made when it is first met; `policy` for all of them by default.
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
        policies: Policies | None = None,
    ) -> None:
        self._policies, self._made = policies, dict[str, Policy]()
        self.store, self.cluster, self.channel, self.policy = store, cluster, channel, policy
        self.advisor, self.limits, self.folder, self.clock, self.at = advisor, limits, folder, clock, at
        self.core: Core = recalled(store.load(), clock())
        self._inbox: list[tuple[str, AgentMessage]] = []
        self._outcomes: list[Outcome] = []
        self._learnt: tuple[ProfileUpdate, ...] = ()
        self._connections: dict[str, int] = {}
        self._drain = False
        self._looked_s: float | None = None
        self._away: tuple[float, str] | None = None
        advisor.recall(self.state.jobs.values())
        channel.expect({pilot.pilot: pilot.token for pilot in self.state.pilots.values() if pilot.live})

    @property
    def state(self) -> State:
        """What is on record after the last step."""
        return self.core.state

    def step(self, timeout_s: float = 0.0) -> Stepped:
        """Take one step, after waiting at most `timeout_s` for news from the agents.

        A state file that cannot be written, or a scheduler that does not answer, is told in `trouble`; ranks
        that run go on.
        """
        stepped = Stepped()
        stirred = self._listen(timeout_s)
        self.at("heard")
        now_s = self.clock()
        asked, problems = ([], []) if self.folder is None else requests.waiting(self.folder)
        cluster = self._look(now_s, stirred or bool(asked), stepped)
        self.at("looked")
        core, actions = step(
            self.core, self._observations(cluster, asked, problems), now_s, self.limits, self._plan
        )
        self.at("decided")
        try:
            self.store.commit(core.state, now_s)
        except StateUnwritable as error:
            self.core = Core(self.store.load(), self.core.memory)
            self.core.memory.basis = None
            self._inbox = _newest(self._inbox)
            stepped.trouble = f"{error}; what runs goes on, nothing new is begun"
            return stepped
        self.at("intended")
        self.core, self._inbox, self._outcomes = core, [], []
        self._learnt = self.advisor.learn(actions.lessons)
        for request in asked:
            request.remove()
        if self.folder is not None:
            requests.put_aside(self.folder, problems)
        self.at("taken_up")
        self._act(actions, stepped)
        return stepped

    def drain(self) -> None:
        """Give all nodes back from the next step on."""
        self._drain = True

    def finish_drain(self) -> None:
        """Write down that all nodes were given back, so that the next controller harvests again."""
        self._drain, self.state.draining = False, False
        self.store.commit(self.state, self.clock())

    def _act(self, actions: Actions, stepped: Stepped) -> None:
        stepped.events.extend(actions.events)
        stepped.finished = actions.finished
        self.channel.expect(actions.expect)
        self._outcomes, trouble = carry_out(actions.todo, self.cluster, self.channel, self.at)
        stepped.trouble = stepped.trouble or trouble
        self.at("acted")

    def _plan(self, state: State, idle: Idle, now_s: float, connected: Collection[str]) -> Planned:
        asked = self._policy_for, self.advisor, self.limits, now_s, connected
        return decide(state, idle, *asked).planned()

    def _policy_for(self, advisor: LiveAdvisor) -> Policy:
        if advisor is self.advisor or self._policies is None:
            return self.policy
        if advisor.type not in self._made:
            self._made[advisor.type] = self._policies(advisor)
        return self._made[advisor.type]

    def _observations(
        self, cluster: ClusterSeen | None, asked: list[requests.Waiting], problems: list[Problem]
    ) -> Observations:
        return Observations(
            entropy=secrets.token_bytes(32),
            heard=tuple(self._inbox),
            agents=self._agents,
            cluster=cluster,
            requests=tuple(waiting.request for waiting in asked),
            problems=tuple(str(problem) for problem in problems),
            outcomes=tuple(self._outcomes),
            updates=self._learnt,
            knowledge=self.advisor.version,
            drain=self._drain,
        )

    def _listen(self, timeout_s: float) -> bool:
        """Take in what agents say; return whether anything is more than a report of progress."""
        fresh = self.channel.receive(timeout_s)
        self._inbox.extend(fresh)
        self._agents = self.channel.agents()
        connections = {pilot: agent.connection for pilot, agent in self._agents.items()}
        stirred = connections != self._connections
        self._connections = connections
        return stirred or any(isinstance(heard, Exited | Leaving | RankRefused | Hello) for _, heard in fresh)

    def _look(self, now_s: float, stirred: bool, stepped: Stepped) -> ClusterSeen | None:
        """Look at the scheduler if it is time, or something has happened; ``None`` if not."""
        wake_s = self.core.memory.wake_s
        due = self._looked_s is None or now_s - self._looked_s >= self.limits.interval_s
        if not (due or stirred or (wake_s is not None and now_s >= wake_s)):
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


def _newest(heard: list[tuple[str, AgentMessage]]) -> list[tuple[str, AgentMessage]]:
    """Return the messages without the reports of progress that a later one makes needless."""
    last = {
        (pilot, line.job): index for index, (pilot, line) in enumerate(heard) if isinstance(line, Progress)
    }
    keep = set(last.values())
    return [item for index, item in enumerate(heard) if not isinstance(item[1], Progress) or index in keep]
