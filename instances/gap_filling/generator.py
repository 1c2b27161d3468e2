"""A seeded generator of gap-filling instances: one instant of a machine with published spell statistics.

A seeded generator of idle spells with the statistics published for Summit's idle nodes.

The figures are those of the idle-node trace that BFTrainer's replayer carries (arXiv:2106.12091): 4,734
nodes, 14.9 days, 423,354 complete spells, median 475 s, mean 1,192 s, 8.27 % of the node-time idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.instances.gap_filling.schema import (
    PUBLISHED_CURVES,
    GapFillingInstance,
    GapFillingJob,
    equal_share,
)

__all__ = ["IDLE_SHARE", "IdleSpells", "generate", "idle_spells", "spell_lengths"]


IDLE_SHARE = 0.0827
"""Published share of the node-time that is idle."""

_LENGTH_S = (70, 91, 120, 162, 300, 475, 600, 1200, 1397, 1800, 3269, 3600, 4723, 7200, 9246)
_SHARE = (0, 0.10, 0.151, 0.25, 0.402, 0.5, 0.558, 0.710, 0.75, 0.805, 0.90, 0.911, 0.95, 0.980, 0.99)
"""Published points of the distribution: the share of spells that is shorter than a length."""
_LONGEST_S = 271_990
_TAIL_EXPONENT = 6.0
_WARM_UP_CYCLES = 10


@dataclass(frozen=True, slots=True, eq=False)
class IdleSpells:
    """Idle spells of a machine.

    Attributes
    ----------
    node
        int64 [spells]: node index; ordered by node, then by start.
    start_s, end_s
        int64 [spells]: the node is idle in [start, end), cut to the time asked for.
    complete
        bool [spells]: whether the whole spell lies inside that time.
    """

    node: NDArray[np.int64]
    start_s: NDArray[np.int64]
    end_s: NDArray[np.int64]
    complete: NDArray[np.bool_]

    def idle_at(self, seconds: float) -> NDArray[np.int64]:
        """Return the indices of the nodes idle at an instant, in order."""
        return self.node[(self.start_s <= seconds) & (seconds < self.end_s)]


def spell_lengths(rng: np.random.Generator, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Draw spell lengths, whole seconds, by inversion of the published distribution.

    Between two published points the logarithm of the length is uniform, which also reproduces the published
    shares of node-time. Beyond the 99th percentile lengths follow a Pareto law, cut at the published maximum,
    with exponent 6, which puts the mean (1,202 s) within 1 % of the published one.
    """
    share = rng.random(shape)
    inside = np.exp(np.interp(share, _SHARE, np.log(_LENGTH_S)))
    tail_start, tail_share = _LENGTH_S[-1], 1.0 - _SHARE[-1]
    beyond = tail_start * (tail_share / np.maximum(1.0 - share, 1e-12)) ** (1.0 / _TAIL_EXPONENT)
    length = np.where(share < _SHARE[-1], inside, np.minimum(beyond, _LONGEST_S))
    return np.rint(length).astype(np.int64)


def idle_spells(
    seed: int | np.random.Generator, num_nodes: int, duration_s: int, idle_share: float = IDLE_SHARE
) -> IdleSpells:
    """Generate the idle spells of a machine: on every node busy and idle spells alternate.

    Idle spells are those of `spell_lengths`; busy ones are exponential with the mean that gives the idle
    share. Every node starts ten cycles before second 0, so that second 0 is an instant like any other. Nodes
    are independent of each other: the number of idle nodes varies less over time than on a real machine,
    where the nodes of one large job become idle together.

    Parameters
    ----------
    seed
        Seed of `numpy.random.default_rng`, or a generator to draw from.
    num_nodes
        Nodes of the machine, at least 0.
    duration_s
        Length of the trace, seconds, at least 1.
    idle_share
        Share of the node-time that is idle, above 0 and below 1.

    Raises
    ------
    InvalidOption
        If an argument is out of its range.
    """
    if num_nodes < 0 or duration_s < 1 or not 0 < idle_share < 1:
        raise InvalidOption("need num_nodes >= 0, duration_s >= 1 and 0 < idle_share < 1")
    rng = np.random.default_rng(seed)
    mean_idle_s = _mean_length()
    mean_busy_s = mean_idle_s * (1.0 - idle_share) / idle_share
    cycle_s = mean_idle_s + mean_busy_s
    warm_up_s = round(_WARM_UP_CYCLES * cycle_s)
    cycles = int(1.5 * (warm_up_s + duration_s) / cycle_s) + 10
    busy = idle = np.zeros((num_nodes, 0), dtype=np.int64)
    while True:
        more_busy = np.ceil(rng.exponential(mean_busy_s, (num_nodes, cycles))).astype(np.int64)
        busy = np.hstack((busy, more_busy))
        idle = np.hstack((idle, spell_lengths(rng, (num_nodes, cycles))))
        end = np.cumsum(busy + idle, axis=1) - warm_up_s
        if num_nodes == 0 or int(end[:, -1].min()) >= duration_s:
            break
    start = end - idle
    node, cycle = np.nonzero((end > 0) & (start < duration_s))
    start, end = start[node, cycle], end[node, cycle]
    return IdleSpells(
        node=node.astype(np.int64),
        start_s=np.maximum(start, 0),
        end_s=np.minimum(end, duration_s),
        complete=(start >= 0) & (end <= duration_s),
    )


