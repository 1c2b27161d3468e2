"""All that a controller must remember: jobs, pilots, and which rank of which job runs on which pilot.

The books of a job: what it has trained on, as its trainer says, and which of that contradicts itself.

Any rank may report the job's totals. The record follows what the ranks say, because only the trainer knows
what its checkpoint holds. A report that cannot be true beside the ones before is counted: after
`apportion.live.record.jobs.DISTRUST` of them the job's speed is not learnt from its reports any more,
so that no job gains nodes by what it says.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from enum import StrEnum

from apportion.live.channel.messages import Progress
from apportion.live.offers import Share, Size
from apportion.live.record.jobs import DISTRUST, Job

__all__ = ["Hold", "Pilot", "Rank", "State", "book", "close_books", "open_books"]


def open_books(job: Job, now_s: float) -> None:
    """Begin a generation: nothing was reported yet."""
    job.said, job.reporter, job.done_rank, job.heard_s = {}, None, None, now_s


def book(job: Job, line: Progress, now_s: float) -> bool:
    """Book a report of the running generation; return whether it agrees with those before."""
    job.dropped = max(job.dropped, line.dropped)
    if job.done_rank is not None and line.rank != job.done_rank:
        return True  # a rank that is late
    before = job.said.get(line.rank)
    durable = _durable(job, line, before)
    wrong = int(durable > line.samples or _beyond(job, line.samples))
    durable = min(durable, line.samples)
    if not job.said:
        wrong = max(wrong, _first(job, line, durable))
        job.heard_s = now_s
    elif before is not None:
        wrong = max(wrong, _against(before, line, durable))
    if job.reporter is None and before is not None and line.samples > before[0]:
        job.reporter = line.rank
    job.said[line.rank] = (line.samples, durable)
    samples, saved = job.samples, job.durable
    job.samples = max(count for count, _ in job.said.values())
    job.durable = min(max(saved, durable), job.samples)
    if line.done:
        job.done_rank, job.samples, job.durable = line.rank, line.samples, line.samples
    if job.samples > samples:
        job.heard_s = now_s
    if job.durable > saved and not wrong:
        job.failures = 0
    job.inconsistent += wrong
    return not wrong


def close_books(job: Job, stopped: bool) -> None:
    """End a generation: what is not in a checkpoint is lost.

    Parameters
    ----------
    job
        The job.
    stopped
        Whether its ranks ended by themselves with a checkpoint, as far as they said.
    """
    job.claimed = job.durable if stopped and job.said else None
    job.samples = job.durable
    job.said, job.reporter = {}, None


def _durable(job: Job, line: Progress, before: tuple[int, int] | None) -> int:
    """Return the samples in a checkpoint by a report; one that does not say repeats what is known."""
    if line.durable is not None:
        return line.durable
    if before is not None:
        return before[1]
    return job.durable if job.said else line.samples


def _first(job: Job, line: Progress, durable: int) -> int:
    """Take in the first report of a generation, which tells what was restored; return what is wrong."""
    job.samples, job.durable = line.samples, durable
    if job.claimed is None or line.samples >= job.claimed:
        return 0
    job.message = f"began at {line.samples} samples, its checkpoint was said to hold {job.claimed}"
    return DISTRUST


def _against(before: tuple[int, int], line: Progress, durable: int) -> int:
    """Return how far a rank's report contradicts the one before it."""
    if line.samples < before[0]:
        # samples trained on cannot become fewer while the ranks run, save for who falls back to a checkpoint
        return 1 if line.samples == durable >= before[1] else DISTRUST
    return int(durable < before[1])


def _beyond(job: Job, samples: int) -> bool:
    return job.spec.samples is not None and samples > job.spec.samples


class Hold(StrEnum):
    """How far the controller is with a pilot."""

    TAKING = "taking"
    """Written down before the scheduler is asked; its handle is not known yet."""
    HELD = "held"
    RELEASING = "releasing"
    """Written down before the scheduler is told to end it, or the scheduler is ending it."""
    ENDED = "ended"


@dataclass(slots=True)
class Pilot:
    """A node or a part of it held, or being taken or given back.

    Attributes
    ----------
    job
        Number of the job that is to run on it, ``None`` for none.
    since_s
        When `hold` was entered.
    free_s
        Since when no job is to run on it.
    lost_s
        When its node was seen to have failed.
    share
        What it has beside a GPU, ``None`` if it has the node whole.
    type
        Of its node; empty where types do not matter.
    """

    pilot: str
    node: str
    token: str
    hold: Hold
    since_s: float
    handle: str | None = None
    job: int | None = None
    free_s: float | None = None
    lost_s: float | None = None
    share: Share | None = None
    type: str = ""

    @property
    def live(self) -> bool:
        """Whether the pilot holds its node, or may come to hold it."""
        return self.hold is not Hold.ENDED

    @property
    def usable(self) -> bool:
        """Whether jobs may be put on the pilot's node."""
        return self.hold in (Hold.TAKING, Hold.HELD)

    def enter(self, hold: Hold, now_s: float) -> None:
        """Change `hold`; a pilot that is given back serves no job any more."""
        self.hold, self.since_s = hold, now_s
        if not self.usable:
            self.job, self.free_s = None, None


