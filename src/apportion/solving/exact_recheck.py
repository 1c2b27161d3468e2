"""Decide in whole numbers what a solver's doubles leave open, and test its claim by a search of our own."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from apportion.core.outcome import Outcome, Termination, meets
from apportion.core.solution import Certificate, Solution
from apportion.instances.columns import Columns
from apportion.models.assignment import Assignment
from apportion.proofs.bare_models import columns
from apportion.solvers.search.in_integers import ExactOptimum, Option, best_choice, least_makespan
from apportion.solving.call import Call, Subject
from apportion.solving.compiled_model import CompiledKnapsack
from apportion.solving.judge import Attempt, Checked, checked_plan, outward

__all__ = ["SHARE", "cross_check", "cross_checked", "decided_exactly", "untested"]


_LARGEST = 1_000
"""Options of the largest instance that is looked at."""
SHARE = 0.25
"""Of the time that is left; never more than the solver itself took, or a twentieth of a second."""
_LEAST_SECONDS = 0.05
_TOLERANCE = 1e-6
"""Of the objective: what the general solvers' own tolerances may cost them."""
_CROSS_CHECKED = (Termination.OPTIMAL, Termination.INFEASIBLE)


def cross_check(
    solution: Solution, seconds_left: float, ask: Callable[[float], Solution], *, maximizes: bool
) -> Solution:
    """Return a solution whose claim our own search has confirmed, contradicted or left as it was.

    Agreement raises the evidence to ``by_search``. Where theirs is worse than ours, which is proved best, by
    no more than their own tolerances, ours is returned, with a note. Any other contradiction ends in the
    termination ``error``, names both sides and keeps the better plan; no claimed bound survives it, only the
    verified one.

    Parameters
    ----------
    solution
        What a general solver claims optimal or infeasible.
    seconds_left
        Of the whole call; infinite where nothing limits it.
    ask
        Solves the instance by our own search within so many seconds, beginning with the solver's plan.
    maximizes
        Sense of the instance.
    """
    if solution.termination not in _CROSS_CHECKED or solution.evidence != "by_solver":
        return solution
    began = time.perf_counter()
    spent = max(solution.times.get("solve", 0.0), _LEAST_SECONDS)
    other = ask(min(SHARE * seconds_left, spent))
    if other.termination is Termination.INTERRUPTED:
        return replace(solution, termination=Termination.INTERRUPTED)
    return cross_checked(_judged(solution, other, maximizes), began)


def cross_checked(solution: Solution, began: float) -> Solution:
    """Return a solution that says how long testing its claim has taken."""
    took = time.perf_counter() - began
    total = solution.times.get("total", 0.0) + took
    return replace(solution, times={**solution.times, "cross_check": took, "total": total})


def _judged(solution: Solution, other: Solution, maximizes: bool) -> Solution:
    first, second = solution.objective, other.objective
    sign = 1.0 if maximizes else -1.0
    ends = other.termination in _CROSS_CHECKED
    ours = other.evidence != "by_solver"  # another general solver's word confirms nothing
    if first is None or second is None:
        agree = first is second and ends
        differ = (first is None and second is not None) or (
            second is None and other.termination is Termination.INFEASIBLE and first is not None
        )
    else:
        near = meets(first, second)
        agree, differ = near and ends, not near and (ends or sign * (second - first) > 0)
    if differ and first is not None and second is not None and other.termination is Termination.OPTIMAL:
        worse = sign * (second - first)
        if 0 < worse <= _TOLERANCE * abs(second) and solution.termination is Termination.OPTIMAL:
            return _sharpened(solution, other, worse / abs(second))
    if differ:
        return _contradicted(solution, other, sign)
    if not agree or not ours:
        return solution
    return replace(solution, confirmed=True, certificate=_tighter(solution, other, sign))


def _sharpened(solution: Solution, other: Solution, worse: float) -> Solution:
    note = f"{solution.backend}'s plan was worse by {worse:.2g} of the objective, within its tolerances"
    return replace(
        solution,
        plan=other.plan,
        report=other.report,
        certificate=other.certificate,
        confirmed=True,
        notes=(*solution.notes, f"{note}: {other.backend}'s is returned, which it has proved best"),
    )


def _contradicted(solution: Solution, other: Solution, sign: float) -> Solution:
    sides = [
        f"{one.backend} says {one.termination.value}"
        + ("" if one.objective is None else f" with a plan of {one.objective:.12g}")
        for one in (solution, other)
    ]
    second_is_better = solution.objective is None or (
        other.objective is not None and sign * (other.objective - solution.objective) > 0
    )
    better = other if second_is_better else solution
    certificate = _tighter(solution, other, sign)
    verified = certificate.verified_bound
    return replace(
        solution,
        termination=Termination.ERROR,
        plan=better.plan,
        report=better.report,
        certificate=replace(
            certificate,
            objective=better.objective,
            bound=verified,
            source=None if verified is None else "multipliers",
        ),
        notes=(*solution.notes, f"{'; '.join(sides)}: one of the two is wrong, the better plan is kept"),
    )


