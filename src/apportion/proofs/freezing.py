"""A layer-freezing round as menus: admissible configurations, and cuts that every placed plan keeps.

A cut is a capacity beside the instance's own. Its reason is checked before it is used:

* ``{"node_weights": [w(1), .., w(R)], "gpu_type": name}``: no plan exceeds the sum of W over the nodes,
whatever the
  weights are (`apportion.instances.freezing.nodes`);
* ``{"excluded": {position of job: GPUs, ..}, "gpu_type": name}``: those jobs with that many GPUs or more do
not lie on
  the nodes together, which is shown by packing them exhaustively; so at most all but one of them get as many.

The admissible configurations of a layer-freezing round as columns, by the meaning of a round alone.

A *place* is a row of a job's menu, a GPU type and a count; an *entry* is a place at one depth. What an entry
is worth is a double by definition (`apportion.instances.freezing.check`): in the order of operations
written there and with the C library's power, which vectors of numpy need not match in the last bit, so that
is asked for one entry at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.instances import FreezingInstance
from apportion.instances.freezing import FreezingJob
from apportion.instances.freezing.check import capacities_of
from apportion.instances.freezing.nodes import NodeWeights, TypeNodes, nodes_of
from apportion.proofs.certificate import MalformedProof

__all__ = [
    "MOST_USES",
    "Configurations",
    "Cut",
    "configurations_of",
    "configured",
    "cuts_of",
    "exceed_nodes",
    "names_of",
]


class Configurations(NamedTuple):
    """What jobs may run on, job after job.

    Attributes
    ----------
    job, gpu_type, gpus, penalty
        int64 [configurations]: positions of the job and of the type, GPUs, millionths.
    value
        float64 [configurations].
    """

    job: NDArray[np.int64]
    gpu_type: NDArray[np.int64]
    gpus: NDArray[np.int64]
    penalty: NDArray[np.int64]
    value: NDArray[np.float64]


def configurations_of(instance: FreezingInstance) -> Configurations:
    """Return every admissible configuration; without a cap, of each place only a depth worth most.

    Without a cap all depths of a place use the same, so a choice with another depth is worth no more than the
    same choice with that one.
    """
    jobs, capped = instance.jobs, instance.penalty_cap_millionths is not None
    menus = [job.menu_arrays for job in jobs]
    owner = np.arange(len(jobs)).repeat(np.array([menu.sizes.size for menu in menus], dtype=np.int64))
    types = {name: at for at, name in enumerate(instance.gpus)}
    gpu_type = np.array([types[row.gpu_type] for job in jobs for row in job.menu], dtype=np.int64)
    gpus = _joined([menu.gpus for menu in menus])
    depth = _joined([menu.depth for menu in menus])
    place = np.arange(owner.size).repeat(_joined([menu.sizes for menu in menus]))

    def by_place(numbers: list[Any], kind: type = np.int64) -> NDArray[Any]:
        return np.asarray(np.array(numbers, dtype=kind)[owner])

    node = np.array([instance.gpus_per_node.get(name, 0) for name in types], dtype=np.int64)[gpu_type]
    fills = (node == 0) | (gpus <= node) | (gpus % np.maximum(node, 1) == 0)
    deepest = by_place([_deepest(instance, job) for job in jobs])
    kept = np.flatnonzero(fills[place] & (depth <= deepest[place]))
    place, depth = place[kept], depth[kept]
    now = [job.current for job in jobs]
    here = gpu_type == by_place([types[one.gpu_type] if one else -1 for one in now])
    here &= gpus == by_place([one.gpus if one else 0 for one in now])
    moves = by_place([one is not None for one in now], np.bool_) & ~here
    factor = np.where(moves, by_place([_restart_factor(job) for job in jobs], np.float64), 1.0)[place]
    refrozen = here[place] & (depth != by_place([one.depth if one else -1 for one in now])[place])
    rebuilt = by_place([max(0.0, 1.0 - job.rebuild_s / instance.round_s) for job in jobs], np.float64)
    factor[refrozen] = rebuilt[place[refrozen]]
    reference = by_place([_reference(job) for job in jobs], np.float64)[place]
    ratio = factor * np.concatenate([np.zeros(0), *(menu.progress for menu in menus)])[kept] / reference
    runs = np.flatnonzero(ratio)
    value = np.zeros(ratio.size)
    power = map(math.pow, ratio[runs].tolist(), repeat(instance.power))
    value[runs] = by_place([job.weight for job in jobs], np.float64)[place[runs]] * np.fromiter(
        power, np.float64, runs.size
    )
    if instance.power < 0:  # without progress it is worth infinitely much
        kept, place, value = kept[runs], place[runs], value[runs]
    if not capped and place.size:
        firsts = np.flatnonzero(np.diff(place, prepend=-1))
        best = np.maximum if instance.power > 0 else np.minimum
        kept, place, value = kept[firsts], place[firsts], best.reduceat(value, firsts)
    penalties = _joined(
        [np.zeros_like(menu.depth) if menu.penalty is None else menu.penalty for menu in menus if capped]
    )
    penalty = penalties[kept] if capped else np.zeros_like(kept)
    return Configurations(owner[place], gpu_type[place], gpus[place], penalty, value)


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _deepest(instance: FreezingInstance, job: FreezingJob) -> int:
    """Return the deepest depth within the gate and the accuracy budget of a round."""
    gate = job.layers if job.max_depth is None else min(job.max_depth, job.layers)
    if job.budget_frozen_s is None:
        return gate
    return min(gate, math.floor(Fraction(job.budget_frozen_s) * job.layers / Fraction(instance.round_s)))


def _reference(job: FreezingJob) -> float:
    """Return the progress that counts as 1: as given, else the least positive one of the menu, else 1."""
    least = job.menu_arrays.least if job.reference_progress is None else job.reference_progress
    return 1.0 if least is None else least


def _restart_factor(job: FreezingJob) -> float:
    """Return what a change of GPU type or count leaves of a job's progress."""
    lived, lost = job.age_s, job.restart_s
    return 1.0 if lived + lost == 0.0 else max(0.0, (lived - job.restarts * lost) / (lived + lost))


