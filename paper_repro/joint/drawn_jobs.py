"""Jobs drawn from measured tables, what is believed of them, and the cluster they run on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import Nodes
from paper_repro.joint.speed_table import SpeedTable
from paper_repro.model_similarity.measured import Measured, benchmark, gavel, generated
from paper_repro.model_similarity.scenarios import beliefs

__all__ = ["JOBS", "PER_TYPE", "SOURCES", "Drawn", "drawn", "machines", "predicted"]

JOBS = 48
PER_TYPE = 8
"""GPUs of every type, all in one node, so that no job is spread."""
SOURCES: Mapping[str, Callable[[Path], Measured]] = MappingProxyType(
    {"Gavel": gavel, "pytorch-gpu-benchmark": benchmark, "generated": lambda _: generated()}
)
_GPUS = (1, 2, 4, 8)
_SHARE = (0.70, 0.10, 0.15, 0.05)
"""Of the jobs with 1, 2, 4 and 8 GPUs, as in Gavel's generated traces (Narayanan et al., OSDI 2020)."""
_MINUTES = (10.0, 300.0)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A workload.

    Attributes
    ----------
    table
        The jobs and the truth.
    kind
        int64 [jobs]: row of the measured table.
    believed
        Speeds by how they are known, float64 [jobs, types] each.
    """

    table: SpeedTable
    kind: NDArray[np.int64]
    believed: dict[str, NDArray[np.float64]]


@cache
def predicted(data: Path, source: str) -> tuple[Measured, dict[str, NDArray[np.float64]]]:
    """Return a measured table and the speeds predicted without the model itself."""
    measured = SOURCES[source](data)
    predicted = beliefs(measured)
    return measured, {"similarity": 1.0 / predicted.unknown, "one profile": 1.0 / predicted.profiled}


def machines(measured: Measured, slots: int) -> Nodes:
    """Return one node of each type; with two slots a GPU, every GPU is a node."""
    types = len(measured.architectures)
    if slots == 1:
        return Nodes(np.full(types, PER_TYPE), np.arange(types), measured.architectures)
    return Nodes(
        np.full(types * PER_TYPE, slots), np.repeat(np.arange(types), PER_TYPE), measured.architectures
    )


def drawn(data: Path, source: str, seed: int, load: float | None, widest: int, slots: int) -> Drawn:
    """Draw jobs of 10 to 300 minutes on their quickest type, log-uniform.

    Parameters
    ----------
    data
        The data folder.
    source
        Whose table.
    seed
        Of `numpy.random.default_rng`.
    load
        GPU time submitted over GPU time there is, counted on a typical (geometric mean) type, Poisson
        arrivals; ``None``: all at once.
    widest
        Most GPUs of a job.
    slots
        As of `SpeedTable`.
    """
    measured, predictions = predicted(data, source)
    rng = np.random.default_rng(seed)
    share = np.array(
        [
            part if gpus <= widest and (measured.gpus == gpus).any() else 0.0
            for gpus, part in zip(_GPUS, _SHARE, strict=True)
        ]
    )
    wanted = rng.choice(_GPUS, p=share / share.sum(), size=JOBS)
    kind = np.array([rng.choice(np.flatnonzero(measured.gpus == gpus)) for gpus in wanted], dtype=np.int64)
    speeds, gpus = measured.speeds[kind], measured.gpus[kind]
    quickest_s = 60.0 * np.exp(rng.uniform(math.log(_MINUTES[0]), math.log(_MINUTES[1]), JOBS))
    steps = quickest_s * speeds.max(axis=1)
    submitted_s = np.zeros(JOBS)
    if load is not None:
        typical_s = np.exp(np.log(steps[:, None] / speeds).mean(axis=1))
        apart_s = float((gpus * typical_s).mean()) / (PER_TYPE * speeds.shape[1]) / load
        submitted_s = np.cumsum(rng.exponential(apart_s, JOBS))
    believed = {name: by_kind[kind] for name, by_kind in predictions.items()}
    believed["oracle"] = speeds
    believed["agnostic"] = np.repeat(np.exp(np.log(speeds).mean(axis=1, keepdims=True)), speeds.shape[1], 1)
    return Drawn(SpeedTable(measured.architectures, speeds, steps, gpus, submitted_s, slots), kind, believed)
