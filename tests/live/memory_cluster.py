"""A cluster, its agents and their trainers in memory, on a clock of their own: for tests and for trying out.

It stands for everything outside the controller and survives it: a controller that is built anew finds pilots
and trainers as they went on without it. Whatever must never happen is written to `broken`: two ranks on a
node, two generations of a job at once, a command to a pilot that has ended.
"""

from __future__ import annotations

from collections.abc import Mapping

from apportion.core.errors import ClusterUnreachable, SchedulerRefused
from apportion.live.channel.messages import (
    STOPPED,
    Acknowledge,
    AgentMessage,
    ControllerMessage,
    Exited,
    Leave,
    Leaving,
    Progress,
    RankRefused,
    Run,
    Stop,
)
from apportion.live.cluster import AgentSeen, ClusterSeen, PilotSeen, PilotState
from apportion.live.offers import Share
from tests.live.memory_trainer import MemoryPilot, MemoryTrainer

__all__ = ["MemoryCluster", "MemoryPilot", "MemoryTrainer"]


class MemoryCluster:
    """Nodes, a main queue that takes them, pilots and trainers; both `Cluster` and `Channel`.

    Parameters
    ----------
    nodes
        Names of the nodes.
    start_s
        Seconds until an agent has called.
    stop_s
        Seconds a trainer takes to save its checkpoint and end.

    Attributes
    ----------
    now_s
        The clock.
    lease_s
        An agent of a failed node that nobody hears of ends its rank after this time, and one that the
        controller turns away ends.
    main
        Nodes the main queue has.
    trainers
        By job id; a job without one gets a linear one.
    reachable
        Whether the scheduler answers.
    lose_answers
        Whether it does what it is asked, but the answer is lost.
    lose_messages
        Whether what is sent to agents is lost on its way.
    broken
        What must never happen and did.
    """

    def __init__(self, nodes: tuple[str, ...], start_s: float = 1.0, stop_s: float = 1.0) -> None:
        self.nodes, self.start_s, self.stop_s = nodes, start_s, stop_s
        self.now_s = 1000.0
        self.lease_s = 20.0
        self.main: set[str] = set()
        self.pilots: dict[str, MemoryPilot] = {}
        self.trainers: dict[str, MemoryTrainer] = {}
        self.reachable, self.lose_answers, self.lose_messages = True, False, False
        self.broken: list[str] = []
        self._expected: set[str] = set()
        self._news: list[tuple[str, AgentMessage]] = []
        self._handles = 0
        self._life = 0

    # the scheduler

    def look(self) -> ClusterSeen:
        """Return idle nodes and pilots."""
        self._answer()
        held = {pilot.node for pilot in self.pilots.values() if _holds(pilot)}
        idle = tuple(node for node in self.nodes if node not in held and node not in self.main)
        seen = [
            PilotSeen(pilot.pilot, pilot.handle, pilot.node, pilot.state)
            for pilot in self.pilots.values()
            if not pilot.forgotten
        ]
        return ClusterSeen(idle, tuple(seen), frozenset(self.nodes))

    def take(self, node: str, pilot: str, token: str, share: Share | None = None) -> str:
        """Start a pilot."""
        if not self.reachable:
            raise ClusterUnreachable("the scheduler does not answer")
        if node not in self.nodes:
            raise SchedulerRefused(f"there is no node {node}")
        if pilot in self.pilots:
            self.broken.append(f"pilot {pilot} was asked for twice")
        free = node not in self.main and not any(
            other.node == node and _holds(other) for other in self.pilots.values()
        )
        self._handles += 1
        state = PilotState.RUNNING if free else PilotState.PENDING
        found = MemoryPilot(pilot, node, token, str(self._handles), state, self.now_s + self.start_s)
        self.pilots[pilot] = found
        if self.lose_answers:
            raise ClusterUnreachable("the answer was lost")
        return found.handle

    def release(self, handle: str) -> None:
        """End a pilot and what runs on it."""
        self._answer()
        for pilot in self.pilots.values():
            if pilot.handle == handle and pilot.state is not PilotState.ENDED:
                self._end(pilot, "released")

    def main_takes(self, node: str) -> None:
        """Let the main queue take a node, whoever holds it."""
        self.main.add(node)
        for pilot in list(self.pilots.values()):
            if pilot.node == node and pilot.state is PilotState.RUNNING:
                self._end(pilot, "preempted")

    def main_returns(self, node: str) -> None:
        """Let the main queue give a node back; a pilot that waits for it gets it."""
        self.main.discard(node)
        for pilot in self.pilots.values():
            if pilot.node == node and pilot.state is PilotState.PENDING:
                pilot.state, pilot.ready_s = PilotState.RUNNING, self.now_s + self.start_s
                break

    def node_fails(self, node: str, connected: bool) -> None:
        """Let the scheduler give up a node whose agent goes on, heard of or not, until its lease is over."""
        for pilot in self.pilots.values():
            if pilot.node == node and pilot.state is PilotState.RUNNING:
                pilot.state, pilot.silent, pilot.left_s = PilotState.LOST, not connected, self.now_s

    def silence(self, node: str) -> None:
        """Let nobody hear of a node's agent, nor it of the controller: its rank ends with its lease."""
        for pilot in self.pilots.values():
            if pilot.node == node and _goes_on(pilot) and not pilot.silent:
                pilot.silent, pilot.left_s = True, self.now_s

    def forget(self, node: str) -> None:
        """Let the scheduler lose its record of a pilot that goes on."""
        for pilot in self.pilots.values():
            if pilot.node == node and pilot.state is PilotState.RUNNING:
                pilot.forgotten = True

    def _answer(self) -> None:
        if not self.reachable:
            raise ClusterUnreachable("the scheduler does not answer")

    def _end(self, pilot: MemoryPilot, why: str) -> None:
        """Kill an agent and its trainer, which has no time for a checkpoint."""
        if self._connected(pilot):
            self._news.append((pilot.pilot, Leaving(why)))
        if pilot.run is not None:
            self._exit(pilot, -9, asked=True)
        pilot.state = PilotState.ENDED
        if self._connected(pilot, ended=True):
            self._news.extend((pilot.pilot, exit) for exit in pilot.exits.values())

    # the channel

    @property
    def address(self) -> str:
        """Where agents would connect to."""
        return "127.0.0.1:1"

    def expect(self, tokens: Mapping[str, str]) -> None:
        """Set who may be connected."""
        self._expected = set(tokens)

    def agents(self) -> dict[str, AgentSeen]:
        """Return the agents connected now."""
        return {
            pilot.pilot: AgentSeen("127.0.0.1", 1, None, self._life, self.now_s)
            for pilot in self.pilots.values()
            if self._connected(pilot)
        }

    def send(self, pilot: str, message: ControllerMessage) -> bool:
        """Let an agent do as it is told."""
        found = self.pilots.get(pilot)
        if found is None or not self._connected(found):
            return False
        if self.lose_messages:
            return True
        if isinstance(message, Run):
            self._told_to_run(found, message)
        elif isinstance(message, Stop):
            self._told_to_stop(found, message)
        elif isinstance(message, Leave):
            self._end(found, "told to leave")
        elif isinstance(message, Acknowledge):
            found.exits.pop((message.job, message.generation), None)
        return True

    def receive(self, timeout_s: float) -> list[tuple[str, AgentMessage]]:
        """Return the news."""
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        """Lose what is on its way: the controller is gone."""
        self._news, self._expected = [], set()

    def reconnect(self) -> None:
        """Let the agents find a new controller: they say again what was not acknowledged."""
        self._life += 1
        self._news = []
        for pilot in self.pilots.values():
            if pilot.state is PilotState.RUNNING:
                self._news.extend((pilot.pilot, exit) for exit in pilot.exits.values())

    def drop_connections(self) -> None:
        """Break every connection with what is on its way in either direction; agents call again at once."""
        self.reconnect()

    def _connected(self, pilot: MemoryPilot, ended: bool = False) -> bool:
        there = ended or _goes_on(pilot)
        return there and pilot.pilot in self._expected and self.now_s >= pilot.ready_s and not pilot.silent

    def _told_to_run(self, pilot: MemoryPilot, run: Run) -> None:
        key = (run.job, run.generation)
        if key in pilot.seen:
            if key in pilot.exits:
                self._news.append((pilot.pilot, pilot.exits[key]))
            return
        if key in pilot.never:
            self._news.append((pilot.pilot, RankRefused(*key, reason="it was told to stop before it began")))
            return
        if pilot.run is not None:
            self.broken.append(f"{pilot.node} was to run {run.job} while {pilot.run.job} ran")
            return
        for other in self.pilots.values():
            if other.run is not None and other.run.job == run.job and other.run.generation != run.generation:
                self.broken.append(f"two generations of {run.job} at once")
        pilot.seen.add(key)
        pilot.run, pilot.started_s, pilot.reported_s = run, self.now_s, None
        pilot.stop_s = pilot.kill_s = None

    def _told_to_stop(self, pilot: MemoryPilot, stop: Stop) -> None:
        key = (stop.job, stop.generation)
        if pilot.run is not None and key == (pilot.run.job, pilot.run.generation):
            if pilot.stop_s is None:
                pilot.stop_s, pilot.kill_s = self.now_s + self.stop_s, self.now_s + stop.grace_s
        elif key in pilot.exits:
            self._news.append((pilot.pilot, pilot.exits[key]))
        else:  # as the agent does: what is told to stop before it began never begins
            pilot.never.add(key)
            self._news.append((pilot.pilot, RankRefused(*key, reason="it never ran here, and will not")))

    # the trainers

    def advance(self, seconds: float, tick_s: float = 0.5) -> None:
        """Let time pass."""
        until_s = self.now_s + seconds
        while self.now_s < until_s - 1e-9:
            step_s = min(tick_s, until_s - self.now_s)
            self.now_s += step_s
            for pilot in self.pilots.values():
                alone_s = 0.0 if pilot.left_s is None else self.now_s - pilot.left_s
                if pilot.silent and pilot.run is not None and alone_s > self.lease_s:
                    self._exit(pilot, STOPPED, asked=True)
                if not _goes_on(pilot) or pilot.silent or pilot.pilot in self._expected:
                    pilot.heard_s = self.now_s
                elif self.now_s - max(pilot.heard_s, pilot.ready_s) > self.lease_s:
                    self._end(pilot, "turned away for a lease")
            for job in sorted({pilot.run.job for pilot in self.pilots.values() if pilot.run is not None}):
                self._train(job, step_s)

    def trainer(self, job: str) -> MemoryTrainer:
        """Return a job's trainer."""
        return self.trainers.setdefault(job, MemoryTrainer(lambda count: 10.0 * count))

    def _train(self, job: str, seconds: float) -> None:
        ranks = [pilot for pilot in self.pilots.values() if pilot.run is not None and pilot.run.job == job]
        trainer, run = self.trainer(job), ranks[0].run
        assert run is not None
        whole = len(ranks) == len(run.nodes)
        stopping = any(pilot.stop_s is not None for pilot in ranks)
        if trainer.fails:
            for pilot in ranks:
                self._exit(pilot, 1, asked=False)
            return
        if trainer.hangs:
            for pilot in ranks:
                if pilot.kill_s is not None and self.now_s >= pilot.kill_s:
                    self._exit(pilot, -9, asked=True)
            return
        if whole and trainer.began_s is None:
            trainer.began_s, trainer.made, trainer.saved_s = self.now_s, float(trainer.saved), self.now_s
        if whole and not stopping:
            trainer.made += seconds * trainer.rate(len(ranks))
            if run.samples is not None:
                trainer.made = min(trainer.made, float(run.samples))
            if self.now_s - trainer.saved_s >= trainer.save_every_s:
                trainer.saved, trainer.saved_s = int(trainer.made), self.now_s
        self._end_ranks(trainer, ranks, whole)
        for pilot in ranks:
            if pilot.run is not None and pilot.run.rank == 0 and trainer.began_s is not None:
                self._news.extend([(pilot.pilot, self._report(pilot, trainer))] * self._connected(pilot))

    def _end_ranks(self, trainer: MemoryTrainer, ranks: list[MemoryPilot], whole: bool) -> None:
        run = ranks[0].run
        assert run is not None
        if run.samples is not None and whole and trainer.made >= run.samples:
            trainer.saved = run.samples
            for pilot in ranks:
                self._exit(pilot, 0, asked=pilot.stop_s is not None, done=True)
            return
        lost = not whole and (trainer.began_s is not None)
        if whole and trainer.began_s is not None and any(_due(pilot, self.now_s) for pilot in ranks):
            trainer.saved = int(trainer.made)
        for pilot in ranks:
            if _due(pilot, self.now_s):
                self._exit(pilot, STOPPED, asked=True)
            elif lost and pilot.stop_s is None and self.now_s - pilot.started_s > 3.0:
                self._exit(pilot, 1, asked=False)

    def _report(self, pilot: MemoryPilot, trainer: MemoryTrainer, done: bool = False) -> Progress:
        assert pilot.run is not None
        samples = trainer.says(int(trainer.made)) if not done else trainer.saved
        return Progress(
            pilot.run.job,
            pilot.run.generation,
            pilot.run.rank,
            pilot.run.token,
            self.now_s - pilot.started_s,
            samples,
            durable=min(trainer.saved, samples),
            rate=trainer.claims,
            done=done,
        )

    def _exit(self, pilot: MemoryPilot, code: int, asked: bool, done: bool = False) -> None:
        run = pilot.run
        assert run is not None
        trainer = self.trainer(run.job)
        last = None
        if run.rank == 0 and trainer.began_s is not None and not trainer.hangs:
            last = self._report(pilot, trainer, done)
        exit = Exited(run.job, run.generation, run.rank, run.token, code, asked, last)
        pilot.exits[run.job, run.generation] = exit
        pilot.run = pilot.stop_s = pilot.kill_s = None
        if not any(other.run is not None and other.run.job == run.job for other in self.pilots.values()):
            trainer.began_s = None
        if self._connected(pilot):
            self._news.append((pilot.pilot, exit))


def _holds(pilot: MemoryPilot) -> bool:
    return pilot.state in (PilotState.RUNNING, PilotState.ENDING)


def _goes_on(pilot: MemoryPilot) -> bool:
    return pilot.state in (PilotState.RUNNING, PilotState.LOST)


def _due(pilot: MemoryPilot, now_s: float) -> bool:
    return pilot.stop_s is not None and now_s >= pilot.stop_s
