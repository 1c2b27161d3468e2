"""The configurations a job of a cluster may get: a GPU type and a count, after Sia (SOSP 2023).

Within a node the counts are powers of two, beyond it whole nodes, so that counts can always be placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterView, Nodes
from apportion.policies.cluster.placing import filled

__all__ = ["Configurations", "believed_rates", "configurations", "count_menu", "current_configuration"]


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """All configurations of a cluster.

    Attributes
    ----------
    gpu_type
        int64 [configurations]: index of the GPU type.
    gpus
        int64 [configurations]: how many.
    placements
        GPUs per node of each configuration.
    """

    gpu_type: NDArray[np.int64]
    gpus: NDArray[np.int64]
    placements: tuple[tuple[int, ...], ...]


def configurations(nodes: Nodes) -> Configurations:
    """Return (1, 2, 4, ... GPUs of a node) and (whole nodes) of every type."""
    types: list[int] = []
    placements: list[tuple[int, ...]] = []
    for gpu_type in range(len(nodes.types)):
        sizes = nodes.gpus[nodes.of_type(gpu_type)]
        if not sizes.any():
            continue
        size = int(sizes.max())
        powers = [1 << exponent for exponent in range(size.bit_length()) if 1 << exponent < size]
        found: list[tuple[int, ...]] = [(power,) for power in powers]
        found += [(size,) * count for count in range(1, int((sizes == size).sum()) + 1)]
        placements += found
        types += [gpu_type] * len(found)
    gpus = np.array([sum(placement) for placement in placements], dtype=np.int64)
    return Configurations(np.array(types, dtype=np.int64), gpus, tuple(placements))


def count_menu(nodes: Nodes) -> Configurations:
    """Return 1, 2, 3, ... GPUs of a node and whole nodes, of the first type only."""
    size = int(nodes.gpus.max())
    own = nodes.of_type(0)
    gpus = [*range(1, size), *(size * count for count in range(1, own.size + 1))]
    placements = tuple(filled(count, size) for count in gpus)
    return Configurations(np.zeros(len(gpus), dtype=np.int64), np.array(gpus, dtype=np.int64), placements)


def believed_rates(view: ClusterView, menu: Configurations, positions: Sequence[int]) -> NDArray[np.float64]:
    """Return float64 [positions, configurations]: progress per second, NaN where a job cannot run."""
    names = [view.nodes.types[index] for index in menu.gpu_type.tolist()]
    rates = np.full((len(positions), menu.gpus.size), np.nan)
    for row, position in enumerate(positions):
        belief = view.beliefs[position]
        most = belief.max_gpus
        rates[row] = [
            belief.rate(placement, name) if count <= most else np.nan
            for placement, name, count in zip(menu.placements, names, menu.gpus.tolist(), strict=True)
        ]
    return rates


def current_configuration(view: ClusterView, menu: Configurations) -> NDArray[np.int64]:
    """Return int64 [jobs]: the configuration whose type and count a job holds, -1 where there is none."""
    index = {(int(t), int(g)): at for at, (t, g) in enumerate(zip(menu.gpu_type, menu.gpus, strict=True))}
    return np.array(
        [index.get((int(view.nodes.kind[held[0]]), len(held)), -1) if held else -1 for held in view.held],
        dtype=np.int64,
    )
