"""Give a solution its proof: write one for its claim, and keep it only if the checker accepts it.

A first proof of what a call has at hand: the menus it has searched, in doubles, and its prices.

Stating an instance in whole numbers takes as long as many a search, and the checker does it anyway. Doubles
are enough to choose a unit, to round prices and to order jobs; where they mislead, the checker refuses the
proof, and one is written from the instance.

A first proof of a makespan out of what the call has searched: its times, in doubles, and its prices.

A pool's price w says what a second of one of its c machines costs, w / c: that is the price of its time,
together or machine by machine, and of nothing else. No plan is stated in whole units here; the checker does
that, and where doubles mislead it refuses the proof.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance
from apportion.core.outcome import SearchTree, Termination
from apportion.core.solution import Solution
from apportion.instances.columns import Columns
from apportion.instances.tenants.ledger import is_tenanted
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.proofs import Verdict
from apportion.proofs.bare_models import columns, relaxes
from apportion.proofs.certificate import LARGEST_NUMBER, LARGEST_VECTORS, MalformedProof, Proof
from apportion.proofs.stating import capacity_names
from apportion.proofs.verifying import accepted
from apportion.proofs.walking import Limits
from apportion.solving.call import Subject, kind_of_any
from apportion.solving.judge import usable
from apportion.solving.proof_shapes import LARGEST_SHIFT, NEAR, apart_in, claim_at, cuts_of, unit_of_times
from apportion.solving.proving import draft_of

__all__ = ["quick_makespan_proof", "quick_proof", "surest_first", "walked_briefly", "with_proof"]


_BITS = 54
"""Bits of all worths together."""
_SPARE = 8
"""Bits of them that are 0 where worths count as whole: what they were rounded from may differ in the last."""


def quick_proof(
    given: Columns,
    model: MultipleChoiceKnapsack | Assignment,
    objective: float,
    multipliers: Mapping[str, float] | NDArray[np.float64] | None,
    tree: SearchTree | None,
) -> Proof | None:
    """Return a proof that no plan is better than an objective, ``None`` where prices or worths are missing.

    Parameters
    ----------
    given
        What it is about.
    model
        What was searched, job for job; no makespan.
    objective
        Of a plan: where worths are not whole in the unit, the claim has a margin.
    multipliers
        By capacity; of bare menus float64 [capacities].
    tree
        The prices and the order of the search, which are taken if it has told them.
    """
    total = float(np.abs(model.values).sum())
    if not (0.0 < total < math.inf) or (tree is None and multipliers is None):
        return None
    up = model.sense == "maximize"
    named = multipliers if isinstance(multipliers, Mapping) else {}
    shift, whole = _unit(model.values, total, objective)
    claim = claim_at(objective, exactly=whole, maximizes=up)
    apart, cuts = apart_in(given), cuts_of(given, named, False)
    if tree is not None:
        above, below = tree.unit.as_integer_ratio()
        kept = [
            tuple(_nearest(price * above, below, shift) for price in prices)
            for prices in tree.prices.tolist()
        ]
        unique = tuple(dict.fromkeys(prices for prices in kept if any(prices)))[:LARGEST_VECTORS]
        return _written(Proof("", claim, shift, unique, tuple(tree.order.tolist()), apart, cuts))
    known = _known(given, Proof("", claim, shift, (), (), apart, cuts), multipliers)
    if known is None:
        return None
    paid = _paid(model, known, named)
    worth = model.values - paid if up else -model.values - paid
    prices = tuple(_nearest(*price.as_integer_ratio(), shift) for price in known)
    return _written(Proof("", claim, shift, (prices,), surest_first(worth, model), apart, cuts))


def _nearest(above: int, below: int, shift: int) -> int:
    """Return the whole number nearest to ``above / below * 2**shift``; fractions take ten times as long."""
    if shift >= 0:
        return ((above << shift + 1) + below) // (2 * below)
    return (2 * above + (below << -shift)) // (below << 1 - shift)


def _written(proof: Proof) -> Proof | None:
    """Return a proof if the format holds its prices."""
    return proof if all(price < LARGEST_NUMBER for prices in proof.prices for price in prices) else None


def _known(
    given: Columns, draft: Proof, multipliers: Mapping[str, float] | NDArray[np.float64] | None
) -> list[float] | None:
    """Return the price of every capacity of the draft, ``None`` where one is missing."""
    if isinstance(multipliers, np.ndarray):
        known: list[float] = multipliers.tolist()
    else:
        found = [(multipliers or {}).get(name) for name in capacity_names(given, draft)]
        known = [price for price in found if price is not None]
        if len(known) < len(found):
            return None
    return known if all(0.0 <= price < math.inf for price in known) else None


def _paid(
    model: MultipleChoiceKnapsack | Assignment, known: list[float], named: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return what every option pays, float64 [options]; only the order of jobs depends on it."""
    if isinstance(model, Assignment):
        pools = [named.get(model.pool_names[pool], 0.0) for pool in model.pool.tolist()]
        return np.array(pools, dtype=np.float64)[model.machine] * model.uses
    if len(known) != model.num_capacities:
        return np.zeros(model.num_options)
    return model.paid(np.array(known, dtype=np.float64))


