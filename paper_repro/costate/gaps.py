"""Prices of work in the gaps of generated supercomputers, beside FreeTrain and `adaptive`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from apportion.cluster.policies.adaptive import Adaptive, Priced
from apportion.cluster.policies.freetrain import FreeTrain
from apportion.cluster.policies.gap_filling_view import Policy
from apportion.cluster.simulation.idle_trace import generated_trace, node_changes
from apportion.cluster.simulation.job_table import generated_jobs
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.snapshot import workload
from apportion.cluster.simulation.summary import summarise
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES
from paper_repro.intervals import Mean
from paper_repro.progress import Progress

__all__ = ["gap_rows"]

SEEDS = range(1, 6)
POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {
        "freetrain, 120 s": FreeTrain,
        "freetrain-waking, 10 s": lambda: FreeTrain(10.0, wakes=True),
        "adaptive": Adaptive,
        "costate": Priced,
        "costate, makespan 1": lambda: Priced(makespan=1.0),
        "costate, makespan 4": lambda: Priced(makespan=4.0),
    }
)


def gap_rows(spread: float = 0.7) -> list[dict[str, Any]]:
    """Replay every policy on five machines, with backlogs at once and jobs that come over time; a row each.

    Parameters
    ----------
    spread
        Standard deviation of the logarithm of a job's work over the published.
    """
    found = []
    progress = Progress("replays", 2 * len(POLICIES) * len(SEEDS))
    for hours in (10.0, 150.0):
        results: dict[str, list[tuple[float, float]]] = {name: [] for name in POLICIES}
        for seed in SEEDS:
            changes = node_changes(generated_trace(seed, 128, 21.0))
            jobs = workload(generated_jobs(seed, 60, hours=hours), PUBLISHED_CURVES)
            factors = np.exp(spread * np.random.default_rng(seed).normal(size=jobs.num_jobs))
            for name, make in POLICIES.items():
                replay = Replay(changes, replace(jobs, work=jobs.work * factors), make(), trainers=20)
                replay.run()
                summary = summarise(replay, name)
                assert summary.mean_completion_h is not None and summary.makespan_h is not None
                results[name].append((summary.mean_completion_h, summary.makespan_h))
                progress.step()
        beside = np.array(results["adaptive"])
        for name, figures in results.items():
            own = np.array(figures)
            found.append(
                {
                    "jobs come within, h": hours,
                    "policy": name,
                    "mean completion, h": Mean.of(own[:, 0].tolist()).words(1.0, 1),
                    "less than adaptive, per cent": Mean.of((1.0 - own / beside)[:, 0].tolist()).words(
                        100.0, 1
                    ),
                    "makespan, h": Mean.of(own[:, 1].tolist()).words(1.0, 1),
                    "makespan more, per cent": Mean.of((own / beside - 1.0)[:, 1].tolist()).words(100.0, 1),
                }
            )
    return found
