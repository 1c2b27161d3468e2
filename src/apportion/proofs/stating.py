"""From an instance and a claim to the menus that a proof walks, for every kind; nothing comes from a solver.

Where `maximise` is said below, minimised kinds are negated. A claim of infeasibility sets every worth to 0
and the threshold to -1: then any choice at all would refute it.

The menu of a gap-filling job: every admissible node count, its exact worth rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.instances import (
    FreezingInstance,
    GapFillingInstance,
    GapFillingJob,
    MatchingInstance,
    MultipleChoiceKnapsackInstance,
    kind_of,
)
from apportion.instances.tenants.check import ledger_of
from apportion.instances.tenants.ledger import is_tenanted
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.proofs.certificate import Claim, MalformedProof, Proof
from apportion.proofs.integer_menus import (
    IntegerArray,
    IntegerMenus,
    as_int64,
    integer_menus,
    rounded_up,
    scaled,
    threshold,
)

if TYPE_CHECKING:
    from apportion.proofs.freezing import Cut

__all__ = ["capacity_names", "counted", "stated"]


def counted(job: GapFillingJob, horizon: float, idle: int, shift: int) -> list[tuple[int, int]]:
    """Return (count, worth) for every node count the job may get.

    On ``n`` nodes, of which it has ``c`` now, a job is worth ``weight (horizon rate(n) - rate(c) stall)``,
    stall being ``rescale_up_s`` for n > c, ``rescale_down_s`` for n < c, and rate(c) counting as 0 below
    `min_nodes`. Doubles are whole numbers over powers of 2, so all of it is one whole number over a width of
    the curve, one of the piece that holds c, and a power of 2.
    """
    current = len(job.current_nodes)
    rates, rate_bits = _wholes(job.scaling.rate)
    pieces = list(_pieces(job.scaling.nodes, rates))
    running, as_int64 = 0, 1
    for (low, high), (at_low, at_high) in pieces:
        if low <= current <= high and current >= job.min_nodes:
            as_int64 = max(high - low, 1)
            running = at_low * as_int64 + (at_high - at_low) * (current - low)
    (weight,), weight_bits = _wholes([job.weight])
    (span, down, up), second_bits = _wholes([horizon, job.rescale_down_s, job.rescale_up_s])
    bits = rate_bits + weight_bits + second_bits - shift
    raised, lowered = max(-bits, 0), max(bits, 0)
    admissible = set(_counts(job, idle))
    found: dict[int, int] = {}
    for (low, high), (at_low, at_high) in pieces:
        width = max(high - low, 1)
        below = width * as_int64 << lowered
        step = weight * span * (at_high - at_low) * as_int64 << raised
        first = weight * span * at_low * width * as_int64 << raised
        lost = {
            side: weight * running * stall * width << raised for side, stall in ((-1, down), (0, 0), (1, up))
        }
        for count in range(low, min(high, idle) + 1):
            if count in admissible:
                side = (count > current) - (count < current)
                found[count] = -(-(first + step * (count - low) - lost[side]) // below)
    return sorted(found.items())


def _wholes(numbers: Sequence[float]) -> tuple[list[int], int]:
    """Return whole numbers and the bits b by which the given ones are these over ``2**b``."""
    ratios = [number.as_integer_ratio() for number in numbers]
    bits = max(below.bit_length() for _, below in ratios) - 1
    return [above << bits - below.bit_length() + 1 for above, below in ratios], bits


def _pieces(nodes: Sequence[int], rates: Sequence[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the linear pieces of the throughput curve: their ends and the rates there."""
    curve = list(zip(nodes, rates, strict=True))
    if len(curve) == 1:
        yield (curve[0][0], curve[0][0]), (curve[0][1], curve[0][1])
    for (low, at_low), (high, at_high) in pairwise(curve):
        yield (low, high), (at_low, at_high)


def _counts(job: GapFillingJob, idle: int) -> Iterator[int]:
    forbidden = set(job.forbidden_counts)
    for count in (0, *range(max(job.min_nodes, 1), min(job.max_nodes, idle) + 1)):
        if count not in forbidden and job.pinned_count in (None, count):
            yield count


