"""Pack jobs of one GPU in pairs onto GPUs, and match jobs and pairs to GPU types (after Gavel and Gandiva).

Of every two jobs the edge weight is what sharing a GPU is believed to gain over the better of them alone on
it, at best over the types; a maximum-weight matching makes pairs. Then one knapsack decides for every pair:
both on one GPU, each on its own, one alone, or nobody; for every other job: a type or waiting. Weights and
restarts count as in `matching`.

A node of the cluster is one GPU with two slots: a job that holds both is alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.configurations import solved
from apportion.cluster.policies.rounds.matching import (
    Weights,
    after_restart,
    believed_seconds,
    gains,
    shortest_first,
    worths,
)
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Packing", "PairSpeeds"]

_SLOTS = 2


@dataclass(frozen=True, slots=True, eq=False)
class PairSpeeds:
    """How fast two jobs run on one GPU, relative to each alone on it.

    Attributes
    ----------
    kind
        int64 [jobs]: the job type of every job of the workload; -1 for one that shares with nobody.
    relative
        float64 [GPU types, job types, job types]: speed of the first beside the second over its speed alone;
        NaN where the two do not fit together.
    """

    kind: NDArray[np.int64]
    relative: NDArray[np.float64]

    def relative_to_alone(
        self, gpu_type: NDArray[np.int64], this: NDArray[np.int64], other: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the relative speeds of `this` jobs beside `other` ones; NaN where they do not fit."""
        one, two = self.kind[this], self.kind[other]
        return np.where((one >= 0) & (two >= 0), self.relative[gpu_type, one, two], np.nan)


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a unit may get: for each of its jobs a GPU type, -1 to wait; equal types of a pair may share."""

    jobs: tuple[int, ...]
    types: tuple[int, ...]
    shared: bool
    value: float


@dataclass(slots=True)
class Packing:
    """A policy that matches jobs to GPU types and decides which two of them share GPUs.

    Attributes
    ----------
    pairs
        Believed speeds of pairs.
    weights, lasts_s, gap
        The parameters of the same names of `Matching`.
    """

    pairs: PairSpeeds
    weights: Weights = shortest_first
    lasts_s: float = 1800.0
    gap: float = 1e-2
    _jobs: tuple[int, ...] = ()
    _matched: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        alone = gains(view, self.weights, self.lasts_s)
        together = self._together(view)
        jobs = tuple(view.jobs.tolist())
        if jobs != self._jobs:
            # pairs anew only when jobs come or go: it is the slow step, and pairs should last
            self._jobs = jobs
            self._matched = _matched(alone, together)
        units: list[tuple[int, ...]] = list(self._matched)
        paired = {job for pair in self._matched for job in pair}
        units += [(job,) for job in range(view.num_jobs) if job not in paired]
        menus = [list(_choices(unit, alone, together)) for unit in units]
        return ClusterPlan(
            _placed(view, [menu[pick] for menu, pick in _picked(view, menus, self.gap) if pick >= 0])
        )

    def _together(self, view: ClusterView) -> NDArray[np.float64]:
        """Return float64 [types, jobs, jobs]: gain of the first beside the second, NaN if they do not fit."""
        seconds = believed_seconds(view)
        types = np.arange(seconds.shape[1])[:, None, None]
        relative = self.pairs.relative_to_alone(types, view.jobs[None, :, None], view.jobs[None, None, :])
        single = view.requested_gpus == _SLOTS
        fits = (single[:, None] & single[None, :])[None] & ~np.isnan(relative.transpose(0, 2, 1))
        shares = np.array([held[0] if len(held) == 1 else -1 for held in view.held], dtype=np.int64)
        kind = np.where(shares >= 0, view.nodes.kind[shares], -1)
        stays = (shares[:, None] == shares[None, :])[None] & (kind[None, :, None] == types)
        moved = after_restart(view, seconds, self.lasts_s).T[:, :, None]
        gain = relative * worths(view, self.weights, seconds).T[:, :, None] * np.where(stays, 1.0, moved)
        return np.where(fits, gain, np.nan)


def _matched(alone: NDArray[np.float64], together: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the pairs of a maximum-weight matching."""
    import networkx

    both = together + together.transpose(0, 2, 1)
    better = np.maximum(alone.T[:, :, None], alone.T[:, None, :])
    gain = np.where(np.isnan(both), -np.inf, both - better).max(axis=0)
    one, two = np.nonzero(np.triu(gain > 0.0, k=1))
    graph = networkx.Graph()
    graph.add_weighted_edges_from(zip(one.tolist(), two.tolist(), gain[one, two].tolist(), strict=True))
    # sets of tuples come in no fixed order
    return sorted((min(pair), max(pair)) for pair in networkx.max_weight_matching(graph))