def _unit(values: NDArray[np.float64], total: float, objective: float) -> tuple[int, bool]:
    """Return a shift that gives all worths about 54 bits, and whether they are whole with some to spare."""
    shift = min(_BITS - math.frexp(total)[1], LARGEST_SHIFT)
    if math.ldexp(float(values[-1]), shift - _SPARE).is_integer():  # one that is not whole is enough
        with np.errstate(over="ignore", under="ignore"):
            coarse = np.ldexp(values, shift - _SPARE)
        if bool((coarse == np.rint(coarse)).all()) and bool(
            (np.ldexp(coarse, _SPARE - shift) == values).all()
        ):
            return shift, True
    needed = math.ceil(math.log2(2 * values.size) - math.log2(NEAR * max(abs(objective), 1e-9))) + 2
    return min(max(shift, needed), LARGEST_SHIFT), False


def surest_first(worth: NDArray[np.float64], model: MultipleChoiceKnapsack | Assignment) -> tuple[int, ...]:
    """Return the jobs, first those whose option of the most worth wins by most: they branch least."""
    first, sizes = model.offsets[:-1], model.offsets[1:] - model.offsets[:-1]
    if sizes.all():
        best, second = _two_best(worth, first, sizes)
    else:
        filled = sizes > 0
        best, second = np.full((2, sizes.size), -np.inf)
        best[filled], second[filled] = _two_best(worth, first[filled], sizes[filled])
    if not model.required.all():
        without = np.where(model.required, -np.inf, 0.0)
        second = np.maximum(second, np.minimum(best, without))
        best = np.maximum(best, without)
    # of a job with one option the second is minus infinity: first of all
    return tuple(np.argsort(second - best, kind="stable").tolist())


