"""From how many units every job gets to which ones, and what is to be done for it.

A policy holds units to be alike. A pilot was asked for with the share of one job, though, and a node may have
GPUs left and no CPUs for them; so what a plan hands out is looked at here, and for jobs that too few units
fit it is said how many do.

Where a partition has several types of node, every job runs on one of them at a time (`choose_types`): a
knapsack with a capacity for every type. A job's options are a count on one of its types, worth what it is
believed to train there over the forward-looking time, less the standstill of getting there, in units of its
own best speed on a single node (samples of unlike jobs do not compare). Who gets how many nodes of a type is
afterwards the policy's to say.

`commands` says what is to be done by what is on record: take and give back pilots, tell agents to run and to
stop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.gap_filling_view import FREE, count_held
from apportion.core.interruption import uninterrupted
from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Termination
from apportion.live.channel.messages import Leave, Run, Stop
from apportion.live.cluster import AgentSeen
from apportion.live.controller.actions import Planned, Release, Take, Tell
from apportion.live.controller.core import Draft
from apportion.live.offers import NodeOffer, Share, misfit
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import Hold, Pilot, Rank, State
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Present

__all__ = [
    "TypedJobs",
    "Units",
    "choose_types",
    "commands",
    "give_back",
    "placed",
    "put_on_record",
    "releases",
    "serves",
]


_AGAIN_S = 5.0
"""What was asked for and does not happen is asked for again after so long."""


def put_on_record(draft: Draft, planned: Planned) -> list[Take]:
    """Write a decision into the state as who is to run where; return what is to be taken.

    A place that cannot be as it is decided is left out: a node that is not idle or held already, a pilot that
    is given back, a job that has ended, or one that needs more than it would have there.
    """
    state, memory = draft.state, draft.memory
    free = Counter(memory.idle.free(draft.now_s))
    offers = dict(memory.idle.offers)
    held = sum(pilot.live for pilot in state.pilots.values())
    most = draft.limits.max_nodes
    new = []
    for place in planned.places:
        job = None if place.job is None else state.jobs.get(place.job)
        number = None if job is None or job.ended else job.number
        pilot = None if place.pilot is None else state.pilots.get(place.pilot)
        if place.pilot is None:
            offer = offers.get(place.node)
            full = most is not None and held >= most
            if job is None or number is None or full or not free[place.node] or not _fits(offer, job):
                continue
            share = None if offer is None else offer.share(job.spec, free[place.node])
            if offer is not None and not offer.has(share):
                continue
            secret = draft.secret(f"pilot/{state.next_pilot}")
            type = "" if offer is None else offer.size.type
            pilot = state.new_pilot(place.node, secret, draft.now_s, number, share, type)
            if offer is not None:
                offers[place.node] = offer.without(share)
            free[place.node] -= 1
            held += 1
            draft.note("take", node=pilot.node, pilot=pilot.pilot, job=number)
            new.append(Take(pilot.node, pilot.pilot, pilot.token, share))
        elif pilot is not None and pilot.usable:
            _serve(draft, pilot, job, place.back)
    return new


def _serve(draft: Draft, pilot: Pilot, job: Job | None, back: bool) -> None:
    """Let a pilot serve a job, or none; one that is to be given back serves none."""
    offer = draft.memory.idle.offers.get(pilot.node)
    if job is not None and (job.ended or back):
        job = None
    if job is not None and not serves(pilot, job, offer):
        return
    number = None if job is None else job.number
    if pilot.job != number:
        pilot.job = number
        pilot.free_s = draft.now_s if number is None else None
    if back and pilot.pilot not in draft.state.rank_on():
        draft.note(
            "release", node=pilot.node, pilot=pilot.pilot, why="a job needs a larger share of its node"
        )
        pilot.enter(Hold.RELEASING, draft.now_s)


def serves(pilot: Pilot, job: Job, offer: NodeOffer | None) -> bool:
    """Return whether a rank of a job has what it needs where a pilot is."""
    if not job.spec.runs_on(pilot.type):
        return False
    return pilot.share.serves(job.spec) if pilot.share is not None else _fits(offer, job)


def _fits(offer: NodeOffer | None, job: Job) -> bool:
    """Return whether a node whose size may be known could hold a rank of a job."""
    return offer is None or misfit(job.spec, [offer.size]) is None


def give_back(draft: Draft, agents: Mapping[str, AgentSeen]) -> None:
    """Write down which pilots are to be given back."""
    state, limits, now_s = draft.state, draft.limits, draft.now_s
    rank_on = state.rank_on()
    for pilot in state.pilots.values():
        if not pilot.usable:
            draft.memory.unheard.pop(pilot.pilot, None)
            continue
        if pilot.pilot in agents:
            draft.memory.unheard.pop(pilot.pilot, None)
        why = _reason(draft, pilot, rank_on.get(pilot.pilot), agents)
        if why is not None:
            draft.note("release", node=pilot.node, pilot=pilot.pilot, why=why)
            pilot.enter(Hold.RELEASING, now_s)
    for job in state.jobs.values():
        late_s = limits.grace_s + limits.overdue_s
        if job.state is JobState.STOPPING and now_s - job.changed_s > late_s:
            for rank in state.ranks_of(job):
                owner = state.pilots.get(rank.pilot)
                if rank.live and owner is not None and owner.usable:
                    draft.note("release", node=owner.node, pilot=owner.pilot, why="its rank does not end")
                    owner.enter(Hold.RELEASING, now_s)


def _reason(draft: Draft, pilot: Pilot, rank: Rank | None, agents: Mapping[str, AgentSeen]) -> str | None:
    state, limits, now_s = draft.state, draft.limits, draft.now_s
    asked = pilot.hold is Hold.TAKING and pilot.handle is not None
    if asked and now_s - pilot.since_s > limits.pending_s:
        return "it did not start in time"
    if pilot.pilot not in agents and pilot.hold is Hold.HELD:
        since_s = draft.memory.unheard.setdefault(pilot.pilot, now_s)
        if now_s - since_s > (limits.connect_s if rank is None else limits.lease_s):
            return "its agent is not heard of"
    if rank is None and pilot.job is None:
        free_s = pilot.since_s if pilot.free_s is None else pilot.free_s
        if state.draining or now_s - free_s >= limits.linger_s:
            return "drained" if state.draining else "no job needs it"
    return None


def commands(draft: Draft, agents: Mapping[str, AgentSeen]) -> list[Tell]:
    """Return what agents are to be told: once over every connection, to stop until it is done."""
    state, memory, now_s = draft.state, draft.memory, draft.now_s
    tells = []
    memory.said = {pilot: said for pilot, said in memory.said.items() if pilot in agents}
    ranks_of = state.by_job()
    for job in state.jobs.values():
        if job.state not in (JobState.RUNNING, JobState.STOPPING):
            continue
        ranks = ranks_of.get(job.number, [])
        verb = "run" if job.state is JobState.RUNNING else "stop"
        for rank in ranks:
            agent = agents.get(rank.pilot)
            if not rank.live or agent is None:
                continue
            said = (agent.connection, job.number, job.generation, verb)
            before = memory.said.get(rank.pilot)
            # a stop that was lost on its way is lost for good: nothing else ends a rank whose pilot the
            # scheduler has forgotten; a run that was lost shows as a job that makes no progress
            again = verb == "stop" and before is not None and now_s - before[4] >= _AGAIN_S
            if before is not None and before[:4] == said and not again:
                continue
            stop = Stop(job.id, job.generation, draft.limits.grace_s)
            tells.append(Tell(rank.pilot, _run(state, job, rank, ranks) if verb == "run" else stop))
            memory.said[rank.pilot] = (*said, now_s)
    rank_on = state.rank_on()
    for pilot in state.pilots.values():  # the scheduler has given these up, and ends them no more
        if pilot.live and pilot.lost_s is not None and pilot.pilot not in rank_on and pilot.pilot in agents:
            tells.append(Tell(pilot.pilot, Leave(draft.limits.grace_s)))
    return tells


def releases(draft: Draft, orphans: Sequence[str]) -> list[Release]:
    """Return which pilots the scheduler is to be asked to end, orphans first."""
    pilots, memory = draft.state.pilots.values(), draft.memory
    handles = [
        pilot.handle
        for pilot in pilots
        if pilot.hold is Hold.RELEASING and pilot.handle is not None and pilot.lost_s is None
    ]
    known = {pilot.handle for pilot in pilots if pilot.live} | set(orphans)
    memory.released = {handle: at_s for handle, at_s in memory.released.items() if handle in known}
    due = [
        handle
        for handle in dict.fromkeys([*orphans, *handles])
        if draft.now_s - memory.released.get(handle, -_AGAIN_S) >= _AGAIN_S
    ]
    return [Release(handle) for handle in due]


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


@dataclass(frozen=True, slots=True, eq=False)
class TypedJobs:
    """The jobs of a decision.

    Attributes
    ----------
    rates
        float64 [jobs, types, counts]: believed samples per second.
    allowed
        bool [jobs, types]: whether a job runs on a type.
    held
        int64 [jobs, types]: nodes held.
    low, high
        int64 [jobs]: least and most nodes.
    up_s, down_s
        float64 [jobs]: standstill of growing, or of going elsewhere, and of shrinking.
    listed
        bool [jobs, counts]: which counts from least to most a job may have; ``None``: all of them.
    """

    rates: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    held: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    up_s: NDArray[np.float64]
    down_s: NDArray[np.float64]
    listed: NDArray[np.bool_] | None = None

    def values(self, horizon_s: float) -> NDArray[np.float64]:
        """Return float64 [jobs, types, counts]: what so many nodes of a type are worth to a job."""
        jobs = np.arange(self.low.size)
        on_one = np.where(self.allowed, self.rates[:, :, 1], 0.0)
        best = np.maximum(on_one.max(axis=1, initial=0.0), 1e-300)[:, None, None]
        total, most_on = self.held.sum(axis=1), self.held.argmax(axis=1)
        # one that runs on several types, from before they were told apart, counts as on that of most nodes
        now = self.rates[jobs, most_on, self.held[jobs, most_on]]
        runs = np.where((total > 0) & (total >= self.low), now, 0.0)[:, None, None]
        counts, total = np.arange(self.rates.shape[2]), total[:, None, None]
        here = self.held[:, :, None] == total
        shrinks, stays = here & (counts < total), here & (counts == total)
        stall_s = np.where(shrinks, self.down_s[:, None, None], self.up_s[:, None, None])
        lost = runs * np.where(stays, 0.0, stall_s)
        return np.asarray((horizon_s * self.rates - lost) / best)

    def menus(self, capacities: NDArray[np.int64], horizon_s: float) -> Menus:
        """Return what every job may have: nothing first, then counts in ascending order, type by type."""
        num, types, _ = self.rates.shape
        counts = np.arange(self.rates.shape[2])
        most = np.minimum(self.high[:, None], capacities)[:, :, None]
        open_to = self.allowed[:, :, None] & (counts >= self.low[:, None, None]) & (counts <= most)
        if self.listed is not None:
            open_to &= self.listed[:, None, :]
        job, type, count = np.nonzero(open_to)
        offsets = np.zeros(num + 1, dtype=np.int64)
        np.cumsum(1 + np.bincount(job, minlength=num), out=offsets[1:])
        rows = np.arange(job.size) + job + 1  # every job's nothing stands before its options
        made = Menus(
            values=np.zeros(offsets[-1]),
            uses=np.zeros((offsets[-1], types), dtype=np.int64),
            offsets=offsets,
            types=np.full(offsets[-1], -1, dtype=np.int64),
            stays=np.where(self.held.any(axis=1), -1, offsets[:-1]),
        )
        made.values[rows] = self.values(horizon_s)[job, type, count]
        made.uses[rows, type] = count
        made.types[rows] = type
        total = self.held.sum(axis=1)
        same = (count == self.held[job, type]) & (count == total[job])
        made.stays[job[same]] = rows[same]
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Menus:
    """The jobs' options, one a row; those of job ``j`` are ``offsets[j]:offsets[j + 1]``.

    Attributes
    ----------
    values
        float64 [options].
    uses
        int64 [options, types]: nodes.
    offsets
        int64 [jobs + 1].
    types
        int64 [options]: -1 for nothing.
    stays
        int64 [jobs]: the row that leaves a job as it is, -1 for none.
    """

    values: NDArray[np.float64]
    uses: NDArray[np.int64]
    offsets: NDArray[np.int64]
    types: NDArray[np.int64]
    stays: NDArray[np.int64]


def choose_types(jobs: TypedJobs, capacities: Sequence[int], horizon_s: float) -> NDArray[np.int64] | None:
    """Return int64 [jobs]: the type every job runs on, -1 for none; ``None`` if no optimum was proven.

    Among choices of equal worth one that leaves more jobs where they are is taken.

    Parameters
    ----------
    jobs
        The jobs; every type has at least as many counts in `jobs.rates` as nodes.
    capacities
        How many nodes there are of every type.
    horizon_s
        Forward-looking time, seconds.
    """
    from apportion.solvers.exact import solve
    from apportion.solvers.strict_order import later_goals

    room = np.array(capacities, dtype=np.int64)
    menus = jobs.menus(room, horizon_s)
    model = MultipleChoiceKnapsack.from_arrays(menus.values, menus.uses, menus.offsets, room)
    options = SolveOptions(time_limit=None)
    outcome = uninterrupted(solve(model, options, Start(preferred=menus.stays)))
    if outcome.termination is not Termination.OPTIMAL or outcome.point is None:
        return None
    best = outcome.point.astype(np.int64)
    present = Present.of(menus.stays, menus.types < 0)
    kept = later_goals(model, best, present, options, seconds=0.0, optimal=True)
    chosen = best if kept.choice is None else kept.choice
    if (menus.uses[chosen].sum(axis=0) > room).any():
        return None
    return menus.types[chosen]


@dataclass(frozen=True, slots=True)
class Units:
    """What a decision is about.

    Attributes
    ----------
    nodes
        The node of every unit.
    pilots
        The pilot that holds it, ``None`` where one is to be taken.
    offers
        What nodes have, as far as that is known.
    """

    nodes: tuple[str, ...]
    pilots: tuple[Pilot | None, ...]
    offers: Mapping[str, NodeOffer]

    def types(self) -> list[str]:
        """Return the type of every unit."""
        sizes = {node: offer.size.type for node, offer in self.offers.items()}
        return [
            sizes.get(node, "") if pilot is None else pilot.type
            for node, pilot in zip(self.nodes, self.pilots, strict=True)
        ]

    def part(self, places: Sequence[int]) -> Units:
        """Return some of the units."""
        return Units(
            tuple(self.nodes[at] for at in places), tuple(self.pilots[at] for at in places), self.offers
        )


@dataclass(slots=True)
class _Left:
    """What is left of nodes while units are handed out."""

    units: Units
    offers: dict[str, NodeOffer]
    fresh: Counter[str] = field(default_factory=Counter)

    def best_first(self, pool: Sequence[int], job: Job) -> list[int]:
        """Return units in the order in which a job takes them: those whose pilots must be replaced last."""

        def too_small(unit: int) -> bool:
            pilot = self.units.pilots[unit]
            return pilot is not None and not serves(pilot, job, self.offers.get(self.units.nodes[unit]))

        return sorted(pool, key=too_small)

    def give(self, unit: int, job: Job) -> bool | None:
        """Return whether a job has a unit at once, or else once its pilot is replaced; ``None``: neither."""
        node, pilot = self.units.nodes[unit], self.units.pilots[unit]
        offer = self.offers.get(node)
        if pilot is not None:
            if serves(pilot, job, offer):
                return True
            return self._replace(node, pilot.share, job)
        if offer is None:
            return True
        share = offer.share(job.spec, self.fresh[node])
        if share is None:
            return True if Share(offer.size.cpus, offer.size.memory_mib).serves(job.spec) else None
        if not offer.has(share):
            return None
        self.offers[node] = offer.without(share)
        self.fresh[node] -= 1
        return True

    def _replace(self, node: str, held: Share | None, job: Job) -> bool | None:
        """Return false if a pilot with a share for a job fits where one with this share is, else ``None``."""
        offer = self.offers.get(node)
        if held is None or offer is None:
            return None
        cpus, memory = job.spec.cpus_per_rank, job.spec.memory_mib_per_rank
        more = Share(max((cpus or 0) - held.cpus, 0), max((memory or 0) - held.memory_mib, 0))
        if not offer.has(more):
            return None
        self.offers[node] = offer.without(more)
        return False


def placed(
    units: Units, jobs: Sequence[Job], before: NDArray[np.int64], plan: NDArray[np.int64]
) -> tuple[NDArray[np.int64], frozenset[int], dict[int, int]]:
    """Return a plan of the same counts in which every job has what it needs.

    Parameters
    ----------
    units, jobs
        Positions as in the plan.
    before, plan
        int64 [units]: the job that holds a unit, and the one that is to.

    Returns
    -------
    plan
        int64 [units].
    replaced
        Units whose pilots are to be given back, so that one with a larger share takes their place.
    short
        By job, how many units it can have, where that is fewer than planned.
    """
    if not any(_needy(job) for job in jobs):
        return plan, frozenset(), {}
    kept = plan == before
    result = np.where(kept, plan, FREE)
    pool = np.flatnonzero(~kept | (plan == FREE)).tolist()
    fresh = Counter(units.nodes[unit] for unit in pool if units.pilots[unit] is None)
    left, replaced, short = _Left(units, dict(units.offers), fresh), set[int](), dict[int, int]()
    wanted = count_held(plan, len(jobs)) - count_held(result, len(jobs))
    for job in sorted(np.flatnonzero(wanted > 0).tolist(), key=lambda job: (_largest(jobs[job]), job)):
        missing = int(wanted[job])
        for unit in left.best_first(pool, jobs[job]):
            given = left.give(unit, jobs[job]) if missing else None
            if given is None:
                continue
            pool.remove(unit)
            missing -= 1
            if given:
                result[unit] = job
            else:
                replaced.add(unit)
        if missing:
            short[job] = int(np.count_nonzero(plan == job)) - missing
    return result, frozenset(replaced), short


def _needy(job: Job) -> bool:
    return job.spec.cpus_per_rank is not None or job.spec.memory_mib_per_rank is not None


def _largest(job: Job) -> tuple[int, int]:
    return -(job.spec.memory_mib_per_rank or 0), -(job.spec.cpus_per_rank or 0)
