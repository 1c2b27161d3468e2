"""Two jobs on one GPU: what packing brings where pairs were measured."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.similarity import SimilarityPredictor
from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.gavel import Gavel
from apportion.cluster.policies.rounds.matching import Matching, longest_first
from apportion.cluster.policies.rounds.packing import Packing, PairSpeeds
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import RoundRules, SharedGpus, SimulatedJobs
from apportion.cluster.simulation.rounds.simulator import run_cluster
from paper_repro.joint.drawn_jobs import drawn, machines, predicted
from paper_repro.joint.matching import LONGEST_GAP, RESTART_S, ROUND_S
from paper_repro.joint.tasks import Result, Task
from paper_repro.model_similarity.measured import Measured

__all__ = ["PACKING", "measured_pairs", "packing_tasks", "predicted_pairs", "run_packing"]

PACKING: Mapping[str, Callable[[PairSpeeds, PairSpeeds], ClusterPolicy]] = MappingProxyType(
    {
        "shortest first, alone": lambda true, believed: Matching(),
        "shortest first, packed by measured pairs": lambda true, believed: Packing(true),
        "shortest first, packed by predicted pairs": lambda true, believed: Packing(believed),
        "longest first, alone": lambda true, believed: Matching(longest_first, gap=LONGEST_GAP),
        "longest first, packed by measured pairs": lambda true, believed: Packing(
            true, longest_first, gap=LONGEST_GAP
        ),
        "longest first, packed by predicted pairs": lambda true, believed: Packing(
            believed, longest_first, gap=LONGEST_GAP
        ),
        "Gavel max-min, alone": lambda true, believed: Gavel(),
    }
)
_MIXES: Mapping[str, int] = MappingProxyType({"1 GPU a job": 1, "1 to 8 GPUs a job": 8})
_LOADS: Mapping[str, float | None] = MappingProxyType({"all at once": None, "Poisson, load 1.4": 1.4})


def packing_tasks(seeds: range, quick: bool) -> list[Task]:
    """Return the runs of this part."""
    settings = [f"{mix}, {load}" for mix in _MIXES for load in _LOADS]
    if quick:
        settings = settings[1:2]
    return [
        Task("packing", setting, case, seed)
        for setting in settings
        for case in PACKING
        if setting.endswith("at once") or not case.startswith("longest")
        for seed in seeds
    ]


def run_packing(data: Path, task: Task) -> Result:
    """Simulate one."""
    mix, arrivals = task.setting.split(", ", 1)
    jobs = drawn(data, "Gavel", task.seed, _LOADS[arrivals], _MIXES[mix], slots=2)
    table, nodes = jobs.table, machines(predicted(data, "Gavel")[0], slots=2)
    kind = np.where(table.gpus == 1, jobs.kind, -1)
    true, believed = (PairSpeeds(kind, of(data)) for of in (measured_pairs, predicted_pairs))
    begun = time.process_time()
    run = run_cluster(
        PACKING[task.case](true, believed),
        nodes,
        SimulatedJobs(table, table.submitted_s, table.requested_slots, table.believed(table.speeds)),
        RoundRules(round_s=ROUND_S, restart_s=RESTART_S, interference=SharedGpus(nodes, true)),
    )
    return Result(task, summarise_cluster(run, task.case, time.process_time() - begun))


@cache
def measured_pairs(data: Path) -> NDArray[np.float64]:
    """Return [types, job types, job types]: speed beside the other over speed alone, Gavel's table."""
    measured: Measured = predicted(data, "Gavel")[0]
    tree = json.loads((data / "gavel" / "simulation_throughputs.json").read_bytes())
    row = {signature.name: at for at, signature in enumerate(measured.signatures)}
    relative = np.full((len(measured.architectures), len(row), len(row)), np.nan)
    for on, name in enumerate(measured.architectures):
        for key, speeds in tree[name].items():
            this = row.get(_named(key))
            for other_key, pair in speeds.items():
                other = None if other_key == "null" else row.get(_named(other_key))
                # 0 for both stands for a pair that did not fit into the memory
                if this is not None and other is not None and min(pair) > 0:
                    relative[on, this, other] = pair[0] / speeds["null"]
    return relative


@cache
def predicted_pairs(data: Path) -> NDArray[np.float64]:
    """Return the same, predicted for each type from pairs of the types nearest to both, without themselves.

    Whether two fit into the memory together is taken as known; a pair nobody like it was measured for gets
    the median of all.
    """
    measured: Measured = predicted(data, "Gavel")[0]
    true = measured_pairs(data)
    single = np.flatnonzero(measured.gpus == 1).tolist()
    row = {signature.name: at for at, signature in enumerate(measured.signatures)}
    near: dict[int, list[int]] = {}
    for at in single:
        others = [other for other in single if other != at]
        fitted = SimilarityPredictor().fit(
            [measured.signatures[other] for other in others],
            measured.speeds[others] / measured.speeds[others][:, [0]],
        )
        near[at] = [row[name] for name in fitted.predict([measured.signatures[at]])[0].neighbours]
    filled = np.full(true.shape, np.nan)
    middle = np.nanmedian(true, axis=(1, 2))
    for on in range(true.shape[0]):
        for one in single:
            for two in single:
                like = true[on][np.ix_(near[one], near[two])]
                known = like[~np.isnan(like)]
                filled[on, one, two] = known.mean() if known.size else middle[on]
    return np.where(np.isnan(true), np.nan, filled)


def _named(key: str) -> str:
    name, gpus = ast.literal_eval(key)
    return f"{name} x{gpus}"