def _tighter(solution: Solution, other: Solution, sign: float) -> Certificate:
    """Return the solution's certificate with the tighter of the two verified bounds, and no bound worse."""
    own, given = solution.certificate, other.certificate
    if given.verified_bound is None:
        return own
    if own.verified_bound is not None and sign * (given.verified_bound - own.verified_bound) >= 0:
        return own
    return _as_tight(replace(own, verified_bound=given.verified_bound, multipliers=given.multipliers), sign)


def _as_tight(own: Certificate, sign: float) -> Certificate:
    """Return a certificate whose bound is no weaker than its verified one."""
    verified = own.verified_bound
    if verified is None or (own.bound is not None and sign * (verified - own.bound) >= 0):
        return own
    return replace(own, bound=verified, source="multipliers")


def untested(solution: Solution, *, maximizes: bool) -> Solution:
    """Return a claim that no time is left to test as a limit's, a solver's bound less by its tolerances."""
    own, sign = solution.certificate, 1.0 if maximizes else -1.0
    if own.source == "solver" and own.bound is not None:
        own = _as_tight(replace(own, bound=own.bound + sign * _TOLERANCE * abs(own.bound)), sign)
    return replace(solution, termination=Termination.TIME_LIMIT, certificate=own)


def decided_exactly(instance: Subject, tried: Attempt, call: Call) -> Attempt | None:
    """Return the attempt with the exact optimum in place of the solver's, ``None`` where that is too large.

    The order in which `instance` lists its jobs and machines decides between equal optima.
    What is decided may relax the instance (a choice must also lie on nodes): then its optimum is a bound, and
    refutes nobody who says that there is no plan.
    """
    again = _decided(instance, tried, call)
    if again is None or tried.outcome.termination is not Termination.INFEASIBLE:
        return again
    planned = again.checked is not None and again.checked.plan is not None
    return again if planned or again.outcome.termination is Termination.INFEASIBLE else None


def _decided(instance: Subject, tried: Attempt, call: Call) -> Attempt | None:
    model = tried.structure.model
    if isinstance(model, Assignment) and model.divisible:
        return _divided(model, tried, call)
    if isinstance(tried.structure, CompiledKnapsack):
        return _chosen(tried.structure, tried, call)
    placements = _placements(columns(instance))
    return None if placements is None else _placed(placements, tried, call)


def _chosen(structure: CompiledKnapsack, tried: Attempt, call: Call) -> Attempt | None:
    """Decide menus in whole numbers."""
    model = structure.model
    if model.num_options > _LARGEST:
        return None
    values, uses = structure.formulation.exact_values(), model.uses.tolist()
    bounds = model.offsets.tolist()
    menus = [
        [Option(values[row], tuple(uses[row])) for row in range(first, last)]
        for first, last in itertools.pairwise(bounds)
    ]
    best = best_choice(menus, model.capacities.tolist(), model.required.tolist(), maximize=call.maximizes)
    if best is None or best.choice is None:
        return None if best is None else _ended(tried, best, call, None)
    rows = [-1 if at is None else bounds[job] + at for job, at in enumerate(best.choice)]
    point = np.array(rows, dtype=np.int64)
    plan = structure.plan(point, call.seconds_left)
    return _ended(tried, best, call, None if plan is None else checked_plan(call, plan, point))


@dataclass(frozen=True, slots=True)
class _Placements:
    """What every job may hold: a row of the columns and machines of its pool, counted within the pool.

    Attributes
    ----------
    given
        The columns.
    menus
        The options by job; every machine with a capacity is a capacity of its own.
    held
        By job and option, the row and the machines; no machines where they decide nothing.
    machines
        By job and option, the machines held, counted over all pools.
    capacities, required
        As for `best_choice`.
    """

    given: Columns
    menus: list[list[Option]]
    held: list[list[tuple[int, tuple[int, ...]]]]
    machines: list[list[tuple[int, ...]]]
    capacities: list[int]
    required: list[bool]


