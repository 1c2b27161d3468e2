"""Choose one configuration a job at most, within the GPUs of every type: a knapsack, solved exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.policies.cluster.cluster_view import Nodes
from apportion.policies.cluster.configurations import Configurations
from apportion.policies.cluster.solved_round import solved

__all__ = ["choose"]

_DECIMALS = 9


def choose(
    nodes: Nodes,
    menu: Configurations,
    values: NDArray[np.float64],
    gap: float = 1e-4,
    preferred: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return int64 [jobs]: the chosen configuration, -1 for waiting (worth 0).

    Parameters
    ----------
    nodes
        The machines.
    menu
        The configurations.
    values
        float64 [jobs, configurations]: worth over waiting, to be maximised; NaN forbids. Nine decimals count.
    gap
        Relative optimality gap asked for, if there are several GPU types.
    preferred
        int64 [jobs]: the present configurations, kept where nothing is lost by it (one GPU type only).
    """
    job, configuration = np.nonzero(np.isfinite(values))
    if not job.size:
        return np.full(values.shape[0], -1, dtype=np.int64)
    types = len(nodes.types)
    uses = np.zeros((job.size, types), dtype=np.int64)
    uses[np.arange(job.size), menu.gpu_type[configuration]] = menu.gpus[configuration]
    offsets = np.zeros(values.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(job, minlength=values.shape[0]), out=offsets[1:])
    capacities = np.bincount(nodes.kind, weights=nodes.gpus, minlength=types).astype(np.int64)
    # the last bits of powers and logarithms differ by machine: what is alike shall tie everywhere
    worth = np.round(values[job, configuration], _DECIMALS)
    model = MultipleChoiceKnapsack.from_arrays(
        worth, uses, offsets, capacities, required=False, capacity_names=nodes.types
    )
    warm = None
    if preferred is not None:
        rows = np.flatnonzero(configuration == preferred[job])
        warm = np.full(values.shape[0], -1, dtype=np.int64)
        warm[job[rows]] = rows
    rows = np.asarray(solved(model, gap if types > 1 else 0.0, warm).require())
    return np.where(rows >= 0, configuration[rows], -1)
