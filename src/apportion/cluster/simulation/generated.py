"""Seeded traces and job sets for those who have no recorded ones, after the published figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.cluster.simulation.job_table import SubmittedJob
from apportion.core.errors import InvalidOption, one_of
from apportion.instances.gap_filling.generator import spell_lengths
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES

__all__ = ["generated_jobs", "generated_trace"]

_EVENTS_PER_HOUR = ((256, 23.0), (512, 30.6), (1024, 40.6), (2048, 51.5), (4734, 66.7))
"""Published: trace rows per hour on the first nodes of the machine."""
_JOIN_SHARE = 0.55
"""Groups that join per row: 41.0 of the 66.7 rows per hour have joins and 30.8 have departures."""
_JOINS_PER_NODE_HOUR = 1182 / 4734
_WARM_UP_S = 360_000
_SAMPLES = 1.3e8
"""Samples per job of the published sets: 100 epochs of 1.3 million images."""


def generated_trace(seed: int, nodes: int = 1024, days: float = 14.0) -> IdleTrace:
    """Return a trace with the spell and event statistics published for Summit's idle nodes.

    Nodes fall idle in groups, as when a large job ends, and a group leaves together: groups arrive as a
    Poisson process, their sizes are geometric with the mean that gives the published rates of joins and of
    events, their spells follow `apportion.instances.gap_filling.generator.spell_lengths`. The trace
    begins in the steady state. The published number of idle nodes varies more over time than this one.

    Parameters
    ----------
    seed
        Seed of `numpy.random.default_rng`, which draws the trace.
    nodes, days
        Size of the machine and length of the trace.

    Raises
    ------
    InvalidOption
        If a number is out of range.
    """
    if not 0 < days <= 3660 or nodes < 1:
        raise InvalidOption("need days from 0 to 3660 and nodes >= 1")
    rng = np.random.default_rng(seed)
    end_s = max(round(days * 86_400), 60)
    sizes, rates = np.array(_EVENTS_PER_HOUR).T
    per_hour = float(np.exp(np.interp(np.log(nodes), np.log(sizes), np.log(rates)))) * _JOIN_SHARE
    mean_size = max(_JOINS_PER_NODE_HOUR * nodes / per_hour, 1.0)
    per_hour = _JOINS_PER_NODE_HOUR * nodes / mean_size
    count = rng.poisson(per_hour * (end_s + _WARM_UP_S) / 3600)
    begin = np.sort(rng.integers(-_WARM_UP_S, end_s, count) // 10 * 10)
    length = np.maximum(spell_lengths(rng, count) // 10 * 10, 70)
    size = np.minimum(rng.geometric(1.0 / mean_size, count), nodes)
    free_s = np.full(nodes, -np.inf)
    node: list[NDArray[np.int64]] = []
    kept: list[int] = []
    for group in range(count):
        busy = np.flatnonzero(free_s < begin[group])
        first = int(rng.integers(nodes))
        chosen = busy[np.arange(first, first + min(int(size[group]), busy.size)) % max(busy.size, 1)]
        free_s[chosen] = begin[group] + length[group]
        node.append(chosen)
        kept.append(chosen.size)
    start = np.repeat(begin, kept)
    stop = np.minimum(start + np.repeat(length, kept), end_s)
    start = np.maximum(start, 0)
    inside = stop > start
    events = np.unique(np.concatenate(([0, end_s], start[inside], stop[inside])))
    return IdleTrace.from_arrays(
        np.concatenate(node)[inside] if node else [],
        start[inside],
        stop[inside],
        events,
        [f"n{index:04d}" for index in range(nodes)],
        "",
        f"generated seed={seed}",
    )


def generated_jobs(
    seed: int, count: int = 1001, mix: str = "imagenet", hours: float = 10.0
) -> list[SubmittedJob]:
    """Return a job set like the published ones: evenly spaced submissions over `hours`, 1.3e8 samples each.

    Parameters
    ----------
    seed
        Random seed of the rescale times.
    count
        Jobs.
    mix
        ``"imagenet"``: the seven published networks in turn, rescaling up in U(17, 19) s and down in U(11,
        13) s; ``"hpo"``: ShuffleNet throughout, 18 s and 12 s.
    hours
        Span of the submissions.

    Raises
    ------
    InvalidOption
        If the mix is unknown or `count` is not positive.
    """
    one_of("mix", mix, ("imagenet", "hpo"))
    if count < 1:
        raise InvalidOption(f"count must be at least 1, not {count}")
    rng = np.random.default_rng(seed)
    nets = list(PUBLISHED_CURVES) if mix == "imagenet" else ["ShuffleNet"]
    up = rng.uniform(17, 19, count).round(4) if mix == "imagenet" else np.full(count, 18.0)
    down = rng.uniform(11, 13, count).round(4) if mix == "imagenet" else np.full(count, 12.0)
    step_s = hours * 3600 / count
    return [
        SubmittedJob(
            f"J{job:05d}-{nets[job % len(nets)]}",
            float(up[job]),
            float(down[job]),
            1,
            64,
            _SAMPLES,
            round(job * step_s, 2),
        )
        for job in range(count)
    ]
