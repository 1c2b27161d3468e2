"""A seeded generator of layer-freezing rounds: Sia's GPU menus with frozen depths."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.instances.freezing.schema import (
    FreezingConfiguration,
    FreezingInstance,
    FreezingJob,
    FreezingRow,
)

__all__ = ["generate"]

_SPEED = 2.0
"""How much faster every further GPU type is."""


def generate(
    seed: int,
    jobs: int,
    gpus: Mapping[str, int],
    gpus_per_node: int = 4,
    depths: int = 10,
    counts: int | None = None,
    power: float = -0.5,
    queue_penalty: float = 1.1,
    penalty_cap: float | None = None,
    round_s: float = 60.0,
    name: str | None = None,
) -> FreezingInstance:
    """Generate one round: every job may run on 1, 2, 4, .. GPUs of a node or on whole nodes, at every depth.

    With f the frozen fraction, a step's backward work is 2/3 of it and falls to (1 - f); synchronisation
    does not fall, as measured on CNNs and nearly on BERT, so freezing gains most on few GPUs. The penalty is
    a f^b with a in U(0.3, 1) and b in U(1, 3): an interior best depth for most jobs. Half of the jobs run
    already, some hold an accuracy budget, and effective progress is rounded to 6 digits.

    Parameters
    ----------
    seed
        Seed of `numpy.random.default_rng`.
    jobs
        How many.
    gpus
        GPUs per type, slowest type first.
    gpus_per_node
        GPUs of a node of any type.
    depths
        Depths per place, from nothing frozen to nine tenths.
    counts
        At most so many GPU counts per type; all by default.
    power, queue_penalty, round_s, name
        As in the instance.
    penalty_cap
        Cluster-wide penalty cap per job, 0 to 1.

    Raises
    ------
    InvalidOption
        If an argument is out of its range.
    """
    if jobs < 0 or depths < 1 or gpus_per_node < 1 or (counts is not None and counts < 1):
        raise InvalidOption("need jobs >= 0 and depths, gpus_per_node and counts >= 1")
    rng = np.random.default_rng(seed)
    places = {name: _counts(gpus_per_node, total)[:counts] for name, total in gpus.items()}
    members = [_job(rng, index, places, depths, round_s) for index in range(jobs)]
    return FreezingInstance(
        schema_version="1",
        gpus=dict(gpus),
        round_s=round_s,
        jobs=tuple(members),
        power=power,
        queue_penalty=queue_penalty,
        gpus_per_node=dict.fromkeys(gpus, gpus_per_node),
        penalty_cap_millionths=None if penalty_cap is None else round(penalty_cap * jobs * 1e6),
        name=f"generated seed={seed} jobs={jobs}" if name is None else name,
    )


def _job(
    rng: np.random.Generator,
    index: int,
    places: Mapping[str, NDArray[np.int64]],
    depths: int,
    round_s: float,
) -> FreezingJob:
    layers = int(rng.integers(30, 130))
    depth = np.unique(np.linspace(0.0, 0.9 * layers, depths).astype(np.int64))
    share = depth / layers
    steepness, bend = rng.uniform(0.3, 1.0), rng.uniform(1.0, 3.0)
    penalty = np.minimum(steepness * share**bend, 1.0)
    compute = (1.0 + 2.0 * (1.0 - share)) / 3.0
    sync, base = rng.uniform(0.05, 0.6), float(np.exp(rng.normal(4.0, 1.0)))
    millionths = tuple(np.rint(1e6 * penalty).astype(np.int64).tolist())
    menu = []
    for kind, (gpu_type, counts) in enumerate(places.items()):
        speed = base * _SPEED**kind * float(np.exp(rng.normal(0.0, 0.25)))
        for count in counts.tolist():
            step = compute + (sync * (1.0 - 1.0 / count))
            progress = speed * count / step * (1.0 - penalty)
            written = tuple(float(f"{value:.6g}") for value in progress)
            menu.append(FreezingRow(gpu_type, count, tuple(depth.tolist()), written, millionths))
    running = menu and rng.random() < 0.5
    place = menu[int(rng.integers(len(menu)))] if running else None
    return FreezingJob(
        id=f"j{index:04d}",
        layers=layers,
        menu=tuple(menu),
        current=None if place is None else FreezingConfiguration(place.gpu_type, place.gpus, 0),
        age_s=float(rng.integers(60, 7200)) if running else 0.0,
        restarts=int(rng.integers(0, 2)) if running else 0,
        restart_s=float(rng.choice([25.0, 30.0, 45.0, 120.0])),
        rebuild_s=5.0,
        budget_frozen_s=float(rng.integers(0, 60)) * round_s / 60.0 if rng.random() < 0.2 else None,
    )


def _counts(per_node: int, total: int) -> NDArray[np.int64]:
    """Return 1, 2, 4, .. below a node's GPUs, then whole nodes up to all there are."""
    within = 2 ** np.arange((per_node - 1).bit_length(), dtype=np.int64)
    whole = per_node * np.arange(1, total // per_node + 1, dtype=np.int64)
    counts = np.concatenate((within, whole))
    return counts[counts <= total]