def _placements(given: Columns) -> _Placements | None:
    """Return the machines that jobs may hold; ``None`` where there are too many."""
    if given.pool_use is None or given.uses.shape[0] > _LARGEST:
        return None
    held, timed = given.pool_use, given.goal == "makespan"
    bare = given.alike is not None
    wanted = np.bincount(held.pool[held.pool >= 0], held.gang[held.pool >= 0], len(held.pools)).tolist()
    counts = [min(one.count, int(gangs)) for one, gangs in zip(held.pools, wanted, strict=True)]
    if max(counts, default=0) > _LARGEST or (bare and any(one.count != 1 for one in held.pools)):
        return None
    firsts = [0, *itertools.accumulate(counts)]
    capacities: list[int] = []
    columns: dict[int, int] = {}
    for number, (one, count) in enumerate(zip(held.pools, counts, strict=True)):
        if one.capacity is not None:
            columns[number] = len(capacities)
            capacities += [one.capacity] * count
    menus: list[list[Option]] = []
    places: list[list[tuple[int, tuple[int, ...]]]] = []
    options = 0
    values = given.pool_use.time.tolist() if timed else given.values
    for first, last in itertools.pairwise(given.offsets.tolist()):
        menus.append([])
        places.append([])
        for row in range(first, last):
            pool, gang = int(held.pool[row]), int(held.gang[row])
            if pool < 0:
                continue
            decides = timed or pool in columns
            options += math.comb(counts[pool], gang) if decides else 1
            if options > _LARGEST:
                return None
            for on in itertools.combinations(range(counts[pool]), gang) if decides else [()]:
                at = [columns[pool] + k for k in on] if pool in columns else []
                uses = (*_one(len(capacities), at, int(held.use[row])), *given.uses[row].tolist())
                menus[-1].append(Option(_fraction(values[row]), uses))
                places[-1].append((row, on))
    machines = [[tuple(firsts[int(held.pool[row])] + k for k in on) for row, on in own] for own in places]
    sizes = np.diff(given.offsets)
    left_out = [size > len(own) for size, own in zip(sizes.tolist(), _running(given), strict=True)]
    required = left_out if given.waits is None else given.waits.tolist()
    return _Placements(
        given, menus, places, machines, [*capacities, *given.rooms], [not one for one in required]
    )


def _running(given: Columns) -> list[list[int]]:
    """Return the rows of every job that hold a pool."""
    pools = [] if given.pool_use is None else given.pool_use.pool.tolist()
    bounds = itertools.pairwise(given.offsets.tolist())
    return [[row for row in range(first, last) if pools[row] >= 0] for first, last in bounds]


def _fraction(value: float | tuple[int, int]) -> Fraction:
    return Fraction(*value) if isinstance(value, tuple) else Fraction(value)


def _one(count: int, at: Sequence[int], use: int) -> tuple[int, ...]:
    return tuple(use if k in at else 0 for k in range(count))


def _placed(held: _Placements, tried: Attempt, call: Call) -> Attempt | None:
    """Decide a matching in whole numbers, machine by machine."""
    timed, maximize = held.given.goal == "makespan", held.given.goal == "maximize"
    best = (
        least_makespan(held.menus, held.machines, held.capacities, held.required)
        if timed
        else best_choice(held.menus, held.capacities, held.required, maximize=maximize)
    )
    if best is None or best.choice is None:
        return None if best is None else _ended(tried, best, call, None)
    taken = [None if at is None else held.held[job][at] for job, at in enumerate(best.choice)]
    if held.given.alike is not None:
        point = np.array([-1 if one is None else one[0] for one in taken], dtype=np.int64)
        return _ended(tried, best, call, checked_plan(call, point, point))
    names, jobs = held.given.names(), held.given.jobs
    named = {job: one for job, one in zip(jobs, taken, strict=True) if one is not None}
    index = {job: list(on) if len(on) > 1 else on[0] for job, (_, on) in named.items() if on}
    plan = {"assignment": {job: names[row] for job, (row, _) in named.items()}, "machine_index": index}
    if timed and any(len(on) > 1 for _, on in named.values()):
        starts = _starts(held, best)
        plan["start_s"] = {jobs[job]: start for job, start in starts.items()}
    return _ended(tried, best, call, checked_plan(call, plan, None))


def _starts(placements: _Placements, best: ExactOptimum) -> dict[int, float]:
    """Return when every job starts that is placed."""
    ends: dict[int, Fraction] = {}
    starts = {}
    assert best.choice is not None
    for job in best.order:
        at = best.choice[job]
        if at is not None:
            on = placements.machines[job][at]
            begin = max(ends.get(k, Fraction(0)) for k in on)
            starts[job] = float(begin)
            ends |= dict.fromkeys(on, begin + placements.menus[job][at].value)
    return starts


def _divided(model: Assignment, tried: Attempt, call: Call) -> Attempt | None:
    """Decide a divisible makespan; its bound is that of the prices."""
    from apportion.solvers.makespan.by_fractions import divided

    found = divided(model)
    if found is None:
        return None
    point, prices = found
    plan = tried.structure.plan(point, call.seconds_left)
    if plan is None:
        return None
    call.log.note("decided in fractions")
    outcome = Outcome(termination=Termination.OPTIMAL, raw_status="decided in fractions", multipliers=prices)
    return replace(tried, outcome=outcome, checked=checked_plan(call, plan, point))


def _ended(tried: Attempt, best: ExactOptimum, call: Call, checked: Checked | None) -> Attempt:
    call.log.note("decided in whole numbers")
    outcome = Outcome(
        termination=Termination.INFEASIBLE if best.choice is None else Termination.OPTIMAL,
        raw_status="decided in whole numbers",
        bound=None if best.choice is None else outward(best.value, upper=call.maximizes),
        bound_source="enumeration",
        multipliers=tried.outcome.multipliers,
    )
    return replace(tried, outcome=outcome, checked=checked, exact=True, goals=())
