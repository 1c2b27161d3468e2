"""Write the proof of a claim: its unit, its multipliers as whole numbers, and an order of jobs.

Nothing here needs trust; whether the proof shows its claim, only the checker says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.instances import FreezingInstance, MatchingInstance
from apportion.instances.freezing.nodes import NodeWeights
from apportion.outcome import SearchTree
from apportion.proofs.certificate import LARGEST_VECTORS, Claim, Cut, Proof, instance_digest
from apportion.proofs.menus import Menus, scaled
from apportion.proofs.reducing import Root, rooted
from apportion.proofs.stating import capacity_names, stated, threshold
from apportion.solving.certify import outward
from apportion.solving.prices import FloatMenus, descend, fitted_to_depths
from apportion.solving.subject import Subject

__all__ = ["proof_of"]

_BITS = 54
"""Bits of all worths together: with what prices pay they stay below the 60 of 64-bit walks."""
_TIME_BITS = 40
_PRICE_BITS = 54
_COARSEST_PRICE = 16
"""Bits that the least price keeps."""
_LARGEST_SHIFT = 1100
_NEAR = 9e-10
"""How far beyond the objective the proven bound may lie, relative to it: "optimal" means a gap of 1e-9."""
_APART = 40_000
"""Machines times jobs up to which pools are decided machine by machine."""
_FRACTIONS = 9
_LARGEST_NODE = 64
"""GPUs of a node up to which node weights are tried that no multiplier names."""
_DEPTHS = (0.6, 0.3, 0.15)


def proof_of(
    instance: Subject,
    objective: Fraction | None,
    *,
    maximizes: bool,
    multipliers: Mapping[str, float] | None = None,
    exactly: bool = True,
    thorough: bool = True,
    tree: SearchTree | None = None,
) -> Proof:
    """Return a proof that no plan is better than an objective, or that there is no plan.

    Parameters
    ----------
    instance
        What it is about.
    objective
        The exact objective of a plan; ``None`` to show that there is none. Where worths are no whole numbers
        of the unit, or not `exactly`, the claim is weaker by 9e-10 of the objective.
    maximizes
        Sense of the instance.
    multipliers
        By capacity, to begin with.
    exactly
        Whether the claim is the objective itself where that can be said in whole numbers.
    thorough
        Whether to look for more prices than those near the multipliers, which makes deep walks short.
    tree
        The prices and the order of the search that came to the claim, if it has told them.
    """
    claim = Claim("infeasible") if objective is None else _claim(objective, Fraction(0), maximizes)
    draft = Proof(
        instance_digest(instance), claim, 0, (), (), _apart(instance), _cuts(instance, multipliers, thorough)
    )
    if objective is not None and isinstance(instance, MatchingInstance) and instance.objective == "makespan":
        shift, exact = _unit_of_time(instance)
        draft = replace(draft, shift=shift)
        menus = None
    else:
        draft, menus, exact = _in_a_unit(instance, draft)
    if objective is not None and not (exact and exactly):
        margin = Fraction(_NEAR) * max(abs(objective), Fraction(1e-9))
        draft = replace(draft, claim=_claim(objective, margin, maximizes))
        menus = (
            None
            if menus is None
            else replace(menus, threshold=threshold(draft.claim, draft.shift, maximizes))
        )
    begin = _begin(instance, draft, multipliers)
    menus = stated(instance, draft) if menus is None else menus
    if thorough and tree is not None and tree.prices.shape[1] == len(menus.capacities):
        return _restated(draft, menus, tree)
    return _priced(draft, menus, begin, thorough)


def _claim(objective: Fraction, margin: Fraction, maximizes: bool) -> Claim:
    beyond = objective + margin if maximizes else objective - margin
    return Claim("no_better_plan", outward(beyond, upper=maximizes))


def _apart(instance: Subject) -> tuple[int, ...]:
    """Return the pools to be decided machine by machine: without gangs, and where it makes a difference."""
    if not isinstance(instance, MatchingInstance):
        return ()
    small = sum(pool.count for pool in instance.machines) * len(instance.jobs) <= _APART
    found = []
    for number, pool in enumerate(instance.machines):
        entries = [job.on[pool.id] for job in instance.jobs if pool.id in job.on]
        mixed = pool.capacity is not None and len({entry.uses for entry in entries} - {0}) > 1
        gangs = any(entry.gpus > 1 for entry in entries)
        if small and pool.count > 1 and not gangs and (mixed or instance.objective == "makespan"):
            found.append(number)
    return tuple(found)


def _cuts(instance: Subject, multipliers: Mapping[str, float] | None, thorough: bool) -> tuple[Cut, ...]:
    """Return the node weights that multipliers name and, thoroughly, a few more for every type with nodes.

    Those count how often a k-th of a node goes into a job, rounded down, and the jobs larger than half a
    node.
    """
    if not isinstance(instance, FreezingInstance):
        return ()
    named = [NodeWeights.named(instance, name) for name in multipliers or () if name not in instance.gpus]
    found = {(one.gpu_type, one.weights) for one in named if one is not None}
    cuts = [one for one in named if one is not None]
    for gpu_type, size in instance.gpus_per_node.items() if thorough else ():
        drawn = [
            [gpus * k // size for gpus in range(1, size + 1)] for k in range(2, min(size, _FRACTIONS) + 1)
        ]
        drawn.append([int(2 * gpus > size) for gpus in range(1, size + 1)])
        for weights in map(tuple, drawn):
            if (gpu_type, weights) not in found and size <= _LARGEST_NODE:
                found.add((gpu_type, weights))
                cuts.append(NodeWeights(gpu_type, weights))
    return tuple({"gpu_type": one.gpu_type, "node_weights": list(one.weights)} for one in cuts)


def _in_a_unit(instance: Subject, draft: Proof) -> tuple[Proof, Menus, bool]:
    """Return the draft in a unit that gives all worths about 54 bits, its menus, and if all are whole."""
    menus, total = _totalled(instance, draft)
    bound = draft.claim.bound
    if bound is None:
        return draft, menus, True
    size = menus.worths.size
    while total < size << 20:  # crumbs that rounding left: look again, closer
        if draft.shift >= _LARGEST_SHIFT:
            return draft, menus, True
        draft = replace(draft, shift=min(draft.shift + 140, _LARGEST_SHIFT))
        menus, total = _totalled(instance, draft)
    draft = replace(draft, shift=draft.shift + _BITS - total.bit_length())
    menus, _ = _totalled(instance, draft)
    if bool((menus.worths % 256 == 0).all()):
        return draft, menus, True
    needed = math.ceil(math.log2(size) - math.log2(_NEAR * max(abs(bound), 1e-9))) + 2
    if needed > draft.shift:
        draft = replace(draft, shift=min(needed, _LARGEST_SHIFT))
        menus = stated(instance, draft)
    return draft, menus, False


def _totalled(instance: Subject, draft: Proof) -> tuple[Menus, int]:
    """Return the menus in the unit of the draft, and the sum of the amounts of their worths."""
    menus = stated(instance, draft)
    amounts = np.abs(menus.worths)
    return menus, int(amounts.sum() if amounts.dtype == object else amounts.astype(np.float64).sum())


def _unit_of_time(instance: MatchingInstance) -> tuple[int, bool]:
    """Return a shift for times that makes them whole, if together they take at most 44 bits then."""
    times = [entry.time_s or 0.0 for job in instance.jobs for entry in job.on.values()]
    total = math.fsum(times)
    if total == 0:
        return 0, True
    whole = max(time.as_integer_ratio()[1].bit_length() - 1 for time in times)
    if whole + math.log2(total) <= _TIME_BITS + 4:
        return whole, True
    near = _NEAR * min((time for time in times if time), default=1.0)
    close = math.ceil(math.log2(len(times)) - math.log2(near))
    return min(_LARGEST_SHIFT, max(_TIME_BITS - math.ceil(math.log2(total)), close)), False


def _begin(
    instance: Subject, draft: Proof, multipliers: Mapping[str, float] | None
) -> NDArray[np.float64] | None:
    """Return given multipliers by capacity, in units of worth; ``None`` where they name none."""
    if multipliers is None or draft.claim.bound is None:
        return None
    names = capacity_names(instance, draft)
    if "" in names or not any(name in multipliers for name in names):
        return None
    known = [multipliers.get(name, 0.0) for name in names]
    with np.errstate(over="ignore", under="ignore"):
        begin = np.ldexp(np.array(known, dtype=np.float64), draft.shift)
    return begin if np.isfinite(begin).all() else None


def _restated(draft: Proof, menus: Menus, tree: SearchTree) -> Proof:
    """Return the draft with the prices and the order of a search, in the unit of the draft."""
    free = not menus.worths.any()
    vectors = []
    for prices in tree.prices.tolist():
        if free:
            floats = np.array(prices, dtype=np.float64)
            vectors.append(_whole(floats * _unit_of_price(menus, floats)))
        else:
            vectors.append(tuple(round(scaled(price * tree.unit, draft.shift)) for price in prices))
    unique = tuple(dict.fromkeys(vector for vector in vectors if any(vector)))[:LARGEST_VECTORS]
    order = [job for job in tree.order.tolist() if 0 <= job < menus.num_jobs]
    return replace(draft, prices=unique, order=tuple(dict.fromkeys(order)))


def _priced(draft: Proof, menus: Menus, begin: NDArray[np.float64] | None, thorough: bool) -> Proof:
    """Return the draft with vectors of prices and an order of jobs."""
    free = not menus.worths.any()
    first = [] if begin is None else [_whole(begin)]
    root = rooted(menus, first)
    if root.closed or not len(menus.capacities) or not root.jobs.size:
        return replace(draft, prices=tuple(first))
    if first and not thorough:
        return replace(draft, prices=tuple(first), order=_named(root))
    floats = _floats(root)
    scale = float(np.abs(floats.worths).max()) if not free else 1.0
    start = begin if begin is not None else _even(floats, 1.0 if free else scale)
    target = -0.05 if free else _target(root)
    found = descend(floats, start, target, rounds=150 if thorough else 40, fixed=free)
    if not free:
        vectors = [*first, *map(_whole, found)]
    else:
        vectors = [_whole(prices * _unit_of_price(menus, prices)) for prices in found]
    root = rooted(menus, vectors)
    if root.closed or not root.jobs.size:
        return replace(draft, prices=tuple(vectors))
    if not thorough:
        return replace(draft, prices=tuple(vectors), order=_named(root))
    floats = _floats(root)
    order = _order(root)
    if len(menus.capacities) > 1:
        near = descend(floats, found[0], target if free else _target(root), rounds=100, fixed=free)
        deep = fitted_to_depths(floats, order, near[0], _DEPTHS)
        for prices in [*near, *deep]:
            vectors.append(_whole(prices * _unit_of_price(menus, prices) if free else prices))
    unique = tuple(dict.fromkeys(vector for vector in vectors if any(vector)))
    return replace(draft, prices=unique, order=tuple(root.jobs[order].tolist()))


def _named(root: Root) -> tuple[int, ...]:
    return tuple(root.jobs[_order(root)].tolist())


def _target(root: Root) -> float:
    return float(root.menus.threshold)


def _even(floats: FloatMenus, paid: float) -> NDArray[np.float64]:
    """Return prices at which every capacity costs the same."""
    return paid / max(1, floats.capacities.size) / np.maximum(floats.capacities, 1.0)


def _unit_of_price(menus: Menus, prices: NDArray[np.float64]) -> float:
    """Return the power of two that brings what prices pay for everything to 54 bits."""
    needs = menus.uses.astype(np.float64).sum(axis=0) + menus.capacities.astype(np.float64)
    paid = float(needs @ prices)
    return 2.0 ** (_PRICE_BITS - math.ceil(math.log2(paid))) if paid > 0 else 1.0


def _whole(prices: NDArray[np.float64]) -> tuple[int, ...]:
    return tuple(round(price) if math.isfinite(price) else 0 for price in prices.tolist())


def _floats(root: Root) -> FloatMenus:
    menus = root.menus
    return FloatMenus(
        menus.worths.astype(np.float64),
        menus.uses.astype(np.float64),
        menus.offsets,
        menus.capacities.astype(np.float64),
    )


def _order(root: Root) -> NDArray[np.int64]:
    """Return the jobs left, first those whose best option wins by most: they branch least."""
    losses = root.losses[1:].max(axis=0) if root.losses.shape[0] > 1 else root.losses[0]
    second = [
        float(np.partition(losses[start:end], 1)[1])
        for start, end in zip(root.menus.offsets[:-1].tolist(), root.menus.offsets[1:].tolist(), strict=True)
    ]
    return np.argsort(-np.array(second), kind="stable")
