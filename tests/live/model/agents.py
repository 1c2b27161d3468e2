"""Agents, their ranks and the checkpoints on the shared disk, as far as the controller's core can tell.

An agent does what `apportion.live.agent` does: it starts a rank once, says an end until it is confirmed,
stops its rank when its lease is over, and a watchdog kills the rank later if the agent is frozen.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

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
    grace_after_lease,
)

__all__ = ["RATE", "SAVED_EVERY", "Agent", "Checkpoints", "Running"]

RATE, SAVED_EVERY = 5, 10
"""Samples a second on any number of nodes, and how many lie between two checkpoints."""
Name = tuple[str, int]


@dataclass(slots=True)
class Checkpoints:
    """A job's folder: what is saved, which generation claimed it, and what the one that runs has made."""

    saved: int = 0
    claimed: int = 0
    made: int = 0
    most: int = 0


@dataclass(slots=True)
class Running:
    """A rank that runs."""

    run: Run
    stop_s: float | None = None
    began_s: float = 0.0
    whole: bool = False

    @property
    def name(self) -> Name:
        return self.run.job, self.run.generation


@dataclass(slots=True)
class Agent:
    """One agent; `alive` until its pilot or it itself ends, and nothing of it runs afterwards."""

    pilot: str
    node: str
    token: str
    lease_s: float
    leased_s: float
    alive: bool = True
    frozen: bool = False
    connection: int = 0
    rank: Running | None = None
    leaving: bool = False
    exits: dict[Name, Exited] = field(default_factory=dict)
    unconfirmed: set[Name] = field(default_factory=set)
    never: set[Name] = field(default_factory=set)
    arriving: list[ControllerMessage] = field(default_factory=list)
    leaving_messages: list[AgentMessage] = field(default_factory=list)

    def copy(self) -> Agent:
        made = copy(self)
        made.rank = copy(self.rank)
        made.exits, made.unconfirmed, made.never = dict(self.exits), set(self.unconfirmed), set(self.never)
        made.arriving, made.leaving_messages = list(self.arriving), list(self.leaving_messages)
        return made

    def say(self, message: AgentMessage) -> None:
        if self.connection:
            self.leaving_messages.append(message)

    def obey(self, message: ControllerMessage, folders: dict[str, Checkpoints], now_s: float) -> None:
        """Do as the controller says."""
        if isinstance(message, Run):
            self._start(message, folders.setdefault(message.job, Checkpoints()), now_s)
        elif isinstance(message, Stop):
            self._stop((message.job, message.generation), now_s + 1.0)
        elif isinstance(message, Acknowledge):
            self.unconfirmed.discard((message.job, message.generation))
        elif isinstance(message, Leave):
            self.leave(now_s)

    def _start(self, run: Run, folder: Checkpoints, now_s: float) -> None:
        name = (run.job, run.generation)
        if self.rank is not None and self.rank.name == name:
            return
        if name in self.exits:
            self.say(self.exits[name])
        elif name in self.never or self.leaving or self.rank is not None:
            self.say(RankRefused(*name, reason="never, leaving, or another runs"))
        elif run.generation < folder.claimed:
            self._book(Exited(*name, run.rank, run.token, None, False, None, "an older generation"))
        else:
            folder.claimed = run.generation
            self.rank = Running(run, began_s=now_s)

    def _stop(self, name: Name, at_s: float) -> None:
        if self.rank is not None and self.rank.name == name:
            if self.rank.stop_s is None:
                self.rank.stop_s = at_s
        elif name in self.exits:
            self.say(self.exits[name])
        else:
            self.never.add(name)
            self.say(RankRefused(*name, reason="it never ran here, and will not"))

    def leave(self, now_s: float) -> None:
        """Stop what runs, and end once it has."""
        if not self.leaving:
            self.leaving = True
            self.say(Leaving("told to leave, or the lease is over"))
        if self.rank is not None and self.rank.stop_s is None:
            self.rank.stop_s = now_s + 1.0

    def end_rank(self, code: int, asked: bool, folder: Checkpoints, done: bool = False) -> None:
        """Let the rank end and book it."""
        assert self.rank is not None
        run = self.rank.run
        last = self.report(folder, done) if run.rank == 0 and self.rank.whole else None
        self.rank = None
        self._book(Exited(run.job, run.generation, run.rank, run.token, code, asked, last))

    def report(self, folder: Checkpoints, done: bool = False) -> Progress:
        """Return what the trainer says of itself."""
        assert self.rank is not None
        run = self.rank.run
        made = folder.made
        return Progress(
            run.job, run.generation, run.rank, run.token, 1.0, made, durable=folder.saved, done=done
        )

    def _book(self, exited: Exited) -> None:
        name = (exited.job, exited.generation)
        self.exits[name] = exited
        self.unconfirmed.add(name)
        self.say(exited)

    def pass_time(self, folders: dict[str, Checkpoints], now_s: float) -> None:
        """Keep the lease: by the agent while it is not frozen, by the watchdog in any case."""
        end_s = self.leased_s + self.lease_s
        if self.rank is not None and now_s > end_s + grace_after_lease(self.lease_s):
            self.end_rank(-9, True, folders[self.rank.run.job])
        if self.frozen:
            return
        if now_s > end_s:
            self.leave(now_s)
        rank = self.rank
        if rank is not None and rank.stop_s is not None and now_s >= rank.stop_s:
            folder = folders[rank.run.job]
            if rank.whole and folder.claimed == rank.run.generation:
                folder.saved = max(folder.saved, folder.made)
            self.end_rank(STOPPED, True, folder)
        if self.leaving and self.rank is None:
            self.alive = False
