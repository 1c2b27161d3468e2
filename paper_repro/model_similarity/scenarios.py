"""Jobs drawn from measured tables, with their true times and the times every policy believes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.model_similarity import (
    Information,
    ReferenceSpeeds,
    TrainingJob,
    believed_times,
)
from paper_repro.model_similarity.measured import Measured

__all__ = ["Beliefs", "Scenario", "beliefs", "draw", "scenarios"]

_CAUTION = 0.5
_LARGE_BATCH = 64
_LOADS = (24, 48, 96)
PER_TYPE = 8
"""GPUs of every architecture."""


@dataclass(frozen=True, slots=True, eq=False)
class Beliefs:
    """Seconds per unit of work, float64 [types, architectures] each, predicted without the model itself.

    Attributes
    ----------
    unknown
        From similarity alone.
    profiled, cautious
        Scaled from the time on the first architecture; believed as they are, or discounted.
    """

    unknown: NDArray[np.float64]
    profiled: NDArray[np.float64]
    cautious: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Which job types are drawn, and how many jobs."""

    source: str
    name: str
    types: NDArray[np.int64]
    jobs: int


def beliefs(measured: Measured) -> Beliefs:
    """Return what the policy believes of every type, its model left out of what is known."""
    tables = [np.empty_like(measured.speeds) for _ in range(3)]
    levels: tuple[tuple[Information, float], ...] = (
        ("similarity", 0.0),
        ("profiled", 0.0),
        ("profiled", _CAUTION),
    )
    base = measured.architectures[0]
    for group in np.unique(measured.groups):
        own, rest = np.flatnonzero(measured.groups == group), np.flatnonzero(measured.groups != group)
        known = [measured.signatures[k] for k in rest.tolist()]
        reference = ReferenceSpeeds(known, measured.speeds[rest], measured.architectures)
        jobs = [
            TrainingJob(f"type{k}", measured.signatures[k], 1.0, {base: 1.0 / float(measured.speeds[k, 0])})
            for k in own.tolist()
        ]
        for table, (level, caution) in zip(tables, levels, strict=True):
            table[own] = believed_times(jobs, measured.architectures, reference, level, caution)
    return Beliefs(*tables)


def scenarios(measured: Measured) -> list[Scenario]:
    """Return the scenarios of a source: one or several GPUs, small or large batch where there are any."""
    batch = np.array([signature.batch or 0 for signature in measured.signatures])
    parts = []
    for several in (False, True):
        gangs = ((measured.gpus > 1) == several) & (measured.gpus <= PER_TYPE)
        width = (
            f"{measured.gpus[gangs].min()}-{measured.gpus[gangs].max()} GPUs"
            if several and gangs.any()
            else "1 GPU"
        )
        if batch.any():
            parts.append((f"{width}, small batch", gangs & (batch < _LARGE_BATCH)))
            parts.append((f"{width}, large batch", gangs & (batch >= _LARGE_BATCH)))
        else:
            parts.append((width, gangs))
    return [
        Scenario(measured.name, name, np.flatnonzero(of), jobs)
        for name, of in parts
        if of.any()
        for jobs in _LOADS
    ]


def draw(
    scenario: Scenario, measured: Measured, believed: Beliefs, seed: int
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Return the times that policies believe and the true ones, float64 [jobs, architectures], and the GPUs.

    Job lengths are 30 to 1,000 minutes on the quickest architecture, log-uniform.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.choice(scenario.types, size=scenario.jobs)
    quickest = 60 * 10 ** rng.uniform(np.log10(30), 3, scenario.jobs)
    work = (quickest * measured.speeds[drawn].max(axis=1))[:, None]
    true = work / measured.speeds[drawn]
    times = {
        "none": np.ones_like(true),
        "agnostic": np.repeat(true.mean(axis=1, keepdims=True), true.shape[1], axis=1),
        "unknown": work * believed.unknown[drawn],
        "profiled": work * believed.profiled[drawn],
        "cautious": work * believed.cautious[drawn],
        "true": true,
    }
    return times, measured.gpus[drawn]
