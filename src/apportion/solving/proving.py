"""Write the proof of a claim: its unit, its multipliers as whole numbers, and an order of jobs.

Nothing here needs trust: whether the proof shows its claim, only the checker says. Multipliers are those of
the search and of linear relaxations: of what the search leaves, and of the jobs that are open deep in a walk.
They are rounded to whole numbers, and any numbers >= 0 give a valid bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from apportion.core.errors import BackendUnavailable
from apportion.core.outcome import Cover, SearchTree, meets
from apportion.instances.columns import Columns
from apportion.models import MultipleChoiceKnapsack
from apportion.models.linear import LinearModel, LinearModelBuilder
from apportion.proofs.certificate import LARGEST_ROW, LARGEST_VECTORS, Claim, Cut, Proof
from apportion.proofs.integer_menus import IntegerArray, IntegerMenus, as_int64, scaled, threshold
from apportion.proofs.reducing import Root, rooted
from apportion.proofs.relaxed_rows import (
    LARGEST_TABLES,
    Shared,
    cells,
    open_share,
    price_names,
    shared,
    shown_by,
    slacks_of_options,
)
from apportion.proofs.stating import capacity_names, stated
from apportion.solvers.general.highs_call import call
from apportion.solvers.knapsack.dual import multiplier
from apportion.solving.judge import outward
from apportion.solving.proof_shapes import (
    LARGEST_SHIFT,
    NEAR,
    apart_in,
    claim_at,
    cuts_of,
    divided_capacities,
    timed_cuts_of,
    unit_of_time,
)

__all__ = ["draft_of"]


_BITS = 54
"""Bits of all worths together: with what prices pay they stay below the 60 of 64-bit walks."""
_PRICE_BITS = 54
_COARSEST_PRICE = 16
"""Bits that the least price keeps."""
_DOUBLE_BITS, _LARGEST_BITS = 53, 1000
"""Bits of a double, and of the largest price of shares, whose sums are Python's integers."""
_DEPTHS = (0.6, 0.3, 0.15)


def draft_of(
    given: Columns,
    objective: Fraction | None,
    *,
    maximizes: bool,
    multipliers: Mapping[str, float] | NDArray[np.float64] | None = None,
    exactly: bool = True,
    thorough: bool = True,
    tree: SearchTree | None = None,
    row_multipliers: NDArray[np.float64] | None = None,
    seconds: float | None = None,
) -> Proof:
    """Return a proof that no plan is better than an objective, or that there is none, yet without a digest.

    Parameters
    ----------
    given
        What it is about.
    objective
        The exact objective of a plan; ``None`` to show that there is none. Where worths are no whole numbers
        of the unit, or not `exactly`, the claim is weaker by 9e-10 of the objective.
    maximizes
        Sense of the instance.
    multipliers
        By capacity, to begin with; of bare menus, whose capacities may have no names, float64 [capacities].
    exactly
        Whether the claim is the objective itself where that can be said in whole numbers.
    thorough
        Whether to look for more prices than those near the multipliers, which makes deep walks short.
    tree
        The prices and the order of the search that came to the claim, if it has told them.
    row_multipliers
        float64 [jobs], to be maximised: those of a search that relaxed the rows of jobs.
    seconds
        What relaxations may take together, ``None`` for no limit.
    """
    claim, end = Claim("infeasible"), time.perf_counter() + (math.inf if seconds is None else seconds)
    if objective is not None:
        claim = claim_at(objective, exactly=True, maximizes=maximizes)
    named = {} if multipliers is None or isinstance(multipliers, np.ndarray) else multipliers
    empty = Proof("", claim, 0, ())
    if (sharing := shared(given)) is not None:
        return _of_shares(given, sharing, empty, objective, named)
    apart, cuts = apart_in(given), cuts_of(given, named, thorough)
    draft = replace(empty, apart=apart, cuts=cuts)
    unit = None if objective is None else unit_of_time(given)
    if unit is not None:
        draft, menus, exact = replace(draft, shift=unit.shift), None, unit.exact
    else:
        draft, menus, exact = _in_a_unit(given, draft, maximizes)
    if objective is not None and not (exact and exactly):
        draft = replace(draft, claim=claim_at(objective, exactly=False, maximizes=maximizes))
        menus = (
            None
            if menus is None
            else replace(menus, threshold=threshold(draft.claim, draft.shift, maximizes))
        )
    if thorough and unit is not None:
        draft = replace(draft, cuts=(*draft.cuts, *timed_cuts_of(given, draft)))
    begin = _begin(given, draft, multipliers)
    menus = stated(given, draft) if menus is None else menus
    if thorough and tree is not None and tree.covers and given.pool_use is None:
        draft = replace(draft, cuts=(*draft.cuts, *map(_cut, tree.covers)))
        menus = stated(given, draft)
    if thorough and tree is not None and tree.prices.shape[1] == len(menus.capacities):
        return _restated(draft, menus, tree)
    if thorough and row_multipliers is not None and row_multipliers.size == menus.num_jobs:
        return _relaxed(draft, menus, begin, row_multipliers, end)
    first = [] if begin is None else [begin]
    if thorough and menus.worths.any() and given.pool_use is None and not given.nodes:
        draft, menus, first = _with_divided(given, draft, menus, first, end)
    return _priced(draft, menus, first, thorough, end)