def _mean_length() -> float:
    """Return the mean of `spell_lengths`: ``(b - a) / log(b / a)`` between points, and the Pareto tail's."""
    bounds = np.array(_LENGTH_S, dtype=np.float64)
    between = np.diff(_SHARE) @ (np.diff(bounds) / np.diff(np.log(bounds)))
    tail = (1.0 - _SHARE[-1]) * bounds[-1] * _TAIL_EXPONENT / (_TAIL_EXPONENT - 1.0)
    return float(between + tail)


_TRACE_S = 14_400


def generate(
    seed: int,
    jobs: int,
    nodes: int,
    horizon_s: float = 120.0,
    min_nodes: int = 1,
    max_nodes: int = 64,
    decided_ago_s: int = 300,
    name: str | None = None,
) -> GapFillingInstance:
    """Generate the instance an allocator faces at one instant of a machine of which `nodes` nodes are idle.

    A machine of ``nodes / 0.0827`` nodes is simulated for four hours, and an instant is drawn at which
    exactly `nodes` of them are idle. The jobs take the published curves in turn, rescale up in U(17, 19) s
    and down in U(11, 13) s, as in BFTrainer's job mix (arXiv:2106.12091). Their current nodes are what is
    left of an equal share of the nodes that were idle `decided_ago_s` seconds earlier; nodes that became idle
    since are free.

    Parameters
    ----------
    seed
        Seed of `numpy.random.default_rng`; the same arguments give the same instance.
    jobs, nodes
        How many jobs and idle nodes.
    horizon_s
        Forward-looking time, seconds.
    min_nodes, max_nodes
        Of every job; at most 64, where the published curves end.
    decided_ago_s
        How long ago the nodes were last shared out, 0 to 3600 s.
    name
        Name of the instance; says the arguments by default.

    Raises
    ------
    InvalidOption
        If an argument is out of its range.
    """
    if jobs < 0 or nodes < 0 or not 0 <= decided_ago_s <= 3600:
        raise InvalidOption("need jobs >= 0, nodes >= 0 and decided_ago_s from 0 to 3600")
    if not 1 <= min_nodes <= max_nodes <= 64:
        raise InvalidOption("need 1 <= min_nodes <= max_nodes <= 64, where the published curves end")
    rng = np.random.default_rng(seed)
    spells, at_s = _instant(rng, nodes)
    idle = spells.idle_at(at_s).tolist()
    before = spells.idle_at(at_s - decided_ago_s).tolist()
    shares = equal_share(len(before), [min_nodes] * jobs, [max_nodes] * jobs)
    remaining = set(idle)
    curves = list(PUBLISHED_CURVES.items())
    up = rng.uniform(17.0, 19.0, jobs).round(2).tolist()
    down = rng.uniform(11.0, 13.0, jobs).round(2).tolist()
    members = []
    for job, (share, end) in enumerate(zip(shares, accumulate(shares), strict=True)):
        model, curve = curves[job % len(curves)]
        held = tuple(f"n{node:04d}" for node in before[end - share : end] if node in remaining)
        members.append(
            GapFillingJob(
                id=f"j{job:03d}-{model}",
                min_nodes=min_nodes,
                max_nodes=max_nodes,
                scaling=curve,
                rescale_up_s=up[job],
                rescale_down_s=down[job],
                current_nodes=held,
            )
        )
    return GapFillingInstance(
        schema_version="1",
        horizon_s=horizon_s,
        nodes=tuple(f"n{node:04d}" for node in idle),
        jobs=tuple(members),
        name=f"generated seed={seed} jobs={jobs} nodes={nodes}" if name is None else name,
    )


def _instant(rng: np.random.Generator, nodes: int) -> tuple[IdleSpells, int]:
    """Return spells and an instant, at least an hour after their start, with exactly `nodes` nodes idle."""
    while True:
        spells = idle_spells(rng, round(nodes / IDLE_SHARE), _TRACE_S)
        events = np.concatenate((spells.start_s, spells.end_s))
        steps = np.repeat((1, -1), spells.node.size)
        count = np.cumsum(np.bincount(events, weights=steps, minlength=_TRACE_S + 1)[:_TRACE_S])
        instants = np.flatnonzero(count == nodes)
        instants = instants[instants >= 3600]
        if instants.size:
            return spells, int(rng.choice(instants))
