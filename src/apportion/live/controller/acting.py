"""Do what is on record: take and give back pilots, tell agents what to run and to stop.

Every action is harmless when it is repeated: that is how an action is made good whose outcome was never
learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from apportion.live.channel.messages import Acknowledge, Exited, Leave, Run, Stop
from apportion.live.cluster import AgentSeen, Channel, Cluster
from apportion.live.controller.observing import Note
from apportion.live.controller.settings import Limits
from apportion.live.errors import ClusterUnreachable, SchedulerRefused
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import Hold, Pilot, Rank, State

__all__ = ["Acting"]

_AGAIN_S = 5.0
"""A pilot that is not given back yet, and a rank that has not stopped, are asked again after so long."""


class Acting:
    """Acts on the cluster and its agents, and remembers what it said so as not to repeat itself.

    Parameters
    ----------
    cluster, channel
        The scheduler, and the agents.
    limits
        Times to keep.
    note
        The journal.
    at
        Called before and after every action.
    """

    def __init__(
        self, cluster: Cluster, channel: Channel, limits: Limits, note: Note, at: Callable[[str], None]
    ) -> None:
        self.cluster, self.channel, self.limits, self.note, self.at = cluster, channel, limits, note, at
        self._said: dict[str, tuple[tuple[int, int, int, str], float]] = {}
        self._released: dict[str, float] = {}
        self._unheard: dict[str, float] = {}

    def give_back(self, state: State, agents: Mapping[str, AgentSeen], now_s: float) -> None:
        """Write down which pilots are to be given back."""
        limits, rank_on = self.limits, state.rank_on()
        for pilot in state.pilots.values():
            if not pilot.usable:
                self._unheard.pop(pilot.pilot, None)
                continue
            if pilot.pilot in agents:
                self._unheard.pop(pilot.pilot, None)
            rank = rank_on.get(pilot.pilot)
            why = self._reason(state, pilot, rank, agents, now_s)
            if why is not None:
                self.note("release", node=pilot.node, pilot=pilot.pilot, why=why)
                pilot.enter(Hold.RELEASING, now_s)
        for job in state.jobs.values():
            late_s = limits.grace_s + limits.overdue_s
            if job.state is JobState.STOPPING and now_s - job.changed_s > late_s:
                for rank in state.ranks_of(job):
                    owner = state.pilots.get(rank.pilot)
                    if rank.live and owner is not None and owner.usable:
                        self.note("release", node=owner.node, pilot=owner.pilot, why="its rank does not end")
                        owner.enter(Hold.RELEASING, now_s)

    def _reason(
        self,
        state: State,
        pilot: Pilot,
        rank: Rank | None,
        agents: Mapping[str, AgentSeen],
        now_s: float,
    ) -> str | None:
        limits = self.limits
        asked = pilot.hold is Hold.TAKING and pilot.handle is not None
        if asked and now_s - pilot.since_s > limits.pending_s:
            return "it did not start in time"
        if pilot.pilot not in agents and pilot.hold is Hold.HELD:
            since_s = self._unheard.setdefault(pilot.pilot, now_s)
            if now_s - since_s > (limits.connect_s if rank is None else limits.lease_s):
                return "its agent is not heard of"
        if rank is None and pilot.job is None:
            free_s = pilot.since_s if pilot.free_s is None else pilot.free_s
            if state.draining or now_s - free_s >= limits.linger_s:
                return "drained" if state.draining else "no job needs it"
        return None

    def acknowledge(self, exits: Sequence[tuple[str, Exited]]) -> None:
        """Tell agents that the end of a rank is on disk."""
        for pilot, exit in exits:
            self.channel.send(pilot, Acknowledge(exit.job, exit.generation))

    def act(
        self,
        state: State,
        taken: Sequence[Pilot],
        orphans: Sequence[str],
        avoid: Callable[[str, float], None],
        now_s: float,
    ) -> str | None:
        """Do everything that is on record and not done; return what stands in the way, if anything."""
        trouble: str | None = None
        self._command(state, now_s)
        try:
            self._release(state, orphans, now_s)
            self._take(taken, avoid, now_s)
        except ClusterUnreachable as error:
            trouble = f"{error}; what runs goes on"
        return trouble

    def _command(self, state: State, now_s: float) -> None:
        agents = self.channel.agents()
        self._said = {pilot: said for pilot, said in self._said.items() if pilot in agents}
        for job in state.jobs.values():
            if job.state not in (JobState.RUNNING, JobState.STOPPING):
                continue
            ranks = state.ranks_of(job)
            for rank in ranks:
                agent = agents.get(rank.pilot)
                if not rank.live or agent is None:
                    continue
                verb = "run" if job.state is JobState.RUNNING else "stop"
                said = (agent.connection, job.number, job.generation, verb)
                last, last_s = self._said.get(rank.pilot, (None, now_s))
                # a stop that was lost on its way is lost for good: nothing else ends a rank whose pilot the
                # scheduler has forgotten; a run that was lost shows as a job that makes no progress
                if last == said and (verb == "run" or now_s - last_s < _AGAIN_S):
                    continue
                message = (
                    _run(state, job, rank, ranks)
                    if verb == "run"
                    else Stop(job.id, job.generation, self.limits.grace_s)
                )
                self.at("commanding")
                if self.channel.send(rank.pilot, message):
                    self._said[rank.pilot] = said, now_s
                self.at("commanded")
        rank_on = state.rank_on()
        for pilot in state.pilots.values():  # the scheduler has given these up, and ends them no more
            if pilot.live and pilot.lost_s is not None and pilot.pilot not in rank_on:
                self.channel.send(pilot.pilot, Leave(self.limits.grace_s))

    def _release(self, state: State, orphans: Sequence[str], now_s: float) -> None:
        handles = [
            pilot.handle
            for pilot in state.pilots.values()
            if pilot.hold is Hold.RELEASING and pilot.handle is not None and pilot.lost_s is None
        ]
        for handle in [*orphans, *handles]:
            last_s = self._released.get(handle)
            if last_s is not None and now_s - last_s < _AGAIN_S:
                continue
            self.at("releasing")
            self.cluster.release(handle)
            self._released[handle] = now_s
            self.at("released")
        known = {pilot.handle for pilot in state.pilots.values() if pilot.live} | set(orphans)
        self._released = {handle: at_s for handle, at_s in self._released.items() if handle in known}

    def _take(self, taken: Sequence[Pilot], avoid: Callable[[str, float], None], now_s: float) -> None:
        for pilot in taken:
            self.at("taking")
            try:
                pilot.handle = self.cluster.take(pilot.node, pilot.pilot, pilot.token)
            except SchedulerRefused as error:
                self.note("not_taken", node=pilot.node, pilot=pilot.pilot, message=str(error))
                pilot.enter(Hold.ENDED, now_s)
                avoid(pilot.node, now_s)
            self.at("taken")


def _run(state: State, job: Job, rank: Rank, ranks: Sequence[Rank]) -> Run:
    spec = job.spec
    return Run(
        job=job.id,
        generation=job.generation,
        rank=rank.rank,
        nodes=tuple(state.pilots[other.pilot].node for other in ranks),
        rendezvous=job.rendezvous,
        command=spec.command,
        directory=spec.directory,
        checkpoint=spec.checkpoint,
        token=job.token,
        samples=spec.samples,
        environment=spec.environment,
    )
