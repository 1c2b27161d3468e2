"""Nodes, a lossy Slurm, the network and the disk around the controller's step, and what must always hold.

Nothing here is random and nothing waits: every fault is a method, so that a sequence of them can be drawn at
random, shrunk, or tried in every order. What Slurm is taken to do: a pilot ends through the daemon of its
node only; on a node that is cut off it stays listed as ending, and counts as ended or failed once the node is
marked down, whatever goes on there; a daemon that comes back ends what Slurm does not know before its node
counts as sound. Messages of one connection arrive in order; they may be late, lost and doubled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from apportion.live.channel.messages import AgentMessage, Hello, Leaving, Pulse
from apportion.live.cluster import AgentSeen, ClusterSeen, PilotSeen, PilotState
from apportion.live.controller.actions import Action, Release, Take, Tell
from apportion.live.controller.core import Core, Limits, recalled
from apportion.live.controller.observing import Observations, Outcome
from apportion.live.controller.step import Planner, step
from apportion.live.offers import NodeOffer, Share, Size
from apportion.live.record.jobs import JobSpec, JobState
from apportion.live.record.requests import Cancel, Request, Submit
from apportion.live.record.state import State
from tests.live.model.agents import RATE, SAVED_EVERY, Agent, Checkpoints

__all__ = ["LIMITS", "Broken", "World"]

LIMITS = Limits(
    interval_s=1.0,
    gap_s=0.0,
    grace_s=2.0,
    overdue_s=2.0,
    lease_s=8.0,
    connect_s=6.0,
    pending_s=4.0,
    linger_s=3.0,
    hang_s=12.0,
    finish_s=4.0,
    failures=1_000_000,
)
_TICK_S = 1.0
_OVER = (PilotState.ENDED, PilotState.LOST)
Device = tuple[str, int]
"""A node, and the number of one of its GPUs; 0 where nodes are taken whole."""


class Broken(AssertionError):
    """Something has happened that must never happen."""


@dataclass(slots=True)
class Listed:
    """A pilot in Slurm's books, with the device that it was given: a GPU, or the whole node."""

    pilot: str
    handle: str
    node: str
    token: str
    state: PilotState
    share: Share | None
    device: int = -1
    forgotten: bool = False
    unnoticed: bool = False


@dataclass(slots=True)
class Begun:
    """A step that has listened and not yet looked: what it heard, and by which time."""

    heard: tuple[tuple[str, AgentMessage], ...]
    agents: dict[str, AgentSeen]
    now_s: float