def _with_divided(
    given: Columns, draft: Proof, menus: IntegerMenus, first: list[NDArray[np.float64]], end: float
) -> tuple[Proof, IntegerMenus, list[NDArray[np.float64]]]:
    """Return the draft with divided capacities that have a price in the relaxation, and these prices last.

    The relaxation is that of the options which `first` leaves: its bound holds of them, and the checker drops
    the others by the same prices.
    """
    divided = divided_capacities(given)
    wider = replace(draft, cuts=(*draft.cuts, *divided))
    within = stated(given, wider) if divided else menus
    padded = [np.append(prices, np.zeros(len(divided))) for prices in first]
    root = rooted(within, [_whole(one) for one in padded])
    prices = None if root.closed else _relaxation_prices(root.menus, end)
    if prices is None:
        return draft, menus, first
    kept = np.append(np.ones(len(menus.capacities), dtype=np.bool_), prices[len(menus.capacities) :] > 0)
    priced = tuple(
        cut for cut, own in zip(divided, kept[len(menus.capacities) :].tolist(), strict=True) if own
    )
    wider = replace(draft, cuts=(*draft.cuts, *priced))
    return wider, stated(given, wider), [*(one[kept] for one in padded), prices[kept]]


def _relaxation_prices(menus: IntegerMenus, end: float) -> NDArray[np.float64] | None:
    """Return what the linear relaxation of menus pays for capacities, ``None`` where nobody says by the end.

    That of one capacity is our own dual's; where nothing keeps the capacities, it is the ray that says so.
    """
    jobs, left = menus.num_jobs, end - time.perf_counter()
    if not jobs or not len(menus.capacities) or left <= 0.0:
        return None
    settings: dict[str, object] = {"threads": 1, "presolve": "off", "time_limit": left}
    try:
        unit = 2.0 ** math.frexp(float(np.abs(menus.worths).max(initial=1)))[1]
        if len(menus.capacities) == 1 and menus.worths.any():
            values = menus.worths.astype(np.float64) / unit
            with suppress(ValueError):  # beyond 64 bits, or not even the least uses fit
                rooms = menus.capacities
                model = MultipleChoiceKnapsack.from_arrays(values, menus.uses, menus.offsets, rooms)
                return np.array([multiplier(model)[0] * unit])
        said = call(_relaxation(menus, unit), settings)
    except (BackendUnavailable, OverflowError):
        return None
    if said.duals is not None and menus.worths.any():
        return np.maximum(said.duals[jobs:], 0.0) * unit
    prices = said.ray if said.duals is None else said.duals
    if prices is None:
        return None
    prices = np.abs(prices[jobs:])
    return prices * _unit_of_price(menus, prices)


def _relaxation(menus: IntegerMenus, unit: float) -> LinearModel:
    """Return the linear relaxation of menus, worths in a unit.

    Of menus worth nothing it is the one that fills capacities most evenly: the least z such that jobs use at
    most z times each.
    """
    m, rooms = LinearModelBuilder("maximize"), menus.capacities.astype(np.float64)
    x = m.continuous("x", (menus.worths.size,))
    m.between("one_option", 1.0, x.segment_sum(menus.offsets), 1.0)
    used = csr_array(menus.uses.astype(np.float64).T) @ x
    if menus.worths.any():
        m.at_most("capacity", used, rooms)
        m.objective(x * (menus.worths.astype(np.float64) / unit))
    else:
        z = m.continuous("z", (1,))
        m.at_most("capacity", used, z * rooms)
        m.objective(-z)
    return m.build()


