"""Decide in whole numbers what a solver's doubles leave open, where the instance is small enough for that.

Test a general solver's claim: our own search is run behind it for a share of the time that is left.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np

from apportion.core.outcome import Outcome, Termination, meets
from apportion.core.solution import Certificate, Solution
from apportion.instances import MatchingInstance
from apportion.instances.tenants.ledger import is_tenanted
from apportion.models.assignment import Assignment
from apportion.proofs.certificate import limits_of
from apportion.solvers.search.in_integers import ExactOptimum, Option, best_choice, least_makespan
from apportion.solving.attempt import Attempt, Checked, checked_plan
from apportion.solving.call import Call, Subject
from apportion.solving.compiled_model import AssignmentRelaxation, CompiledKnapsack
from apportion.solving.judge import outward

__all__ = ["SHARE", "cross_check", "decided_exactly", "is_in_doubt"]


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
    judged = _judged(solution, other, maximizes)
    took = time.perf_counter() - began
    total = judged.times.get("total", 0.0) + took
    return replace(judged, times={**judged.times, "cross_check": took, "total": total})


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
    own = replace(own, verified_bound=given.verified_bound, multipliers=given.multipliers)
    if own.bound is None or sign * (given.verified_bound - own.bound) < 0:
        own = replace(own, bound=given.verified_bound, source="multipliers")
    return own


_CLAIMS = (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE, Termination.NUMERICAL_ERROR)
_LARGEST = 1_000
"""Options of the largest instance that is looked at."""


def is_in_doubt(solution: Solution, tried: Attempt, call: Call) -> bool:
    """Return whether a solver has come to an end that its bound and its plan do not show."""
    if tried.restricted:
        return False
    if isinstance(
        tried.structure, AssignmentRelaxation
    ):  # doubles of a general solver alone speak for its claim
        shown = solution.termination is Termination.OPTIMAL and solution.certificate.source == "multipliers"
        return tried.outcome.termination in _CLAIMS and not shown
    if solution.termination is Termination.INFEASIBLE:  # a general solver's word is no proof
        return solution.evidence == "by_solver" and not call.is_late()
    if solution.termination is Termination.GAP_REACHED:
        return solution.gap is None or solution.gap > call.options.gap
    if solution.termination is Termination.OPTIMAL:
        return _is_divisible(tried.structure.model) and solution.evidence != "by_multipliers"
    if solution.termination in (Termination.NUMERICAL_ERROR, Termination.ERROR):
        return tried.outcome.termination in _CLAIMS or _is_divisible(tried.structure.model)
    given_up = solution.termination in (Termination.SOLUTION_LIMIT, Termination.TIME_LIMIT)
    unlimited = call.options.work_limit is None and not call.is_late()
    return given_up and unlimited and isinstance(tried.structure.model, Assignment)


def _is_divisible(model: object) -> bool:
    return isinstance(model, Assignment) and model.divisible


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
    placements = _placements(instance if isinstance(instance, MatchingInstance) else model)
    return None if placements is None else _placed(placements, instance, tried, call)


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
    """What every job of a matching may hold: a pool and machines of it, counted within the pool.

    Attributes
    ----------
    menus
        The options by job; every machine with a capacity is a capacity of its own.
    held
        By job and option, the pool or entry and the machines; no machines where they decide nothing.
    machines
        By job and option, the machines held, counted over all pools.
    capacities, required
        As for `best_choice`.
    timed, maximize
        What is decided.
    """

    menus: list[list[Option]]
    held: list[list[tuple[str | int, tuple[int, ...]]]]
    machines: list[list[tuple[int, ...]]]
    capacities: list[int]
    required: list[bool]
    timed: bool
    maximize: bool


def _placements(subject: MatchingInstance | Assignment | object) -> _Placements | None:
    """Return the machines that jobs may hold; ``None`` where there are too many."""
    if isinstance(subject, MatchingInstance):
        return _of_instance(subject)
    return _of_arrays(subject) if isinstance(subject, Assignment) else None


def _of_arrays(model: Assignment) -> _Placements | None:
    if model.num_options > _LARGEST or (model.counts != 1).any() or (model.gpus != 1).any():
        return None
    limited = np.flatnonzero(model.limited).tolist()
    column = {machine: k for k, machine in enumerate(limited)}
    menus, held = [], []
    machines: list[list[tuple[int, ...]]] = []
    for first, last in itertools.pairwise(model.offsets.tolist()):
        on = model.machine[first:last].tolist()
        menus.append(
            [
                Option(Fraction(value), _one(len(limited), [column[k]] if k in column else [], use))
                for value, use, k in zip(
                    model.values[first:last].tolist(), model.uses[first:last].tolist(), on, strict=True
                )
            ]
        )
        held.append([(row, ()) for row in range(first, last)])
        machines.append([(k,) for k in on])
    return _Placements(
        menus,
        cast("list[list[tuple[str | int, tuple[int, ...]]]]", held),
        machines,
        model.capacities[limited].tolist(),
        model.required.tolist(),
        model.goal == "makespan",
        model.goal == "value",
    )


def _of_instance(instance: MatchingInstance) -> _Placements | None:
    timed = instance.objective == "makespan"
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    columns: dict[str, int] = {}
    capacities: list[int] = []
    for pool in instance.machines:
        taken = sum(job.on[pool.id].gpus for job in instance.jobs if pool.id in job.on)
        count = min(pool.count, taken)
        if count > _LARGEST:
            return None
        first[pool.id], counts[pool.id] = sum(counts.values()), count
        if pool.capacity is not None:
            columns[pool.id] = len(capacities)
            capacities += [pool.capacity] * count
    menus: list[list[Option]] = []
    held: list[list[tuple[str | int, tuple[int, ...]]]] = []
    options = 0
    for job in instance.jobs:
        menu: list[Option] = []
        places: list[tuple[str | int, tuple[int, ...]]] = []
        for name, entry in job.on.items():
            decides = timed or name in columns
            options += math.comb(counts[name], entry.gpus) if decides else 1
            if options > _LARGEST:
                return None
            value = Fraction(getattr(entry, instance.field) or 0)
            for on in itertools.combinations(range(counts[name]), entry.gpus) if decides else [()]:
                at = [columns[name] + k for k in on] if name in columns else []
                menu.append(Option(value, _one(len(capacities), at, entry.uses)))
                places.append((name, on))
        menus.append(menu)
        held.append(places)
    if is_tenanted(instance):
        capacities += _limited(instance, menus, held)
    machines = [[tuple(first[str(name)] + k for k in on) for name, on in places] for places in held]
    required = [job.required for job in instance.jobs]
    return _Placements(menus, held, machines, capacities, required, timed, instance.objective == "value")


def _limited(
    instance: MatchingInstance,
    menus: list[list[Option]],
    held: list[list[tuple[str | int, tuple[int, ...]]]],
) -> list[int]:
    """Keep what tenants may have, with its uses of their limits behind the others; return these limits.

    Every job must run: one that is left out would forgo its share.
    """
    limits = limits_of(instance)
    columns = range(len(limits.rooms))
    for index, job in enumerate(instance.jobs):
        taken = [limits.uses(job.id, str(name)) for name, _ in held[index]]
        menus[index] = [
            Option(option.value, (*option.uses, *(uses.get(column, 0) for column in columns)))
            for option, uses in zip(menus[index], taken, strict=True)
            if uses is not None
        ]
        held[index] = [place for place, uses in zip(held[index], taken, strict=True) if uses is not None]
    return limits.rooms


def _one(count: int, at: Sequence[int], use: int) -> tuple[int, ...]:
    return tuple(use if k in at else 0 for k in range(count))


def _placed(held: _Placements, instance: Subject, tried: Attempt, call: Call) -> Attempt | None:
    """Decide a matching in whole numbers, machine by machine."""
    best = (
        least_makespan(held.menus, held.machines, held.capacities, held.required)
        if held.timed
        else best_choice(held.menus, held.capacities, held.required, maximize=held.maximize)
    )
    if best is None or best.choice is None:
        return None if best is None else _ended(tried, best, call, None)
    taken = [None if at is None else held.held[job][at] for job, at in enumerate(best.choice)]
    if not isinstance(instance, MatchingInstance):
        point = np.array([-1 if one is None else one[0] for one in taken], dtype=np.int64)
        return _ended(tried, best, call, checked_plan(call, point, point))
    named = {job.id: one for job, one in zip(instance.jobs, taken, strict=True) if one is not None}
    index = {job: list(on) if len(on) > 1 else on[0] for job, (_, on) in named.items() if on}
    plan = {"assignment": {job: name for job, (name, _) in named.items()}, "machine_index": index}
    if held.timed and any(len(on) > 1 for _, on in named.values()):
        starts = _starts(held, best)
        plan["start_s"] = {instance.jobs[job].id: start for job, start in starts.items()}
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
    return replace(tried, outcome=outcome, checked=checked, exact=True)