@dataclass(slots=True)
class World:
    """Everything around the step.

    Parameters
    ----------
    nodes
        Names of the nodes.
    planner
        Says who is to hold which node; any function.
    limits
        Of the controller.
    gpus
        How many GPUs every node has, each with two CPUs; 0: pilots take whole nodes.
    types
        Of the nodes; none by default.
    step_function
        The controller's step, or what a test puts around it.
    """

    nodes: tuple[str, ...]
    planner: Planner
    limits: Limits = LIMITS
    gpus: int = 0
    types: tuple[str, ...] = ()
    step_function: Callable[..., Any] = step
    now_s: float = 1000.0
    ahead_s: float = 0.0
    disk: State = field(default_factory=lambda: State("0a0b0c0d"))
    core: Core | None = None
    begun: Begun | None = None
    asked: list[Request] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)
    seen: dict[str, AgentSeen] = field(default_factory=dict)
    inbox: list[tuple[str, AgentMessage]] = field(default_factory=list)
    agents: dict[str, Agent] = field(default_factory=dict)
    listed: dict[str, Listed] = field(default_factory=dict)
    folders: dict[str, Checkpoints] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    main: set[Device] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    wanted: dict[str, float] = field(default_factory=dict)
    takes: Counter[str] = field(default_factory=Counter)
    away: str = ""
    drain: bool = False
    finished: bool = False
    numbers: int = 0
    steps: int = 0

    def copy(self) -> World:
        """Return a copy that shares nothing that changes."""
        made = copy(self)
        for name in (
            "asked",
            "outcomes",
            "expected",
            "seen",
            "inbox",
            "cut",
            "down",
            "main",
            "blocked",
            "wanted",
        ):
            setattr(made, name, copy(getattr(self, name)))
        made.agents = {pilot: agent.copy() for pilot, agent in self.agents.items()}
        made.listed = {pilot: copy(listed) for pilot, listed in self.listed.items()}
        made.folders = {job: copy(folder) for job, folder in self.folders.items()}
        return made  # cores, and what is on disk, are replaced and never changed

    # -- users ---------------------------------------------------------------------------------------------

    def submit(self, job: str, samples: int, most: int = 1, cpus: int | None = None, on: str = "") -> None:
        curves: dict[str, tuple[tuple[int, float], ...]] = {on: ()} if on else {}
        more = {"samples": samples, "cpus_per_rank": cpus, "curves": curves}
        spec = JobSpec(("train",), 1, most, "/w", f"/w/{job}", **more)  # type: ignore[arg-type]
        self.asked.append(Submit(job, 0.0, spec))
        self.folders[job] = Checkpoints()

    def cancel(self, job: str) -> None:
        self.asked.append(Cancel(job))

    # -- the controller ------------------------------------------------------------------------------------

    @property
    def clock_s(self) -> float:
        """The controller's clock."""
        return self.now_s + self.ahead_s

    def start(self) -> None:
        """Start the controller, if none runs."""
        if self.core is None:
            self.core = recalled(self.disk, self.clock_s)
            self.expected = {p.pilot: p.token for p in self.disk.pilots.values() if p.live}

    def die(self) -> None:
        """Kill the controller, with all it held in memory and all connections."""
        self.core = self.begun = None
        self.outcomes, self.expected = [], {}
        for pilot in list(self.seen):
            self._disconnect(pilot)
        self.inbox = []

    def reboot(self, jump_s: float) -> None:
        """Start the controller's machine anew, with the wall's clock set; every other clock goes on."""
        self.die()
        self.ahead_s = max(self.clock_s + jump_s, self.disk.newest_s) - self.now_s

    def begin(self) -> None:
        """Let the controller listen; what comes now is for the step after."""
        if self.core is not None and self.begun is None:
            self.begun = Begun(tuple(self.inbox), dict(self.seen), self.clock_s)
            self.inbox = []

    def step(self, die_after: int | None = None) -> None:
        """Let the controller look, decide, act; it may die before its commit (0) or after n - 1 actions."""
        self.start()
        self.begin()
        assert self.core is not None
        assert self.begun is not None
        begun, self.begun = self.begun, None
        look = None if self.away in ("gone", "unheard") else self.look()
        seen = Observations(
            entropy=b"entropy",
            heard=begun.heard,
            agents=begun.agents,
            cluster=look,
            requests=tuple(self.asked),
            outcomes=tuple(self.outcomes),
            drain=self.drain,
        )
        core, actions = self.step_function(self.core, seen, begun.now_s, self.limits, self.planner)
        self.steps += 1
        if die_after == 0:
            self.die()
            return
        self.core, self.disk, self.asked, self.outcomes = core, core.state, [], []
        self._on_record()
        self._expect(dict(actions.expect))
        self.finished = actions.finished
        self.takes = Counter(action.node for action in actions.todo if isinstance(action, Take))
        for number, action in enumerate(actions.todo):
            if die_after is not None and number >= die_after - 1:
                break
            self._carry_out(action, () if look is None else look.idle)
        if die_after is not None:
            self.die()

    def _carry_out(self, action: Action, idle: tuple[str, ...]) -> None:
        if isinstance(action, Tell):
            agent = self.agents.get(action.pilot)
            if action.pilot in self.seen and agent is not None and agent.connection:
                agent.arriving.append(action.message)
            return
        if isinstance(action, Take) and self.takes[action.node] > idle.count(action.node):
            raise Broken(f"{action.node} is taken though it was not seen idle")
        if self.away == "gone":
            return
        handle = self._take(action) if isinstance(action, Take) else self._release(action)
        if not self.away:
            self.outcomes.append(Outcome(action, handle))

    # -- Slurm ---------------------------------------------------------------------------------------------

    def look(self) -> ClusterSeen:
        """Return what Slurm lists."""
        known = [listed for listed in self.listed.values() if not listed.forgotten]
        taken = self._taken()
        sound = [node for node in self.nodes if node not in self.cut | self.down]
        idle = [node for node in sound for device in self._devices() if (node, device) not in taken]
        pilots = tuple(PilotSeen(p.pilot, p.handle, p.node, p.state) for p in known)
        offers = {node: self._offer(node) for node in self.nodes} if self.gpus else {}
        wanted = {node: max(at_s - self.now_s, 0.0) for node, at_s in self.wanted.items()}
        return ClusterSeen(tuple(idle), pilots, frozenset(self.nodes) - self.down, offers, wanted)

    def type_of(self, node: str) -> str:
        return self.types[self.nodes.index(node)] if self.types else ""

    def _devices(self) -> range:
        return range(max(self.gpus, 1))

    def _taken(self) -> set[Device]:
        """Return what Slurm takes to be in use: by the main queue, and by pilots that it remembers."""
        here = (PilotState.RUNNING, PilotState.ENDING)
        known = [held for held in self.listed.values() if held.state in here and not held.forgotten]
        return self.main | {(held.node, held.device) for held in known}

    def _offer(self, node: str) -> NodeOffer:
        """Return what a node has; every GPU that the main queue uses takes two CPUs with it."""
        here = (PilotState.RUNNING, PilotState.ENDING)
        used = sum(2 for at, _ in self.main if at == node)
        for held in self.listed.values():
            if held.node == node and held.state in here and not held.forgotten and held.share is not None:
                used += held.share.cpus
        cpus = 2 * self.gpus
        return NodeOffer(Size(cpus, 1000, self.type_of(node)), self.gpus, max(cpus - used, 0), 1000)

    def _take(self, take: Take) -> str:
        if take.pilot in self.listed:
            raise Broken(f"pilot {take.pilot} was asked for twice")
        handle = str(len(self.listed) + 1)
        state = PilotState.PENDING
        self.listed[take.pilot] = Listed(take.pilot, handle, take.node, take.token, state, take.share)
        self._begin_pilots()
        return handle

    def _begin_pilots(self) -> None:
        for listed in self.listed.values():
            if listed.state is not PilotState.PENDING or listed.node in self.cut | self.down:
                continue
            taken = self._taken()
            free = [device for device in self._devices() if (listed.node, device) not in taken]
            if free and (listed.share is None or self._offer(listed.node).has(listed.share)):
                listed.state, listed.device = PilotState.RUNNING, free[0]
                lease_s, now_s = self.limits.lease_s, self.now_s
                agent = Agent(listed.pilot, listed.node, listed.token, lease_s, now_s)
                self.agents[listed.pilot] = agent

    def _release(self, release: Release) -> None:
        for listed in self.listed.values():
            if listed.handle == release.handle and not listed.forgotten:
                if listed.state is PilotState.PENDING:
                    listed.state = PilotState.ENDED
                elif listed.state is PilotState.RUNNING:
                    listed.state = PilotState.ENDING

    def settle(self) -> None:
        """Let the daemons of the nodes do what they are to: end pilots, and say so."""
        for listed in self.listed.values():
            agent = self.agents.get(listed.pilot)
            over = agent is not None and not agent.alive and not listed.unnoticed
            if over and listed.node not in self.cut:
                listed.state = listed.state if listed.state is PilotState.LOST else PilotState.ENDED
            if listed.state is PilotState.ENDING and listed.node not in self.cut:
                self._kill(listed.pilot, "ended by Slurm")
                listed.state = PilotState.ENDED
        self._begin_pilots()

    def main_takes(self, node: str) -> None:
        """Let the main queue want a node; Slurm pre-empts the pilots, nobody is asked."""
        self._main_takes({(node, device) for device in self._devices()})

    def main_takes_one(self, node: str) -> None:
        """Let the main queue want one GPU: an idle one if there is, else the youngest pilot's."""
        taken = self._taken()
        idle = [(node, device) for device in self._devices() if (node, device) not in taken]
        pilots = [held for held in self.listed.values() if held.node == node and not held.forgotten]
        running = [(node, held.device) for held in pilots if held.state is PilotState.RUNNING]
        self._main_takes(set(idle[:1] or running[-1:]))

    def _main_takes(self, devices: set[Device]) -> None:
        self.main |= devices
        for listed in self.listed.values():
            here = (listed.node, listed.device) in devices
            if here and listed.state is PilotState.RUNNING and not listed.forgotten:
                listed.state = PilotState.ENDING
        if not any(node in self.cut for node, _ in devices):
            self.settle()

    def announce(self, node: str, seconds: float) -> None:
        """Say when the main queue will want a node; whether it does then is another question."""
        self.wanted[node] = self.now_s + seconds

    def main_returns(self, node: str) -> None:
        self.main = {device for device in self.main if device[0] != node}

    def forget(self, node: str) -> None:
        """Let slurmctld lose its books of the pilots of a node."""
        for listed in self.listed.values():
            if listed.node == node:
                listed.forgotten = True

    def remember(self, node: str) -> None:
        """Let slurmctld find its books again, and pre-empt what the main queue wants.

        A pilot whose GPU another one was given meanwhile is not taken back into the books.
        """
        for listed in self.listed.values():
            others = [held for held in self.listed.values() if held is not listed and not held.forgotten]
            running = [(held.node, held.device) for held in others if held.state not in _OVER]
            if listed.node == node and (listed.node, listed.device) not in running:
                listed.forgotten = False
        self._main_takes({device for device in self.main if device[0] == node})

    def mark_down(self, node: str) -> None:
        """Let Slurm give up a node that does not answer."""
        if node not in self.cut:
            return
        self.down.add(node)
        for listed in self.listed.values():
            if listed.node == node and listed.state is PilotState.RUNNING:
                listed.state = PilotState.LOST
            elif listed.node == node and listed.state is PilotState.ENDING:
                listed.state = PilotState.ENDED

    # -- nodes and the network -----------------------------------------------------------------------------

    def cut_off(self, node: str) -> None:
        """Cut a node off; the server notices when the next pulse stays away."""
        self.cut.add(node)
        for agent in self.agents.values():
            if agent.node == node:
                agent.arriving, agent.leaving_messages = [], []

    def heal(self, node: str) -> None:
        """Bring a node back; its daemon first ends what Slurm does not know to run."""
        if node not in self.cut:
            return
        for listed in self.listed.values():
            if listed.node == node and (listed.state in _OVER or listed.forgotten):
                self._kill(listed.pilot, "its step is not known any more")
        self.cut.discard(node)
        self.down.discard(node)
        self.settle()

    def kill_agent(self, node: str) -> None:
        for agent in list(self.agents.values()):
            if agent.node == node:
                self._kill(agent.pilot, None)

    def kill_slurmstepd(self, node: str) -> None:
        """Kill what Slurm knows a pilot by: its agent ends, and Slurm lists it until it is to end it."""
        for listed in self.listed.values():
            if listed.node == node and listed.state is PilotState.RUNNING:
                listed.unnoticed = True
                self._kill(listed.pilot, None)

    def freeze(self, node: str) -> None:
        for agent in self.agents.values():
            agent.frozen = agent.frozen or agent.node == node

    def thaw(self, node: str) -> None:
        for agent in self.agents.values():
            agent.frozen = agent.frozen and agent.node != node

    def block(self, node: str) -> None:
        """Keep a node's agent from the controller, and nothing else."""
        self.blocked.add(node)
        for agent in self.agents.values():
            if agent.node == node:
                self._disconnect(agent.pilot)

    def flap(self, node: str) -> None:
        """Let an agent call, have its lease renewed, and lose the connection, all at once."""
        for agent in self.agents.values():
            if agent.node == node:
                self._disconnect(agent.pilot)
                self._connect(agent)
                self._disconnect(agent.pilot)

    def deliver(self, to_agents: bool = True, to_controller: bool = True) -> None:
        """Let what is on its way arrive."""
        for agent in self.agents.values():
            if agent.node in self.cut or not agent.connection:
                continue
            if to_controller and agent.pilot in self.seen:
                self.inbox += [(agent.pilot, message) for message in agent.leaving_messages]
                agent.leaving_messages = []
            if to_agents and agent.alive and not agent.frozen:
                arrived, agent.arriving = agent.arriving, []
                for message in arrived:
                    agent.obey(message, self.folders, self.now_s)
        self.check()

    def lose(self, node: str) -> None:
        """Lose what is on its way to and from a node, though the connections stay."""
        for agent in self.agents.values():
            if agent.node == node:
                agent.arriving, agent.leaving_messages = [], []

    def double(self, node: str) -> None:
        """Let everything that is on its way to and from a node arrive twice."""
        for agent in self.agents.values():
            if agent.node == node:
                agent.arriving = [message for message in agent.arriving for _ in range(2)]
                agent.leaving_messages = [message for message in agent.leaving_messages for _ in range(2)]

    def _connect(self, agent: Agent) -> None:
        able = agent.alive and not agent.frozen and agent.node not in self.cut and self.core is not None
        if not able or agent.connection or agent.pilot not in self.expected:
            return
        self.numbers += 1
        agent.connection, agent.leased_s = self.numbers, self.now_s
        self.seen[agent.pilot] = AgentSeen("h", 1, None, self.numbers, self.now_s)
        self.inbox.append((agent.pilot, Hello(agent.pilot, "n" * 16, "p", "h", 1, agent.node)))
        agent.arriving, agent.leaving_messages = [], [agent.exits[name] for name in sorted(agent.unconfirmed)]
        if agent.leaving:
            agent.say(Leaving("still"))

    def _disconnect(self, pilot: str) -> None:
        if self.seen.pop(pilot, None) is not None:
            self.inbox.append((pilot, Pulse()))
        agent = self.agents.get(pilot)
        if agent is not None:
            agent.connection, agent.arriving, agent.leaving_messages = 0, [], []

    def _expect(self, tokens: dict[str, str]) -> None:
        self.expected = tokens
        for pilot in [pilot for pilot in self.seen if pilot not in tokens]:
            self._disconnect(pilot)

    def _kill(self, pilot: str, why: str | None) -> None:
        """End an agent and its rank; one that is ended by Slurm says so, as far as anybody hears it."""
        agent = self.agents.get(pilot)
        if agent is None or not agent.alive:
            return
        if why is not None and not agent.frozen:
            agent.say(Leaving(why))
        if agent.rank is not None:
            folder = self.folders[agent.rank.run.job]
            agent.end_rank(-9, True, folder)
        agent.alive = False
        if agent.node not in self.cut and agent.connection and why is not None and pilot in self.seen:
            self.inbox += [(pilot, message) for message in agent.leaving_messages]
        self._disconnect(pilot)

    # -- time ----------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Let time pass, a tick at a time."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += _TICK_S
            for agent in self.agents.values():
                if not agent.alive:
                    continue
                silent = agent.frozen or agent.node in self.cut
                if agent.connection and silent:
                    self._disconnect(agent.pilot)
                elif agent.connection:
                    agent.leased_s = self.now_s  # a pulse, and its answer
                    for name in sorted(agent.unconfirmed):
                        if agent.exits[name] not in agent.leaving_messages:
                            agent.say(agent.exits[name])
                if agent.node not in self.blocked:
                    self._connect(agent)
            self._train()
            for agent in self.agents.values():
                if agent.alive:
                    agent.pass_time(self.folders, self.now_s)
                    if not agent.alive:
                        self._gone(agent)
            self.settle()
            self.check()

    def _gone(self, agent: Agent) -> None:
        """Let what an agent said last arrive, if it can; then its connection ends."""
        if agent.connection and agent.node not in self.cut:
            self.inbox += [(agent.pilot, message) for message in agent.leaving_messages]
        self._disconnect(agent.pilot)

    def _train(self) -> None:
        for job, folder in self.folders.items():
            ranks = [agent for agent in self.agents.values() if agent.rank is not None]
            ranks = [agent for agent in ranks if agent.rank is not None and agent.rank.run.job == job]
            if not ranks:
                continue
            running = [agent.rank for agent in ranks if agent.rank is not None]
            run = running[0].run
            if len(running) != len(run.nodes):
                for agent, rank in zip(ranks, running, strict=True):  # a peer is missing
                    if rank.whole and rank.stop_s is None:
                        agent.end_rank(1, False, folder)
                continue
            if not all(rank.whole for rank in running):
                folder.made = folder.saved
                for rank in running:
                    rank.whole = True
            if any(rank.stop_s is not None for rank in running):
                continue
            self._advance(folder, ranks, run.samples or 0)

    def _advance(self, folder: Checkpoints, ranks: list[Agent], goal: int) -> None:
        folder.made = min(folder.made + RATE, goal)
        folder.most = max(folder.most, folder.made)
        if folder.made - folder.saved >= SAVED_EVERY or folder.made == goal:
            folder.saved = folder.made
        for agent in ranks:
            assert agent.rank is not None
            if folder.made == goal:
                agent.end_rank(0, agent.rank.stop_s is not None, folder, done=True)
            elif agent.rank.run.rank == 0:
                agent.say(agent.report(folder))

    # -- what must always hold -----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `Broken` if a node or a job is used twice, or a rank outlives its lease."""
        ranks = [agent for agent in self.agents.values() if agent.rank is not None]
        devices = [(agent.node, self.listed[agent.pilot].device) for agent in ranks]
        if len(set(devices)) < len(devices):
            raise Broken("two ranks on a GPU" if self.gpus else "two ranks on a node")
        generations = {agent.rank.name for agent in ranks if agent.rank is not None}
        if len({job for job, _ in generations}) < len(generations):
            raise Broken(f"two generations of a job at once: {sorted(generations)}")
        types = {(agent.rank.name, self.type_of(agent.node)) for agent in ranks if agent.rank is not None}
        if len(types) > len(generations):
            raise Broken(f"ranks of one generation on nodes of several types: {sorted(types)}")
        longest_s = self.limits.lease_s + 0.25 * self.limits.lease_s + _TICK_S
        for agent in self.agents.values():
            if agent.rank is not None and self.now_s - agent.leased_s > longest_s:
                raise Broken(f"the rank on {agent.node} outlives its lease")
            listed = self.listed[agent.pilot]
            if agent.rank is None or agent.node in self.cut or listed.forgotten:
                continue
            if (agent.node, listed.device) in self.main:
                raise Broken(f"the main queue waits for {agent.node}")
            spec = next(job.spec for job in self.disk.jobs.values() if job.id == agent.rank.run.job)
            if not spec.runs_on(self.type_of(agent.node)):
                raise Broken(
                    f"a rank of {agent.rank.run.job} runs on {agent.node}, a type that it does not name"
                )
            if listed.share is not None and not listed.share.serves(spec):
                raise Broken(f"a rank of {agent.rank.run.job} on {agent.node} has less than it needs")

    def _on_record(self) -> None:
        state = self.disk
        live = Counter(pilot.node for pilot in state.pilots.values() if pilot.live)
        if any(count > len(self._devices()) for count in live.values()):
            raise Broken("a node is held twice, or more of its GPUs than it has")
        pilots = [rank.pilot for rank in state.ranks.values() if rank.live]
        if len(set(pilots)) < len(pilots):
            raise Broken("two ranks on a pilot")
        for job in state.jobs.values():
            folder = self.folders[job.id]
            if job.durable > folder.saved or job.samples > max(folder.most, folder.saved):
                raise Broken(f"{job.id}: {job.samples} ({job.durable}) on record, {folder} on disk")
            if job.state is JobState.DONE and not job.samples == folder.saved == job.spec.samples:
                raise Broken(f"{job.id} is done at {job.samples}, {folder} on disk")

    # -- the end -------------------------------------------------------------------------------------------

    def faults_end(self) -> None:
        """Heal everything."""
        self.away, self.blocked = "", set()
        for node in self.nodes:
            self.heal(node)
            self.thaw(node)
            self.main_returns(node)

    def run_to_the_end(self, seconds: int = 600) -> None:
        """With no fault any more: every job ends, and a drain leaves nothing behind."""
        self.faults_end()
        for _ in range(seconds):
            self._turn()
            if self.disk.jobs and not self.asked and all(job.ended for job in self.disk.jobs.values()):
                break
        else:
            raise Broken(f"jobs do not end: {[(j.id, j.state, j.why) for j in self.disk.jobs.values()]}")
        self.drain = True
        for _ in range(120):
            self._turn()
            if self.finished and not any(agent.alive for agent in self.agents.values()):
                return
        raise Broken("pilots are left behind")

    def _turn(self) -> None:
        self.deliver()
        self.step()
        self.deliver()
        self.wait(_TICK_S)