def stated(instance: Any, proof: Proof) -> IntegerMenus:
    """Return the menus of an instance under a claim, in the unit that the proof names.

    Raises
    ------
    MalformedProof
        If the proof asks for a refinement that this kind of instance does not have.
    TypeError
        If this is no instance that a proof can be about.
    """
    if is_tenanted(instance) and not isinstance(instance, MatchingInstance):
        return _of_tenants(instance, proof)
    return _of(instance).menus(instance, proof)


def capacity_names(instance: Any, proof: Proof) -> list[str]:
    """Return the name of every capacity as multipliers name it; a machine's is that of its pool."""
    if is_tenanted(instance) and not isinstance(instance, MatchingInstance):
        limits = ledger_of(kind_of(instance), instance).limits
        if not isinstance(instance, FreezingInstance):
            return list(limits)
        return [*limits, *_freezing_names(instance, proof)[-len(proof.cuts) :]] if proof.cuts else [*limits]
    return _of(instance).names(instance, proof)


def _plain(proof: Proof, *, cuts: bool = False, apart: bool = False) -> None:
    if proof.cuts and not cuts:
        raise MalformedProof("cuts belong to layer freezing and to makespans")
    if proof.apart and not apart:
        raise MalformedProof("apart belongs to matchings")


def _worths(
    values: np.ndarray[Any, np.dtype[np.float64]], claim: Claim, shift: int, *, maximizes: bool
) -> IntegerArray:
    if claim.bound is None:
        return np.zeros(values.size, dtype=np.int64)
    return rounded_up(values if maximizes else -values, shift)


def _of_arrays(model: MultipleChoiceKnapsack, proof: Proof) -> IntegerMenus:
    _plain(proof)
    maximizes = model.sense == "maximize"
    return integer_menus(
        _worths(model.values, proof.claim, proof.shift, maximizes=maximizes),
        model.uses,
        np.diff(model.offsets),
        model.capacities.tolist(),
        threshold(proof.claim, proof.shift, maximizes),
        ~model.required,
    )


def _of_knapsack(instance: MultipleChoiceKnapsackInstance, proof: Proof) -> IntegerMenus:
    _plain(proof)
    maximizes = instance.sense == "maximize"
    column = {name: k for k, name in enumerate(instance.capacities)}
    values: list[float] = []
    sizes, rows, columns, amounts = [], [], [], []
    for job in instance.jobs:
        before = len(values)
        for option in job.options:
            if option.id in job.forbidden or job.pinned not in (None, option.id):
                continue
            for name, use in option.uses.items():
                rows.append(len(values))
                columns.append(column[name])
                amounts.append(use)
            values.append(option.value)
        sizes.append(len(values) - before)
    uses = np.zeros((len(values), len(column)), dtype=np.int64)
    uses[rows, columns] = amounts
    return integer_menus(
        _worths(np.array(values, dtype=np.float64), proof.claim, proof.shift, maximizes=maximizes),
        uses,
        sizes,
        list(instance.capacities.values()),
        threshold(proof.claim, proof.shift, maximizes),
        np.array([not job.required and job.pinned is None for job in instance.jobs], dtype=np.bool_),
    )


def _of_gap_filling(instance: GapFillingInstance, proof: Proof) -> IntegerMenus:

    _plain(proof)
    menus = [counted(job, instance.horizon_s, len(instance.nodes), proof.shift) for job in instance.jobs]
    counts = [count for menu in menus for count, _ in menu]
    worths = [0 if proof.claim.bound is None else worth for menu in menus for _, worth in menu]
    return integer_menus(
        as_int64(worths),
        np.array(counts, dtype=np.int64).reshape(-1, 1),
        [len(menu) for menu in menus],
        [len(instance.nodes)],
        threshold(proof.claim, proof.shift, True),
    )