_MOST_PACKINGS = 200_000
"""Partial packings that are tried for all cuts together before an exclusion counts as not shown."""
_NODES_A_PACKING = 64
"""Nodes of a packing that count as one more."""
_MOST_CUTS = 10_000
MOST_USES = 5_000_000
"""Cuts times configurations, and pairs of weights of all cuts, up to which they are looked at."""


def configured(
    instance: FreezingInstance, cuts: Sequence[dict[str, Any]]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], list[int]]:
    """Return values (as doubles), uses, menu sizes and capacities, the last option of a job being to wait."""
    capacities, further = capacities_of(instance), cuts_of(instance, cuts)
    found = configurations_of(instance)
    waits = np.array([not job.required for job in instance.jobs], dtype=np.bool_)
    sizes = np.bincount(found.job, minlength=waits.size) + waits
    last = np.cumsum(sizes)[waits] - 1
    options = np.delete(np.arange(sizes.sum()), last)
    values = np.full(options.size + last.size, instance.queue_penalty)
    values[options] = found.value
    uses = np.zeros((values.size, len(capacities) + len(further)), dtype=np.int64)
    uses[options, found.gpu_type] = found.gpus
    if instance.penalty_cap_millionths is not None:
        uses[options, len(capacities) - 1] = found.penalty
    types = list(instance.gpus)
    if len(further) * found.job.size > MOST_USES:
        raise MalformedProof(f"more than {MOST_USES} uses of cuts")
    configurations = list(zip(found.job.tolist(), found.gpu_type.tolist(), found.gpus.tolist(), strict=True))
    for k, cut in enumerate(further, len(capacities)):
        uses[options, k] = [cut.use(job, types[at], gpus) for job, at, gpus in configurations]
    return values, uses, sizes, [*capacities.values(), *(cut.room for cut in further)]


def cuts_of(instance: FreezingInstance, cuts: Sequence[dict[str, Any]]) -> list[Cut]:
    """Return the further capacities of a proof, the reason of each checked."""
    if len(cuts) > _MOST_CUTS:
        raise MalformedProof(f"more than {_MOST_CUTS} cuts")
    left = [_MOST_PACKINGS]
    pairs = sum(len(cut["node_weights"]) ** 2 for cut in cuts if isinstance(cut.get("node_weights"), list))
    if pairs > MOST_USES:
        raise MalformedProof(f"more than {MOST_USES} pairs of node weights")
    return [Cut.read(instance, cut, left) for cut in cuts]


