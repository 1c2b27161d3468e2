"""The summary of a replay: the figures of one line of a table, and the two makespans it is measured by.

One is that of the same jobs on a dedicated pool of as many nodes as were idle on average. There nothing
leaves, rescaling is free and completions are noticed at once; nodes are divided for the greatest throughput
whenever a job comes or goes. A replay is compared by the pool's makespan divided by its own (after A_e / A_s
of BFTrainer, arXiv:2106.12091); the pool is as short-sighted as FreeTrain's objective, so that the ratio can
exceed 1.

The other one no policy can beat on a trace, not even one that knows the future: nothing is ever lost.

For any prices w >= 0, one per kind of job, the work done by time T is worth at most the integral of
G(N(t)), where N(t) nodes are idle and G(N) is the greatest sum of w x rate that `trainers` jobs of any
kinds reach on N nodes. All jobs are done at the earliest where that integral reaches the worth of all work:
a lower bound of the makespan by weak duality. Pre-emption, rescaling, late completions, submissions and the
order of the queue are all left out. The prices are improved by projected subgradient steps; every iterate
gives a valid bound.
"""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from apportion.cluster.simulation.idle_trace import NodeChanges
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.snapshot import Workload
from apportion.core.display import Figures
from apportion.core.errors import InvalidOption
from apportion.core.interruption import uninterrupted
from apportion.core.options import SolveOptions
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Summary", "dedicated_makespan", "dedicated_rate", "makespan_bound", "summarise", "to_dedicated"]


_OPTIONS = SolveOptions(time_limit=None)


def to_dedicated(
    jobs: Workload, trainers: int, nodes: float, makespan_s: float, start_s: float
) -> float | None:
    """Return the makespan on a dedicated pool of `nodes` nodes divided by `makespan_s`.

    Parameters
    ----------
    jobs
        A finite workload.
    trainers
        Most jobs at a time, on the pool as in the replay.
    nodes
        Equivalent nodes, the time average of the idle ones; the pool's makespan is interpolated linearly
        between the whole numbers around it.
    makespan_s
        Makespan of the replay, seconds.
    start_s
        When both start, on the clock of `jobs.submitted_s`.

    Returns
    -------
    float or None
        ``None`` if the smaller pool cannot run the jobs.
    """
    low, high = math.floor(nodes), math.ceil(nodes)
    spans = [dedicated_makespan(jobs, trainers, count, start_s) for count in sorted({low, high})]
    if any(span is None for span in spans) or makespan_s <= 0:
        return None
    known = [span for span in spans if span is not None]
    share = nodes - low if len(known) == 2 else 0.0
    return ((1.0 - share) * known[0] + share * known[-1]) / makespan_s


def dedicated_makespan(jobs: Workload, trainers: int, nodes: int, start_s: float) -> float | None:
    """Return the seconds a dedicated pool takes for a finite workload; ``None`` if it cannot finish.

    Raises
    ------
    InvalidOption
        If the workload is endless.
    """
    if jobs.endless:
        raise InvalidOption("an endless workload has no makespan")
    pool = _Pool(jobs, nodes)
    now_s, waiting = start_s, 0
    running: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    left = np.zeros(0)
    while waiting < jobs.num_jobs or running.size:
        ready = int(np.searchsorted(jobs.submitted_s, now_s, side="right"))
        more = np.arange(waiting, max(min(ready, waiting + trainers - running.size), waiting))
        waiting += more.size
        running, left = np.concatenate((running, more)), np.concatenate((left, jobs.work[more]))
        rate = pool.rates(running)
        ends = np.divide(left, rate, out=np.full(left.size, np.inf), where=rate > 0)
        lasting = float(ends.min(initial=np.inf))
        if waiting < jobs.num_jobs and running.size < trainers:
            lasting = min(lasting, max(float(jobs.submitted_s[waiting]) - now_s, 0.0))
        if not math.isfinite(lasting):
            return None
        left = left - lasting * rate
        stay = (ends > lasting) & (left > 0)
        running, left = running[stay], left[stay]
        now_s += lasting
    return now_s - start_s


def dedicated_rate(jobs: Workload, trainers: int, nodes: int) -> float:
    """Return the samples per second of an endless backlog on a dedicated pool, over one round of jobs.

    The backlog is the workload's own order, all submitted at once.
    """
    everything = replace(jobs, submitted_s=np.zeros(jobs.num_jobs), endless=False)
    span = dedicated_makespan(everything, trainers, nodes, 0.0)
    return 0.0 if span is None else float(jobs.work.sum()) / span