def _of_freezing(instance: FreezingInstance, proof: Proof) -> IntegerMenus:
    from apportion.proofs.freezing import configured

    _plain(proof, cuts=True)
    maximizes = instance.power > 0
    values, uses, sizes, capacities = configured(instance, proof.cuts)
    return integer_menus(
        _worths(values, proof.claim, proof.shift, maximizes=maximizes),
        uses,
        sizes,
        capacities,
        threshold(proof.claim, proof.shift, maximizes),
    )


def _of_tenants(instance: Any, proof: Proof) -> IntegerMenus:
    """State an instance with tenants, no matching: what its jobs may get, under every limit of the ledger."""
    on_nodes = isinstance(instance, FreezingInstance)
    _plain(proof, cuts=on_nodes)
    from apportion.proofs.freezing import MOST_USES

    further = _freezing_cuts(instance, proof) if on_nodes else []
    kind = kind_of(instance)
    ledger = ledger_of(kind, instance)
    maximizes = kind.maximizes(instance)
    sign = 1 if maximizes else -1
    column = {name: k for k, name in enumerate(ledger.limits)}
    sizes = [len(offers) for offers in ledger.offers.values()]
    if len(further) * sum(sizes) > MOST_USES:
        raise MalformedProof(f"more than {MOST_USES} uses of cuts")
    worths: list[int] = []
    uses = np.zeros((sum(sizes), len(column) + len(further)), dtype=np.int64)
    for position, (job_id, offers) in enumerate(ledger.offers.items()):
        for place, offer in enumerate(offers):
            for gpu_type, gpus in offer.uses.items():
                for k, cut in enumerate(further):
                    uses[len(worths), len(column) + k] += cut.use(position, gpu_type, gpus)
            for name, use in ledger.uses(job_id, place).items():
                uses[len(worths), column[name]] = use
            free = proof.claim.bound is None
            worths.append(0 if free else math.ceil(scaled(sign * Fraction(offer.value), proof.shift)))
    return integer_menus(
        as_int64(worths),
        uses,
        sizes,
        [*ledger.limits.values(), *(cut.room for cut in further)],
        threshold(proof.claim, proof.shift, maximizes),
    )


def _of_matching(instance: MatchingInstance, proof: Proof) -> IntegerMenus:
    from apportion.proofs.matching import assigned

    _plain(proof, cuts=True, apart=True)
    return assigned(instance, proof)


def _freezing_cuts(instance: FreezingInstance, proof: Proof) -> list[Cut]:
    from apportion.proofs.freezing import cuts_of

    return cuts_of(instance, proof.cuts)


def _of_assignment(model: Assignment, proof: Proof) -> IntegerMenus:
    from apportion.proofs.assignment import placed

    _plain(proof)
    return placed(model, proof)


def _freezing_names(instance: FreezingInstance, proof: Proof) -> list[str]:
    from apportion.proofs.freezing import names_of

    return names_of(instance, proof.cuts)


def _matching_names(instance: MatchingInstance, proof: Proof) -> list[str]:
    from apportion.proofs.matching import names_of

    return names_of(instance, proof)


def _assignment_names(model: Assignment, proof: Proof) -> list[str]:
    from apportion.proofs.assignment import names_of

    return names_of(model, proof)


class _Stating(NamedTuple):
    """How instances of one type are stated, and how multipliers name their capacities."""

    menus: Callable[[Any, Proof], IntegerMenus]
    names: Callable[[Any, Proof], list[str]]


_STATING: Mapping[type, _Stating] = MappingProxyType(
    {
        MultipleChoiceKnapsack: _Stating(_of_arrays, lambda model, _: list(model.capacity_names)),
        MultipleChoiceKnapsackInstance: _Stating(_of_knapsack, lambda one, _: list(one.capacities)),
        GapFillingInstance: _Stating(_of_gap_filling, lambda one, _: ["idle_nodes"]),
        FreezingInstance: _Stating(_of_freezing, _freezing_names),
        MatchingInstance: _Stating(_of_matching, _matching_names),
        Assignment: _Stating(_of_assignment, _assignment_names),
    }
)


def _of(instance: Any) -> _Stating:
    stating = _STATING.get(type(instance))
    if stating is None:
        raise TypeError(f"there are no proofs about a {type(instance).__name__}")
    return stating