def _of_shares(
    given: Columns, sharing: Shared, draft: Proof, objective: Fraction | None, named: Mapping[str, float]
) -> Proof:
    """Return a proof of prices alone: of the objective, or of what they show where that meets it."""
    if objective is None:
        return draft
    known = [named.get(name, 0.0) for name in price_names(given)]
    sizes = [math.frexp(price)[1] for price in known if price > 0]
    vectors: tuple[tuple[int, ...], ...] = ()
    if sizes:  # every bit of every double, if the largest is not beyond what the format holds
        bits = min(_DOUBLE_BITS - min(sizes), _LARGEST_BITS - max(sizes))
        vectors = (tuple(round(scaled(price, bits)) for price in known),)
    exact = replace(draft, prices=vectors)
    if not open_share(sharing, exact):
        return exact
    shown = outward(shown_by(sharing, vectors), upper=False)
    return replace(exact, claim=Claim("no_better_plan", shown)) if meets(float(objective), shown) else exact


def _in_a_unit(given: Columns, draft: Proof, maximizes: bool) -> tuple[Proof, IntegerMenus, bool]:
    """Return the draft in a unit that gives all worths about 54 bits, its menus, and if all are whole."""
    bound = draft.claim.bound
    if bound is None:
        return draft, stated(given, draft), True
    draft = replace(draft, shift=_first_shift(bound))
    menus, total = _totalled(given, draft)
    size = menus.worths.size
    while total < size << 20:  # crumbs that rounding left: look again, closer
        if draft.shift >= LARGEST_SHIFT:
            return draft, menus, True
        draft = replace(draft, shift=min(draft.shift + 140, LARGEST_SHIFT))
        menus, total = _totalled(given, draft)
    unit = draft.shift + _BITS - total.bit_length()
    fine, lost = menus.worths, draft.shift - unit
    draft, menus = _in_unit(given, draft, menus, unit, maximizes)
    if bool((menus.worths % 256 == 0).all()) and _divides(fine, lost):
        return draft, menus, True
    needed = math.ceil(math.log2(size) - math.log2(NEAR * max(abs(bound), 1e-9))) + 2
    if needed > draft.shift:
        draft = replace(draft, shift=min(needed, LARGEST_SHIFT))
        menus = stated(given, draft)
    return draft, menus, False


def _divides(worths: IntegerArray, bits: int) -> bool:
    """Return whether whole numbers are multiples of a power of two: a coarser unit loses nothing of them."""
    if bits <= 0:
        return True
    if worths.dtype != object and bits >= 62:
        return not worths.any()
    return bool((worths & ((1 << bits) - 1) == 0).all())


def _first_shift(bound: float) -> int:
    """Return a unit in which the bound has 54 bits: all worths together rarely fewer or too many."""
    return min(max(_BITS - math.frexp(bound)[1], 0), LARGEST_SHIFT) if bound else 0


def _in_unit(
    given: Columns, draft: Proof, menus: IntegerMenus, shift: int, maximizes: bool
) -> tuple[Proof, IntegerMenus]:
    """Return draft and menus in another unit; a coarser one needs no rounding of values anew.

    Rounded up twice is rounded up once: ceil(ceil(x 2^a) / 2^b) = ceil(x 2^(a - b)) for whole b >= 0.
    """
    finer, draft = draft.shift, replace(draft, shift=shift)
    if shift > finer:
        return draft, stated(given, draft)
    worths = -((-menus.worths) >> (finer - shift))
    if worths.dtype == object:
        worths = as_int64(worths.tolist())
    return draft, replace(menus, worths=worths, threshold=threshold(draft.claim, shift, maximizes))


def _totalled(given: Columns, draft: Proof) -> tuple[IntegerMenus, int]:
    """Return the menus in the unit of the draft, and the sum of the amounts of their worths."""
    menus = stated(given, draft)
    amounts = np.abs(menus.worths)
    return menus, int(amounts.sum() if amounts.dtype == object else amounts.astype(np.float64).sum())