def _choices(
    unit: tuple[int, ...], alone: NDArray[np.float64], together: NDArray[np.float64]
) -> Iterator[_Choice]:
    types = range(alone.shape[1])
    for kind in types:
        for job in unit:
            if alone[job, kind] > 0:
                yield _Choice((job,), (kind,), False, float(alone[job, kind]))
    if len(unit) == 1:
        return
    one, two = unit
    for kind in types:
        value = float(together[kind, one, two] + together[kind, two, one])
        if value > 0:
            yield _Choice(unit, (kind, kind), True, value)
        for other in types:
            if alone[one, kind] > 0 and alone[two, other] > 0:
                yield _Choice(unit, (kind, other), False, float(alone[one, kind] + alone[two, other]))


def _picked(view: ClusterView, menus: list[list[_Choice]], gap: float) -> Iterator[tuple[list[_Choice], int]]:
    """Yield every unit's menu and the row chosen, -1 for none."""
    flat = [choice for menu in menus for choice in menu]
    if not flat:
        return
    types = len(view.nodes.types)
    uses = np.zeros((len(flat), types), dtype=np.int64)
    for row, choice in enumerate(flat):
        if choice.shared:
            uses[row, choice.types[0]] = _SLOTS
        else:
            for job, kind in zip(choice.jobs, choice.types, strict=True):
                uses[row, kind] += view.requested_gpus[job]
    offsets = np.concatenate(([0], np.cumsum([len(menu) for menu in menus])))
    capacities = view.nodes.gpus_by_type
    values = np.array([choice.value for choice in flat])
    model = MultipleChoiceKnapsack.from_arrays(
        values, uses, offsets, capacities, required=False, capacity_names=view.nodes.types
    )
    rows = np.asarray(solved(model, gap).require())
    for menu, row, start in zip(menus, rows.tolist(), offsets.tolist(), strict=False):
        yield menu, row - start if row >= 0 else -1


def _placed(view: ClusterView, chosen: list[_Choice]) -> list[tuple[int, ...]]:
    """Return the GPUs of every job; who keeps its type and company keeps its GPU."""
    nodes: list[tuple[int, ...]] = [()] * view.num_jobs
    kinds = view.nodes.kind
    taken = np.zeros(kinds.size, dtype=np.bool_)
    later: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []
    groups: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []
    for choice in chosen:
        if choice.shared:
            groups.append((choice.jobs, choice.types[0], (1,)))
        else:
            groups += [
                ((job,), kind, (_SLOTS,) * int(view.requested_gpus[job] // _SLOTS))
                for job, kind in zip(choice.jobs, choice.types, strict=True)
            ]
    for jobs, kind, slots in groups:
        held = next((view.held[job] for job in jobs if view.held[job]), ())
        gpus = tuple(dict.fromkeys(held))
        if len(gpus) == len(slots) and kinds[gpus[0]] == kind and not taken[list(gpus)].any():
            _give(nodes, taken, jobs, gpus, slots)
        else:
            later.append((jobs, kind, slots))
    for jobs, kind, slots in later:
        free = np.flatnonzero((kinds == kind) & (view.nodes.gpus == _SLOTS) & ~taken)
        _give(nodes, taken, jobs, tuple(free[: len(slots)].tolist()), slots)
    return nodes


def _give(
    nodes: list[tuple[int, ...]],
    taken: NDArray[np.bool_],
    jobs: tuple[int, ...],
    gpus: tuple[int, ...],
    slots: tuple[int, ...],
) -> None:
    taken[list(gpus)] = True
    for job in jobs:
        nodes[job] = tuple(gpu for gpu, count in zip(gpus, slots, strict=True) for _ in range(count))