class _Pool:
    """Greatest-throughput divisions of a pool, each found once per combination of jobs."""

    def __init__(self, jobs: Workload, nodes: int) -> None:
        self._nodes = nodes
        self._rates = jobs.rates
        key = np.stack((jobs.curve, jobs.min_nodes, jobs.max_nodes), axis=1)
        self._kinds, self._kind = np.unique(key, axis=0, return_inverse=True)
        self._known: dict[bytes, NDArray[np.float64]] = {}

    def rates(self, running: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [running]: the rate of every running job."""
        if not running.size:
            return np.zeros(0)
        kinds = self._kind[running]
        order = np.argsort(kinds, kind="stable")
        ranked = kinds[order]
        known = self._known.get(ranked.tobytes())
        if known is None:
            known = self._known[ranked.tobytes()] = self._best(self._kinds[ranked])
        rates = np.empty(running.size)
        rates[order] = known
        return rates

    def _best(self, kinds: NDArray[np.int64]) -> NDArray[np.float64]:
        from apportion.solvers.knapsack import one_capacity

        curve, low, high = kinds.T
        table = self._rates[curve]
        counts = np.arange(table.shape[1])
        allowed = (counts >= low[:, None]) & (counts <= np.minimum(high, self._nodes)[:, None])
        allowed[:, 0] = True
        job, count = np.nonzero(allowed)
        offsets = np.concatenate(([0], np.cumsum(np.bincount(job, minlength=curve.size))))
        knapsack = MultipleChoiceKnapsack.from_arrays(table[job, count], count, offsets, [self._nodes])
        point = uninterrupted(one_capacity.solve(knapsack, _OPTIONS)).point
        if point is None:  # cannot be: no node for anybody is feasible
            raise AssertionError("a pool has no division")
        best: NDArray[np.float64] = knapsack.values[point]
        return best


class Summary(Figures, msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one replay.

    Attributes
    ----------
    policy, trace, trainers, horizon_s
        The policy, the trace, the most jobs at a time and the forward-looking time of the replay.
    jobs, jobs_done
        Jobs of the workload (``None``: endless), and those done.
    makespan_h
        Hours from the start to the step at which the last job is seen to be done; ``None`` if jobs remain.
    mean_completion_h
        Hours from submission to completion, the mean over the jobs; ``None`` if jobs remain.
    span_h
        Hours replayed.
    equivalent_nodes
        Time average of the idle nodes.
    to_dedicated
        Makespan on a dedicated pool of the equivalent nodes divided by this makespan; where jobs remain,
        the output divided by what the pool makes of an endless backlog of these jobs in the same time.
        ``None`` if undefined.
    output
        Samples that count: losses and excess taken off.
    lost_preemption, lost_rescale, lost_excess
        Samples lost to pre-emption, to rescaling, and made by jobs past their end until that was noticed,
        each divided by the output.
    utilisation
        Share of the idle node-seconds that a job held.
    rescales, preemptions
        Running jobs resized, jobs hit by departures.
    events, decisions
        Rows of the trace walked through, calls of the policy.
    seconds
        Wall-clock seconds of the replay, reading and the dedicated pool not counted.
    """

    policy: str
    trace: str
    trainers: int
    horizon_s: float | None
    jobs: int | None
    jobs_done: int
    makespan_h: float | None
    span_h: float
    equivalent_nodes: float
    to_dedicated: float | None
    output: float
    lost_preemption: float
    lost_rescale: float
    lost_excess: float
    utilisation: float
    rescales: int
    preemptions: int
    events: int
    decisions: int
    seconds: float
    mean_completion_h: float | None = None

    def __repr__(self) -> str:
        return (
            f"<Summary: {self.policy} on {self.trace}, {self.jobs_done} jobs done, output {self.output:.6g}>"
        )


def summarise(replay: Replay, policy: str, horizon_s: float | None = None) -> Summary:
    """Return the summary of a replay as it stands."""
    totals, jobs = replay.totals, replay.jobs
    output, span_s = totals.output, totals.elapsed_s
    nodes = totals.idle_node_s / span_s if span_s else 0.0

    def share(lost: float) -> float:
        return lost / output if output > 0 else 0.0

    makespan_s = span_s if replay.finished else None
    if makespan_s is not None:
        ratio = to_dedicated(jobs, replay.trainers, nodes, makespan_s, replay.start_s)
    else:
        low, part = int(nodes), nodes - int(nodes)
        pool = (1 - part) * dedicated_rate(jobs, replay.trainers, low)
        pool += part * dedicated_rate(jobs, replay.trainers, low + 1)
        ratio = output / (pool * span_s) if pool > 0 and span_s > 0 else None
    return Summary(
        policy=policy,
        trace=replay.changes.name,
        trainers=replay.trainers,
        horizon_s=horizon_s,
        jobs=None if jobs.endless else jobs.num_jobs,
        jobs_done=totals.finished,
        makespan_h=None if makespan_s is None else makespan_s / 3600,
        span_h=span_s / 3600,
        equivalent_nodes=nodes,
        to_dedicated=ratio,
        output=output,
        lost_preemption=share(totals.preemption_loss),
        lost_rescale=share(totals.rescale_loss),
        lost_excess=share(totals.excess),
        utilisation=totals.used_node_s / totals.idle_node_s if totals.idle_node_s else 0.0,
        rescales=totals.rescales,
        preemptions=totals.preemptions,
        events=totals.events,
        decisions=totals.decisions,
        seconds=replay.seconds,
        mean_completion_h=_mean_completion_h(replay) if replay.finished else None,
    )


def _mean_completion_h(replay: Replay) -> float | None:
    lasted_s = replay.completed_s - replay.jobs.submitted_s
    return float(lasted_s.mean()) / 3600 if lasted_s.size else None


def makespan_bound(changes: NodeChanges, jobs: Workload, trainers: int, rounds: int = 40) -> float | None:
    """Return seconds that no replay of these jobs can undercut; ``None`` if the record is too short.

    Parameters
    ----------
    changes
        The changes of the idle nodes over time.
    jobs
        A finite workload.
    trainers
        Most jobs at a time.
    rounds
        Steps of the prices.

    Raises
    ------
    InvalidOption
        If the workload is endless.
    """
    if jobs.endless:
        raise InvalidOption("an endless workload has no makespan")
    key = np.stack((jobs.curve, jobs.min_nodes, jobs.max_nodes), axis=1)
    kinds, kind = np.unique(key, axis=0, return_inverse=True)
    work = np.bincount(kind, weights=jobs.work)
    counts = np.arange(jobs.rates.shape[1])
    rates = jobs.rates[kinds[:, 0]]
    rates = np.where((counts >= kinds[:, 1:2]) & (counts <= kinds[:, 2:3]), rates, 0.0)
    rates = np.maximum.accumulate(rates, axis=1)  # leaving nodes unused is allowed
    best_per_node = (rates[:, 1:] / counts[1:]).max(axis=1)
    price = 1.0 / np.maximum(best_per_node, 1e-300)
    idle = changes.idle_counts()
    at_s = np.append(changes.time_s, changes.end_s) - changes.time_s[0]
    most = int(min(idle.max(initial=0), trainers * (counts.size - 1)))
    bound = 0.0
    reach = np.minimum(idle, most)
    for step in range(rounds):
        gain, shares = _greatest(price[:, None] * rates, trainers, most)
        value = np.concatenate(([0.0], np.cumsum(gain[reach] * np.diff(at_s))))
        worth = float(price @ work)
        if value[-1] < worth:
            return None
        span_s = _first(value, at_s, worth)
        bound = max(bound, span_s)
        lasting = np.diff(np.minimum(at_s, span_s))
        done = np.array([float(lasting @ made[reach]) for made in shares]) / price
        # one more unit of price raises the worth by the work and the integral by what is done of this kind
        slope = (work - done) * price / worth
        price = price * np.exp(np.clip(slope * work.size / (20.0 + step), -0.1, 0.1))
    return bound


def _first(value: NDArray[np.float64], at_s: NDArray[np.float64], worth: float) -> float:
    """Return the first instant at which a curve with flat stretches reaches a value."""
    row = int(np.searchsorted(value, worth, side="left"))
    if row == 0:
        return 0.0
    share = (worth - value[row - 1]) / (value[row] - value[row - 1])
    return float(at_s[row - 1] + share * (at_s[row] - at_s[row - 1]))


def _greatest(
    worth: NDArray[np.float64], trainers: int, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the greatest worth of up to `trainers` jobs on 0 to `most` nodes, and each kind's part of it."""
    single, kind = worth.max(axis=0), worth.argmax(axis=0)
    width = single.size
    best = np.zeros(most + 1)
    made = np.zeros((worth.shape[0], most + 1))
    rows = np.arange(most + 1)
    for _ in range(trainers):
        window = sliding_window_view(np.concatenate((np.full(width - 1, -np.inf), best)), width)[:, ::-1]
        total = window + single
        count = total.argmax(axis=1)
        best = total[rows, count]
        made = made[:, np.maximum(rows - count, 0)]
        np.add.at(made, (kind[count], rows), single[count])
    return best, made