@dataclass(slots=True)
class Rank:
    """One rank of a generation of a job.

    Attributes
    ----------
    live
        Whether processes of it may exist.
    code
        Its exit code, ``None`` while it lives or if it is not known.
    asked
        Whether it had been told to stop.
    ended_s
        When its end was noted.
    departed
        Whether it ended because its node went away.
    tail
        The end of what it printed.
    """

    job: int
    generation: int
    rank: int
    pilot: str
    live: bool = True
    code: int | None = None
    asked: bool = False
    departed: bool = False
    ended_s: float | None = None
    tail: str = ""

    def end(self, now_s: float, departed: bool) -> None:
        """Note that no process of the rank exists any more."""
        self.live, self.ended_s, self.departed = False, now_s, departed


@dataclass(slots=True)
class State:
    """Everything on record.

    Attributes
    ----------
    instance
        Eight hexadecimal digits that name this state folder to the scheduler.
    next_pilot
        The next pilot's number.
    port
        Port of the report channel, ``None`` until it was chosen.
    draining
        Whether all nodes are to be given back.
    boot, ahead_s
        The start of the controller's machine that its clock was made in, and how far that clock is ahead
        of the machine's steady one (`apportion.live.cluster.continued`).
    sizes
        Of the partition's nodes, as they were last seen; empty if they never were.
    jobs
        By number.
    pilots
        By id; those that ended are forgotten after a while.
    ranks
        By (job, generation, rank): those of every job's latest generation.
    """

    instance: str
    next_pilot: int = 1
    port: int | None = None
    draining: bool = False
    boot: str | None = None
    ahead_s: float = 0.0
    sizes: tuple[Size, ...] = ()
    jobs: dict[int, Job] = field(default_factory=dict)
    pilots: dict[str, Pilot] = field(default_factory=dict)
    ranks: dict[tuple[int, int, int], Rank] = field(default_factory=dict)

    @property
    def newest_s(self) -> float:
        """The latest time on record, 0 if there is none."""
        pilots = [pilot.since_s for pilot in self.pilots.values()]
        return max([0.0, *pilots, *(job.changed_s for job in self.jobs.values())])

    def copy(self) -> State:
        """Return a copy that may be changed; it shares what has ended, which changes no more."""
        return replace(
            self,
            jobs={key: job if job.ended else job.copy() for key, job in self.jobs.items()},
            pilots={key: copy(pilot) if pilot.live else pilot for key, pilot in self.pilots.items()},
            ranks={key: copy(rank) if rank.live else rank for key, rank in self.ranks.items()},
        )

    def job(self, id: str) -> Job | None:
        """Return the job that users know by this id."""
        return next((job for job in self.jobs.values() if job.id == id), None)

    def ranks_of(self, job: Job) -> list[Rank]:
        """Return the ranks of a job's latest generation, in order; they are numbered from 0 without gaps."""
        found: list[Rank] = []
        while (rank := self.ranks.get((job.number, job.generation, len(found)))) is not None:
            found.append(rank)
        return found

    def by_job(self) -> dict[int, list[Rank]]:
        """Return the ranks of every job's latest generation."""
        found: dict[int, list[Rank]] = {}
        for rank in self.ranks.values():
            if rank.generation == self.jobs[rank.job].generation:
                found.setdefault(rank.job, []).append(rank)
        for ranks in found.values():
            ranks.sort(key=lambda rank: rank.rank)
        return found

    def rank_on(self) -> dict[str, Rank]:
        """Return the live rank on every pilot that has one."""
        return {rank.pilot: rank for rank in self.ranks.values() if rank.live}

    def wanted(self, job: Job) -> list[Pilot]:
        """Return the pilots a job is to run on, in order of their nodes."""
        own = [pilot for pilot in self.pilots.values() if pilot.job == job.number and pilot.usable]
        return sorted(own, key=lambda pilot: pilot.node)

    def new_pilot(
        self, node: str, token: str, now_s: float, job: int | None, share: Share | None = None, type: str = ""
    ) -> Pilot:
        """Note down a pilot that is about to be asked for."""
        name = f"{self.instance}-{self.next_pilot}"
        pilot = Pilot(name, node, token, Hold.TAKING, now_s, job=job, share=share, type=type)
        self.next_pilot += 1
        self.pilots[pilot.pilot] = pilot
        return pilot
