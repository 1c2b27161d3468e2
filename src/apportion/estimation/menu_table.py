"""From fitted models to a job's menu: effective progress and penalty of every GPU count and frozen depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apportion.errors import InvalidOption
from apportion.estimation.effective_progress import effective_progress
from apportion.estimation.layer_throughput import LayerThroughput

__all__ = ["menu_rows"]

_MILLION = 1_000_000


def menu_rows(
    model: LayerThroughput,
    gpu_type: str,
    gpus: Sequence[int],
    gpus_per_node: int,
    local_batch: int,
    depths: Sequence[int],
    work: ArrayLike,
    parameters: ArrayLike,
    penalty: ArrayLike,
    efficiency: ArrayLike = 1.0,
) -> list[dict[str, Any]]:
    """Return the menu of one job on one GPU type as it stands in an instance of kind ``freezing``.

    Parameters
    ----------
    model
        Fitted step times on this GPU type.
    gpu_type
        The name of the GPU type that the model was fitted to.
    gpus
        GPU counts; g of them are ceil(g / gpus_per_node) nodes.
    gpus_per_node
        Size of a node.
    local_batch
        Samples per GPU.
    depths
        Frozen layers, rising.
    work, parameters, penalty
        float64 [depths]: u(k), rho(k) and the frozen penalty.
    efficiency
        float64 [counts] or a number: statistical efficiency at the batch of each count.

    Returns
    -------
    list of dict
        One row per count.

    Raises
    ------
    InvalidOption
        If an array has another length than `depths`, or a count needs what was not measured.
    """
    u, rho, lost = (np.asarray(part, dtype=np.float64) for part in (work, parameters, penalty))
    if not u.shape == rho.shape == lost.shape == (len(depths),):
        raise InvalidOption("need work, parameters and penalty per depth")
    counts = np.asarray(gpus, dtype=np.int64)
    phi = np.broadcast_to(np.asarray(efficiency, dtype=np.float64), counts.shape)
    nodes = -(-counts // gpus_per_node)
    rate = model.throughput(counts[:, None], nodes[:, None], local_batch, u, rho)
    progress = effective_progress(rate, phi[:, None], lost)
    millionths = np.rint(_MILLION * lost).astype(np.int64).tolist()
    return [
        {
            "gpu_type": gpu_type,
            "gpus": count,
            "depths": [int(depth) for depth in depths],
            "effective_progress": row.tolist(),
            "penalty_millionths": millionths,
        }
        for count, row in zip(counts.tolist(), progress, strict=True)
        if len(depths)
    ]
