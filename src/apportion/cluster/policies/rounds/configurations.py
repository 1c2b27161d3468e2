"""The configurations a job of a cluster may get: a GPU type and a count, after Sia (SOSP 2023).

Within a node the counts are powers of two, beyond it whole nodes, so that counts can always be placed.

Of these at most one a job is chosen, within the GPUs of every type: a knapsack, solved exactly, and limited
by work alone, so that a busy machine simulates what a quiet one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import Claims, ClusterView, Nodes
from apportion.cluster.policies.rounds.placing import filled
from apportion.core.interruption import uninterrupted
from apportion.models.multiple_choice import MultipleChoiceKnapsack

if TYPE_CHECKING:
    from apportion.core.solution import Solution

__all__ = [
    "Configurations",
    "believed_rates",
    "choose",
    "choose_within_fair_levels",
    "configurations",
    "count_menu",
    "current_configuration",
    "solved",
]


def solved(
    model: MultipleChoiceKnapsack, gap: float, warm_start: NDArray[np.int64] | None = None
) -> Solution[NDArray[np.int64]]:
    """Return the answer to a round's menus; no clock has a part in it.

    One capacity needs no turns by time: its search depends on the arrays alone. With several the exact
    search, beams and HiGHS take turns, which deterministic mode gives them by estimated work.

    Parameters
    ----------
    model
        The menus; a capacity a GPU type.
    gap
        Relative optimality gap asked for.
    warm_start
        int64 [jobs]: rows to begin with, preferred among equal optima; -1 for none.
    """
    from apportion.solving.api import solve

    counted = model.num_capacities > 1
    return uninterrupted(
        solve(model, backend="exact", time_limit=None, gap=gap, warm_start=warm_start, deterministic=counted)
    )


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
    options = list(zip(menu.placements, names, menu.gpus.tolist(), strict=True))
    for row, position in enumerate(positions):
        belief = view.beliefs[position]
        most, rate = belief.max_gpus, belief.rate
        rates[row] = [
            rate(placement, name) if count <= most else np.nan for placement, name, count in options
        ]
    return rates


def current_configuration(view: ClusterView, menu: Configurations) -> NDArray[np.int64]:
    """Return int64 [jobs]: the configuration whose type and count a job holds, -1 where there is none."""
    index = {(int(t), int(g)): at for at, (t, g) in enumerate(zip(menu.gpu_type, menu.gpus, strict=True))}
    return np.array(
        [index.get((int(view.nodes.kind[held[0]]), len(held)), -1) if held else -1 for held in view.held],
        dtype=np.int64,
    )


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
    # the last bits of powers and logarithms differ by machine: what is alike shall tie everywhere
    worth = np.round(values[job, configuration], _DECIMALS)
    model = MultipleChoiceKnapsack.from_arrays(
        worth, uses, offsets, nodes.gpus_by_type, required=False, capacity_names=nodes.types
    )
    warm = None
    if preferred is not None:
        rows = np.flatnonzero(configuration == preferred[job])
        warm = np.full(values.shape[0], -1, dtype=np.int64)
        warm[job[rows]] = rows
    rows = np.asarray(solved(model, gap if types > 1 else 0.0, warm).require())
    return np.where(rows >= 0, configuration[rows], -1)


def choose_within_fair_levels(
    nodes: Nodes,
    menu: Configurations,
    values: NDArray[np.float64],
    claims: Claims,
    gap: float = 1e-4,
) -> NDArray[np.int64]:
    """Return int64 [jobs]: as `choose`, among the plans that serve the worst-off tenant best, then the next.

    Parameters
    ----------
    nodes, menu, values, gap
        As of `choose`.
    claims
        Of the jobs: tenants with their shares as weights, and what is their own as guarantees.
    """
    from apportion.io.builders import Knapsack
    from apportion.solving.api import solve

    capacities = nodes.gpus_by_type
    own = np.where(claims.entitled.sum(axis=0) <= capacities, claims.entitled, 0)  # machines may be gone
    tenants = [
        {
            "id": name,
            "weight": float(claims.share[at]),
            "quotas": {
                kind: {"guarantee": int(gpus)} for kind, gpus in zip(nodes.types, own[at], strict=True)
            },
        }
        for at, name in enumerate(claims.tenants)
    ]
    totals = dict(zip(nodes.types, capacities.tolist(), strict=True))
    menus = Knapsack(totals, tenants=tenants, fairness={})
    for job, worth in enumerate(values):
        options = np.flatnonzero(np.isfinite(worth))
        gpus = menu.gpus[options]
        menus.add_job(
            str(job),
            np.round(worth[options], _DECIMALS),
            {
                name: np.where(menu.gpu_type[options] == kind, gpus, 0)
                for kind, name in enumerate(nodes.types)
            },
            options=list(map(str, options)),
            required=False,
            tenant=claims.tenants[claims.tenant[job]],
        )
    solution = uninterrupted(solve(menus.instance(), time_limit=None, gap=gap, deterministic=True))
    chosen = np.full(values.shape[0], -1, dtype=np.int64)
    for name, option in (solution.plan or {"choice": {}})["choice"].items():
        if option is not None:
            chosen[int(name)] = int(option)
    return chosen
