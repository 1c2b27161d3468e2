"""Seeded placements: a cluster of alike nodes in racks, part of whose jobs run already."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
    PlacementRunning,
)

__all__ = ["generate"]

_GPUS, _CPUS = 8, 64
"""What every node has."""


def generate(
    seed: int, jobs: int, racks: int, *, nodes: int = 8, running: float = 0.4, scattered: bool = False
) -> PlacementInstance:
    """Return a placement of jobs of 1 to 32 GPUs on nodes of 8 GPUs and 64 cores.

    Up to 8 GPUs lie on one node, more are whole nodes of one rack. What a job is worth grows with its GPUs to
    the power of 0.8.

    Parameters
    ----------
    seed
        Of the random numbers.
    jobs, racks, nodes
        How many jobs and racks, and how many nodes in a rack.
    running
        Share of the jobs that run already, as far as they find room.
    scattered
        Whether pods are of one GPU each, and lie anywhere in one rack.
    """
    rng = np.random.default_rng(seed)
    free = np.full((racks, nodes), _GPUS)
    made = [_job(rng, f"j{at}", free, running, scattered=scattered) for at in range(jobs)]
    total = racks * nodes
    site = PlacementNodes(
        f"n[0-{total - 1}]", {"gpu": _GPUS, "cpu": _CPUS}, {"rack": f"r[0-{racks - 1}]"} if racks > 1 else {}
    )
    levels = ("rack", "node") if racks > 1 else ("node",)
    return PlacementInstance("1", levels, (site,), tuple(made), name=f"{jobs} jobs on {total} nodes, {seed}")


def _job(
    rng: np.random.Generator, name: str, free: np.ndarray[Any, Any], running: float, *, scattered: bool
) -> PlacementJob:
    size = int(rng.choice((1, 1, 2, 2, 4, 8, 16, 32)))
    count, need = (size, 1) if scattered else (max(1, size // _GPUS), min(size, _GPUS))
    value = round(float(size**0.8 * rng.uniform(0.8, 1.2)), 2)
    needs = {"gpu": need, "cpu": need * int(rng.choice((2, 4, 8)))}
    level = {"required": "rack"} if count > 1 and free.shape[0] > 1 else {}
    pods = PlacementPods(needs, count, **level)  # type: ignore[arg-type]
    current = None
    if rng.random() < running:
        rack = int(rng.integers(free.shape[0]))
        on, left = dict[str, dict[str, int]](), count
        for at in rng.permutation(free.shape[1]).tolist():
            here = min(left, int(free[rack, at]) // need, 4 if scattered else 1)
            if here:
                on.setdefault("pods", {})[f"n{rack * free.shape[1] + at}"] = here
                left -= here
        if not left:
            for node, number in on["pods"].items():
                free[divmod(int(node[1:]), free.shape[1])] -= number * need
            current = PlacementRunning(str(size), on)
    return PlacementJob(name, (PlacementOption(str(size), (pods,), value),), current=current)