def names_of(instance: FreezingInstance, cuts: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the capacities as multipliers name them; an exclusion has none."""
    weighed = [
        NodeWeights(cut["gpu_type"], tuple(cut["node_weights"])).name if "node_weights" in cut else ""
        for cut in cuts
    ]
    return [*capacities_of(instance), *weighed]


class Cut:
    """One further capacity, its reason checked."""

    def __init__(
        self, gpu_type: str, weights: NodeWeights | None, excluded: dict[int, int], room: int
    ) -> None:
        self._gpu_type, self._weights, self._excluded, self.room = gpu_type, weights, excluded, room

    @classmethod
    def read(cls, instance: FreezingInstance, cut: dict[str, Any], left: list[int]) -> Cut:
        """Return a cut as a proof says it, once its reason holds; `left` counts packings down."""
        gpu_type = cut.get("gpu_type")
        nodes = (
            nodes_of(instance, gpu_type) if isinstance(gpu_type, str) and gpu_type in instance.gpus else None
        )
        if nodes is None or not isinstance(gpu_type, str):
            raise MalformedProof(f"a cut names {gpu_type!r}, which is no GPU type with nodes")
        if set(cut) == {"gpu_type", "node_weights"}:
            weights = cut["node_weights"]
            if (
                not isinstance(weights, list)
                or len(weights) != nodes.size
                or not all(map(_is_count, weights))
            ):
                raise MalformedProof(f"node_weights must be {nodes.size} whole numbers from 0 to 10**9")
            one = NodeWeights(gpu_type, tuple(weights))
            return cls(gpu_type, one, {}, one.capacity(instance.gpus[gpu_type]))
        if set(cut) == {"gpu_type", "excluded"} and isinstance(cut["excluded"], dict):
            excluded = _positions(instance, cut["excluded"])
            if not excluded or not exceed_nodes(nodes, list(excluded.values()), left):
                raise MalformedProof("an excluded choice is not shown to exceed the nodes")
            return cls(gpu_type, None, excluded, len(excluded) - 1)
        raise MalformedProof("a cut must have node_weights or excluded beside gpu_type")

    def use(self, job: int, gpu_type: str, gpus: int) -> int:
        """Return what a configuration of the job at a position takes of it."""
        if gpu_type != self._gpu_type:
            return 0
        if self._weights is not None:
            return self._weights.of(gpus)
        return int(job in self._excluded and gpus >= self._excluded[job])


def _is_count(given: Any) -> bool:
    return type(given) is int and 0 <= given <= 10**9


def _positions(instance: FreezingInstance, given: dict[str, Any]) -> dict[int, int]:
    found = {}
    for key, gpus in given.items():
        if not (
            key.isascii()
            and key.isdecimal()
            and int(key[:12]) < len(instance.jobs)
            and _is_count(gpus)
            and gpus
        ):
            raise MalformedProof("excluded must give GPUs, at least 1, by position of a job")
        found[int(key)] = gpus
    return found


def exceed_nodes(nodes: TypeNodes, gpus: list[int], left: list[int] | None = None) -> bool:
    """Return whether packing exhaustively shows that jobs of so many GPUs do not lie on the nodes together.

    Counts that lie on no nodes at all are in no plan, but here they count as not shown.

    Parameters
    ----------
    nodes
        The nodes of their type.
    gpus
        What every job holds.
    left
        A count of packings, which is taken down; below 0 nothing is shown.
    """
    left = [_MOST_PACKINGS] if left is None else left
    sizes = []
    for one in gpus:
        needed = nodes.needed(one)
        if needed is None:
            return False
        sizes.extend([min(one, nodes.size)] * needed)
    sizes.sort(reverse=True)
    seen: set[tuple[int, tuple[int, ...]]] = set()
    stack = [(0, tuple(sorted(nodes.room())))]
    each = 1 + len(stack[0][1]) // _NODES_A_PACKING
    while stack:
        at, room = stack.pop()
        if at == len(sizes):
            return False
        for index, free in enumerate(room):
            if free >= sizes[at] and (index == 0 or room[index - 1] != free):
                after = (at + 1, tuple(sorted((*room[:index], free - sizes[at], *room[index + 1 :]))))
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
                    left[0] -= each
        if left[0] < 0:
            return False
    return True