def _begin(
    given: Columns, draft: Proof, multipliers: Mapping[str, float] | NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """Return given multipliers by capacity, in units of worth; ``None`` where they name none."""
    if multipliers is None or draft.claim.bound is None:
        return None
    if isinstance(multipliers, np.ndarray):
        known = multipliers.tolist()
    else:
        names = capacity_names(given, draft)
        if "" in names or not any(name in multipliers for name in names):
            return None
        known = [multipliers.get(name, 0.0) for name in names]
    with np.errstate(over="ignore", under="ignore"):
        begin = np.ldexp(np.array(known, dtype=np.float64), draft.shift)
    return begin if np.isfinite(begin).all() else None


def _cut(cover: Cover) -> Cut:
    """Return a cover as a proof says it."""
    thresholds = {str(job): use for job, use in cover.thresholds.items()}
    return {"capacity": cover.capacity, "thresholds": thresholds, "others": cover.others}


def _restated(draft: Proof, menus: IntegerMenus, tree: SearchTree) -> Proof:
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


def _relaxed(
    draft: Proof,
    menus: IntegerMenus,
    begin: NDArray[np.float64] | None,
    multipliers: NDArray[np.float64],
    end: float,
) -> Proof:
    """Return the draft with a vector of rows, and first the jobs whose second option is nearly too bad."""
    first = () if begin is None else (_whole(begin),)
    shift = draft.shift if menus.worths.any() else 0  # where nothing is worth anything any scale will do
    numbers = tuple(round(scaled(number, shift)) for number in multipliers.tolist())
    root = rooted(menus, first, [numbers]) if all(abs(number) < LARGEST_ROW for number in numbers) else None
    # no file holds greater numbers, and no check makes larger tables of rows
    if root is None or (not root.closed and cells(root.menus) > LARGEST_TABLES):
        return _priced(draft, menus, [] if begin is None else [begin], True, end)
    draft = replace(draft, prices=first, rows=(numbers,))
    if root.closed or not root.jobs.size:
        return draft
    own, starts = root.rows[0].tolist(), root.menus.offsets[:-1].tolist()
    slacks = slacks_of_options(root.menus, own, root.losses[0], int(root.slack[0])).astype(np.float64)
    second = [np.partition(one, -2)[-2] for one in np.split(slacks, starts[1:])]
    return replace(draft, order=tuple(root.jobs[np.argsort(second, kind="stable")].tolist()))


def _priced(
    draft: Proof,
    menus: IntegerMenus,
    known: list[NDArray[np.float64]],
    thorough: bool,
    end: float,
) -> Proof:
    """Return the draft with vectors of prices, those known first, and an order of jobs."""
    vectors = [_whole(prices) for prices in known]
    root = rooted(menus, vectors)
    for _ in range(2 if thorough or not known else 0):  # the second is that of what the first leaves
        if root.closed or not root.jobs.size:
            break
        if (prices := _relaxation_prices(root.menus, end)) is not None:
            vectors.append(_whole(prices))
            root = rooted(menus, vectors)
    unique = tuple(dict.fromkeys(vector for vector in vectors if any(vector)))
    draft = replace(draft, prices=unique)
    if root.closed or not root.jobs.size:
        return draft
    order = _order(root)
    if thorough and vectors and len(menus.capacities) > 1:
        deep = [prices for prices in _of_depths(root, order, end) if any(prices)]
        draft = replace(draft, prices=tuple(dict.fromkeys((*unique, *deep))))
    return replace(draft, order=tuple(root.jobs[order].tolist()))


def _of_depths(root: Root, order: NDArray[np.int64], end: float) -> Iterator[tuple[int, ...]]:
    """Yield prices for the last jobs of an order, once for each share of them, the others at their best."""
    menus, losses = root.menus, root.losses[-1]
    owner = np.repeat(np.arange(menus.num_jobs), np.diff(menus.offsets))
    hits = np.flatnonzero(losses == 0)  # a job's least loss is 0
    rows = hits[np.searchsorted(owner[hits], np.arange(menus.num_jobs))]
    for share in _DEPTHS:
        still = np.zeros(menus.num_jobs, dtype=np.bool_)
        still[order[order.size - max(1, round(share * order.size)) :]] = True
        left = np.maximum(menus.capacities - menus.uses[rows[~still]].sum(axis=0), 0)
        own, sizes = still[owner], np.diff(menus.offsets)[still]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        part = IntegerMenus(menus.worths[own], menus.uses[own], offsets, left, menus.threshold)
        if (prices := _relaxation_prices(part, end)) is not None:
            yield _whole(prices)


def _unit_of_price(menus: IntegerMenus, prices: NDArray[np.float64]) -> float:
    """Return the power of two that brings what prices pay for everything to 54 bits."""
    needs = menus.uses.astype(np.float64).sum(axis=0) + menus.capacities.astype(np.float64)
    paid = float(needs @ prices)
    return 2.0 ** (_PRICE_BITS - math.ceil(math.log2(paid))) if paid > 0 else 1.0


def _whole(prices: NDArray[np.float64]) -> tuple[int, ...]:
    return tuple(round(price) if math.isfinite(price) else 0 for price in prices.tolist())


def _order(root: Root) -> NDArray[np.int64]:
    """Return the jobs left, first those whose best option wins by most: they branch least."""
    losses = root.losses[1:].max(axis=0) if root.losses.shape[0] > 1 else root.losses[0]
    second = [
        float(np.partition(losses[start:end], 1)[1])
        for start, end in zip(root.menus.offsets[:-1].tolist(), root.menus.offsets[1:].tolist(), strict=True)
    ]
    return np.argsort(-np.array(second), kind="stable")
