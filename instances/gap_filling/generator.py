"""A seeded generator of gap-filling instances: one instant of a machine with published spell statistics."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from apportion.errors import InvalidOption
from apportion.instances.gap_filling.equal_share import equal_share
from apportion.instances.gap_filling.idle_spells import IDLE_SHARE, IdleSpells, idle_spells
from apportion.instances.gap_filling.published_curves import PUBLISHED_CURVES
from apportion.instances.gap_filling.schema import GapFillingInstance, GapFillingJob

__all__ = ["generate", "idle_spells"]

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
