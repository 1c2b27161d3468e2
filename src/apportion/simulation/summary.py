"""The summary of a replay: the figures of one line of a table."""

from __future__ import annotations

import msgspec

from apportion.shown import Figures
from apportion.simulation.dedicated import dedicated_rate, to_dedicated
from apportion.simulation.replay import Replay

__all__ = ["Summary", "summarise"]


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
    )