def _two_best(
    worth: NDArray[np.float64], first: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the most worth in every menu, and the next; minus infinity where there is none."""
    if not first.size:
        return np.zeros(0), np.zeros(0)
    best = np.maximum.reduceat(worth, first)
    wins = worth == best.repeat(sizes)
    second = np.maximum.reduceat(np.where(wins, -np.inf, worth), first)
    if np.count_nonzero(wins) > best.size:
        tied = np.add.reduceat(wins, first, dtype=np.int64) > 1
        second[tied] = best[tied]
    return best, second


_MAKESPAN_BITS = 54
"""Bits of what the prices take for all times and all capacities together."""
_TOO_LATE = -1e300
"""What an option is worth that ends too late, less than any other."""


def quick_makespan_proof(
    given: Columns, model: Assignment, objective: float, weights: Mapping[str, float]
) -> Proof | None:
    """Return a proof that no plan ends before a time, ``None`` where more than machines bounds it.

    Parameters
    ----------
    given
        What it is about.
    model
        What was searched, job for job.
    objective
        When the plan ends.
    weights
        Prices of the pools.
    """
    if model.divisible:
        return None
    unit = unit_of_times(model.values.tolist())
    claim = claim_at(objective, exactly=unit.exact, maximizes=False)
    draft = Proof("", claim, unit.shift, (), (), apart_in(given))
    of_pools = np.array([weights.get(name, 0.0) for name in model.pool_names], dtype=np.float64)
    machines = np.bincount(model.pool, weights=model.counts, minlength=of_pools.size)
    prices = of_pools / np.maximum(machines, 1.0)
    cost = prices[model.pool[model.machine]] * model.values * model.gpus
    paid = math.ldexp(float(cost.sum()) + objective * float(prices @ machines), unit.shift)
    ended = np.where(model.values < objective, -cost, _TOO_LATE)
    order = surest_first(ended, model)
    if not 0.0 < paid < math.inf:
        return replace(draft, order=order)
    scale = 2.0 ** (_MAKESPAN_BITS - math.ceil(math.log2(paid)))
    whole = [round(price) for price in (prices * scale).tolist()]
    return replace(draft, prices=(_laid_out(given, model, whole, draft.apart),), order=order)


def _laid_out(
    given: Columns, model: Assignment, prices: list[int], apart: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the price of every capacity of the proof from prices of the pools: time has it, use has none."""
    if given.alike is not None:
        return (*[0] * len(given.capacities), *(prices[pool] for pool in model.pool.tolist()))
    found: list[int] = []
    for number, pool in enumerate(() if given.pool_use is None else given.pool_use.pools):
        own = [prices[number]] if pool.capacity is None else [0, prices[number]]
        found += own * (pool.count if number in apart else 1)
    return tuple(found)


_LEAST_SECONDS = 0.2
_QUICK_STATES = 50_000
"""States of a walk that is tried before more prices are looked for."""
_BRIEF_OPTIONS, _BRIEF_STATES = 20_000, 20_000
"""Options, and states of a walk, up to which it is tried without being asked."""


def with_proof(solution: Solution, seconds: float | None, model: object = None) -> Solution:
    """Return a solution with a proof that the checker has accepted, or with a note why there is none.

    Parameters
    ----------
    solution
        Its termination is what is proved: ``optimal``, ``gap_reached`` (its bound) or ``infeasible``.
    seconds
        Wall-clock seconds that are left; ``None`` for no clock, then the states of the walk are limited
        alone.
    model
        What has been searched, job for job, if it is at hand: where it is menus, a first proof needs no more.
    """
    began = time.perf_counter()
    if solution.evidence is None:
        return _noted(solution, f"no proof was written: {solution.termination.value} claims nothing to prove")
    limits = Limits() if seconds is None else Limits(seconds=max(seconds, _LEAST_SECONDS))
    found, verified = _first_accepted(solution, limits, model)
    spent = time.perf_counter() - began
    times = {**solution.times, "proof": spent - verified, "verify": verified}
    times["total"] = times.get("total", 0.0) + spent
    if isinstance(found, Proof):
        return replace(solution, times=times, proof=found)
    return _noted(replace(solution, times=times), f"no proof was found: {found}")


def walked_briefly(solution: Solution, model: MultipleChoiceKnapsack, seconds: float | None) -> bool:
    """Return whether a short walk at prices of the relaxation shows what a general solver's word says."""
    if model.num_options > _BRIEF_OPTIONS or relaxes(solution.instance):  # placed shapes are too many to list
        return False
    limits = Limits(states=_BRIEF_STATES, seconds=seconds)
    try:
        given = columns(solution.instance)
        maximizes = kind_of_any(solution.instance).maximizes(solution.instance)
        draft = draft_of(
            given,
            _target(solution),
            maximizes=maximizes,
            multipliers=_multipliers(solution),
            exactly=False,
            seconds=seconds,
        )
        return accepted(solution.instance, draft, limits, given)[1].proved
    except (InvalidInstance, MalformedProof):
        return False


def _target(solution: Solution) -> Fraction | None:
    """Return the objective that nothing may beat, ``None`` where there is no plan at all."""
    if solution.termination is Termination.INFEASIBLE:
        return None
    if solution.termination is Termination.GAP_REACHED and solution.bound is not None:
        return Fraction(solution.bound)
    plan = cast("Mapping[str, object]", solution.plan)  # of bare menus the rows, which their kind takes
    return kind_of_any(solution.instance).exact_objective(solution.instance, plan)


def _first_accepted(solution: Solution, limits: Limits, model: object) -> tuple[Proof | str, float]:
    """Return the first proof that is accepted, or why there is none, and the seconds of checking.

    Tries, in this order: stored multipliers, a short tree walk, a full one, one that proves the bound within
    the tolerance. Where the search has handed over its tree, its multipliers come first and the short walk is
    left out.
    """
    instance: Subject = solution.instance
    begun = time.perf_counter()
    verdict: Verdict | None = None
    tree = None if solution.outcome is None else solution.outcome.tree
    quick = limits if tree is not None else Limits(_QUICK_STATES, limits.kept, limits.seconds)
    checking = 0.0
    near = solution.bound if solution.termination is Termination.GAP_REACHED else solution.objective
    brief: Proof | None = None
    try:
        given = columns(instance)
    except InvalidInstance as error:  # sparse uses of which there are too many for an array
        return str(error), checking
    if near is not None and isinstance(model, MultipleChoiceKnapsack | Assignment):
        brief = _in_brief(given, solution, model, near, tree)
        if brief is not None:
            began = time.perf_counter()
            brief, verdict = accepted(instance, brief, quick, given)
            checking += time.perf_counter() - began
            if verdict.proved:
                return brief, checking
    target = _target(solution)
    attempts: list[tuple[bool, bool, SearchTree | None]] = [(True, True, None), (False, True, None)]
    if tree is not None:
        attempts.insert(0, (True, True, tree))
    elif brief is None:
        attempts.insert(0, (True, False, None))
    for exactly, thorough, searched in attempts:
        left = None if limits.seconds is None else limits.seconds - (time.perf_counter() - begun)
        if verdict is not None and left is not None and left < 0:
            break
        try:
            proof = draft_of(
                given,
                target,
                maximizes=kind_of_any(instance).maximizes(instance),
                multipliers=_multipliers(solution),
                exactly=exactly,
                thorough=thorough,
                tree=searched,
                row_multipliers=None if solution.outcome is None else solution.outcome.row_multipliers,
                seconds=left,
            )
        except MalformedProof as error:
            return str(error), checking
        began = time.perf_counter()
        walk = replace(limits if thorough else quick, seconds=left)
        proof, verdict = accepted(instance, proof, walk, given)
        checking += time.perf_counter() - began
        if verdict.proved:
            return proof, checking
        if thorough and searched is None and (verdict.status == "incomplete" or target is None):
            break
    assert verdict is not None
    return f"{verdict.status}, {verdict.why}", checking


def _in_brief(
    given: Columns,
    solution: Solution,
    model: MultipleChoiceKnapsack | Assignment,
    near: float,
    tree: SearchTree | None,
) -> Proof | None:
    """Return a proof of what is at hand, if that is enough for one."""
    multipliers = _multipliers(solution)
    if isinstance(model, Assignment) and model.goal == "makespan":
        if is_tenanted(solution.instance):
            return None
        named = multipliers if isinstance(multipliers, Mapping) else {}
        return quick_makespan_proof(given, model, near, named)
    return quick_proof(given, model, near, multipliers, tree)


def _multipliers(solution: Solution) -> Mapping[str, float] | NDArray[np.float64] | None:
    """Return those of the certificate, or the solver's where capacities have no names to give them by."""
    named, model, outcome = solution.certificate.multipliers, solution.instance, solution.outcome
    if named is not None or not isinstance(model, MultipleChoiceKnapsack) or outcome is None:
        return named
    return outcome.multipliers if usable(outcome.multipliers, model.num_capacities) else None


def _noted(solution: Solution, note: str) -> Solution:
    return replace(solution, notes=(*solution.notes, note))
