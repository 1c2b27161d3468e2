"""Seeded placements: on alike nodes in racks, part of the jobs running; or menus on many nodes."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec.structs import replace

from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
    PlacementRunning,
)

__all__ = ["generate", "generate_menus"]

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


def generate_menus(
    seed: int, jobs: int, nodes: int, *, fragmented: bool = False, running: float = 0.0
) -> PlacementInstance:
    """Return jobs with menus of 1 to 32 GPUs, on nodes of 8 GPUs, 96 cores and 96 GiB, 16 a rack.

    What a job is worth is a power of its GPUs; cores and memory grow with these. Up to 8 lie on one node,
    more on whole nodes of one rack.

    Parameters
    ----------
    seed
        Of the random numbers.
    jobs, nodes
        How many; racks have 16 nodes, or all of fewer.
    fragmented
        Whether others use a part of most nodes.
    running
        Share of the jobs that run already, as far as they find room: with any of their options, anywhere.
    """
    rng = np.random.default_rng(seed)
    racks = max(1, nodes // 16)
    made = [_menu(rng, f"j{at}") for at in range(jobs)]
    groups = [PlacementNodes(f"n[0-{nodes - 1}]", dict(_LARGE), {"rack": f"r[0-{racks - 1}]"})]
    if fragmented:
        left = rng.choice(9, nodes, p=(0.2, 0.1, 0.12, 0.1, 0.12, 0.06, 0.06, 0.04, 0.2)).tolist()
        groups = [
            PlacementNodes(
                f"n{at}",
                dict(_LARGE),
                {"rack": f"r{at * racks // nodes}"},
                used={"gpu": 8 - gpus, "cpu": _part_used(rng, gpus), "mem": _part_used(rng, gpus)},
            )
            for at, gpus in enumerate(left)
        ]
    if running:
        free = [[group.capacity[name] - group.used.get(name, 0) for name in _LARGE] for group in groups]
        left = np.array(free * (nodes if len(free) == 1 else 1), dtype=np.int64)
        rng = np.random.default_rng((seed, 1))
        made = [_placed(rng, job, left, racks) if rng.random() < running else job for job in made]
    kind = "fragmented" if fragmented else "alike"
    name = f"{jobs} menus on {nodes} {kind} nodes, {seed}"
    return PlacementInstance("1", ("rack", "node"), tuple(groups), tuple(made), name=name)


_LARGE = MappingProxyType({"gpu": 8, "cpu": 96, "mem": 96})
"""What every node of the menus has."""


def _part_used(rng: np.random.Generator, gpus: int) -> int:
    """Return what is used of 96 cores or GiB where so many of 8 GPUs are left."""
    if gpus in (0, 8):
        return 96 if gpus == 0 else 0
    return 96 - min(96, 12 * gpus + int(rng.integers(-8, 9)))


def _menu(rng: np.random.Generator, name: str) -> PlacementJob:
    cores, memory = int(rng.choice((4, 8, 12))), int(rng.choice((4, 8, 12, 20)))
    base, power, options = float(rng.random()) * 10 + 1, float(rng.uniform(0.5, 0.95)), []
    for gpus in (1, 2, 4, 8, 16, 32):
        each = min(gpus, _GPUS)
        if max(cores, memory) * each <= 96 and (gpus in (1, 8) or rng.random() < 0.5):
            needs = {"gpu": each, "cpu": cores * each, "mem": memory * each}
            level = {"required": "rack"} if gpus > _GPUS else {}
            pods = PlacementPods(needs, gpus // each, name=str(gpus), **level)  # type: ignore[arg-type]
            options.append(PlacementOption(str(gpus), (pods,), round(base * gpus**power, 3)))
    return PlacementJob(name, tuple(options))


def _placed(
    rng: np.random.Generator, job: PlacementJob, left: np.ndarray[Any, Any], racks: int
) -> PlacementJob:
    """Return a job that runs with one of its options in a rack, if that has room, which is taken away."""
    option = job.options[int(rng.integers(len(job.options)))]
    pods = option.pods[0]
    need = np.array([pods.needs[name] for name in _LARGE])
    inside = np.arange(len(left)) * racks // len(left) == int(rng.integers(racks))
    fits = np.flatnonzero(inside & (left >= need).all(axis=1))
    if fits.size < pods.count:
        return job
    nodes = rng.choice(fits, pods.count, replace=False)
    left[nodes] -= need
    on = {pods.name: {f"n{node}": 1 for node in sorted(nodes.tolist())}}
    return replace(job, current=PlacementRunning(option.id, on))
