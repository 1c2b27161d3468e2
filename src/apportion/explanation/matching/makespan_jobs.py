"""Why a job of a makespan runs where it does: when, how long, and what it would meet elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from apportion.explanation.parts import JobWorth, OptionWorth, Rival
from apportion.explanation.plan_view import difference
from apportion.explanation.resolver import Resolver
from apportion.explanation.words import seconds
from apportion.instances import edits
from apportion.instances.matching import MatchingInstance, MatchingJob
from apportion.instances.matching.schedule import Placed, machine_name
from apportion.solution import Solution

__all__ = ["MakespanView", "shared_worth", "timed_worth"]

_LATE = 1e-9


class MakespanView:
    """A plan and when every machine of it is done.

    Parameters
    ----------
    instance, solution
        The instance and its solution.
    placed
        Where and when every job runs.
    """

    def __init__(self, instance: MatchingInstance, solution: Solution, placed: Mapping[str, Placed]) -> None:
        self.instance, self.solution, self.placed = instance, solution, placed
        self.count = {machine.id: machine.count for machine in instance.machines}
        self.done = {name: np.zeros(count) for name, count in self.count.items()}
        for where in placed.values():
            held = list(where.machines)
            self.done[where.pool][held] = np.maximum(self.done[where.pool][held], where.end)
        self.makespan = float(solution.objective or 0.0)

    def behind(self, job: MatchingJob, pool: str) -> tuple[float, float]:
        """Return when a job could start behind everything that runs on a pool, and when it would end."""
        entry = job.on[pool]
        begin = float(np.sort(self.done[pool])[entry.gpus - 1])
        return begin, begin + float(entry.time_s or 0.0)


def timed_worth(
    view: MakespanView, job: MatchingJob, asked: str | None, resolver: Resolver | None, share: float
) -> JobWorth:
    """Return why a job runs where it does; `asked` is another pool that was asked about."""
    where = view.placed[job.id]
    rivals = [pool for pool in job.on if pool != where.pool]
    # the runner-up: where it would end first behind what runs there anyway
    runner_up = min(rivals, key=lambda pool: (view.behind(job, pool)[1], pool), default=None)
    return JobWorth(
        job=job.id,
        chosen=_worth(job, where.pool),
        runner_up=None if runner_up is None else _rival(view, job, runner_up, resolver, share),
        asked=None if asked is None else _rival(view, job, asked, resolver, share),
        step_up=None,
        step_down=None,
        enters_at=None,
        enters_at_price=None,
        idle=False,
        remarks=tuple(_remarks(view, job, where, asked or runner_up)),
    )


def _worth(job: MatchingJob, pool: str) -> OptionWorth:
    entry = job.on[pool]
    return OptionWorth(pool, float(entry.time_s or 0.0), {pool: entry.gpus}, None, None)


def _rival(view: MakespanView, job: MatchingJob, pool: str, resolver: Resolver | None, share: float) -> Rival:
    worth = _worth(job, pool)
    if resolver is None:
        return Rival(worth, None)
    if pool == view.placed[job.id].pool:
        return Rival(worth, None, difference(view.solution, view.solution, -1.0), True)
    answer = resolver.solve(edits.pin(view.instance, {job.id: pool}), view.solution, share)
    if answer is None or answer.plan is None:
        return Rival(worth, None)
    return Rival(worth, None, difference(view.solution, answer, -1.0), True)


def _remarks(view: MakespanView, job: MatchingJob, where: Placed, other: str | None) -> list[str]:
    count = view.count[where.pool]
    machines = ", ".join(machine_name(where.pool, k, count) for k in where.machines[:8])
    machines += f" and {len(where.machines) - 8} more" if len(where.machines) > 8 else ""
    last = ", when everything ends" if where.end >= view.makespan * (1 - _LATE) else ""
    remarks = [f"on {machines} from {seconds(where.begin)} to {seconds(where.end)}{last}"]
    times = {pool: float(entry.time_s or 0.0) for pool, entry in job.on.items()}
    quickest = min(times, key=lambda pool: (times[pool], pool))
    own = times[where.pool]
    if len(times) == 1:
        remarks.append("no other pool can run it")
    elif own <= times[quickest]:
        remarks.append("nothing is quicker for it")
    elif times[quickest] > 0:
        ratio = own / times[quickest]
        remarks.append(
            f"{quickest} is its quickest: {seconds(times[quickest])}, here it takes {ratio:.3g} times as long"
        )
    for pool in dict.fromkeys((quickest, other)):
        if pool is None or pool == where.pool:
            continue
        begin, end = view.behind(job, pool)
        gang = job.on[pool].gpus
        busy = f"{gang} machines of it are" if gang > 1 else "a machine of it is"
        late = end - view.makespan
        if late > _LATE * view.makespan:
            tail = f"it would end at {seconds(end)}, {seconds(late)} after everything else"
        else:
            tail = f"it would end at {seconds(end)}, no later than everything does"
        remarks.append(f"on {pool} as planned {busy} free from {seconds(begin)} on: behind that {tail}")
    return remarks


def shared_worth(job: MatchingJob, shares: Mapping[str, float]) -> JobWorth:
    """Return what a job that runs by shares of time gets."""
    speed = sum(share / float(job.on[pool].time_s or 1.0) for pool, share in shares.items())
    held = {pool: share for pool, share in shares.items() if share > 0}
    parts = ", ".join(f"{100 * share:.4g} % on {pool}" for pool, share in held.items())
    times = {pool: float(entry.time_s or 0.0) for pool, entry in job.on.items()}
    quickest = min(times, key=lambda pool: (times[pool], pool))
    remarks = [f"its time: {parts}; done after {seconds(1.0 / speed)}" if speed else "gets no time"]
    if set(held) != {quickest}:
        remarks.append(f"{quickest} is its quickest: {seconds(times[quickest])} if it had it all the time")
    largest = max(held, key=lambda pool: held[pool], default=quickest)
    return JobWorth(
        job=job.id,
        chosen=OptionWorth(largest, times[largest], {pool: job.on[pool].gpus for pool in held}, None, None),
        runner_up=None,
        asked=None,
        step_up=None,
        step_down=None,
        enters_at=None,
        enters_at_price=None,
        idle=False,
        remarks=tuple(remarks),
    )
