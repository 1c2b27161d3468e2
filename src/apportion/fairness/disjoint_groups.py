"""Trees of tenants that can take nothing from each other: a round for each, and their answers put together.

Where the most that every tree may claim adds up to no more than there is, whatever one tree does leaves the
others what they may have. Guarantees, levels and the objective are then those of every tree alone: what is
lexicographically largest over independent parts is so in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

from msgspec import UNSET
from msgspec.structs import force_setattr

from apportion.core.outcome import Termination
from apportion.core.solution import Certificate, GoalResult, Solution
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.check import exceeded_today, shared_capacities
from apportion.instances.tenants.ledger import under_floors
from apportion.instances.tenants.tree import Tree, may_clash, tree_of
from apportion.solving.call import Call
from apportion.solving.judge import judge, outward

__all__ = ["joined", "parts_of"]

_PROVED = (Termination.OPTIMAL, Termination.GAP_REACHED)


def parts_of(instance: Any) -> tuple[Any, ...]:
    """Return an instance for every tree of tenants that has jobs; none where trees may meet at a capacity."""
    kind = kind_of(instance)
    options = kind.option_set
    if options is None or options.plan is None or instance.tenants is UNSET or options.limits(instance):
        return ()
    tree, capacities = tree_of(instance.tenants), shared_capacities(kind, instance)
    if next(exceeded_today(kind, instance), None) is not None:  # a tree that keeps more than it may
        return ()
    if may_clash(capacities, tree.nodes):  # a part names its limits without knowing the others
        return ()
    if len(tree.roots) < 2 or any(not isinstance(job.tenant, str) for job in instance.jobs):
        return ()
    root = {leaf: top for top in tree.roots for leaf in tree.below(top)}
    jobs: dict[str, list[Any]] = {}
    uses: dict[str, set[str]] = {}
    for job in instance.jobs:
        top = root[str(job.tenant)]
        jobs.setdefault(top, []).append(job)
        used = uses.setdefault(top, set())
        if len(used) < len(capacities):
            used.update(*(option.uses for option in options.options(instance, job)))
    if len(jobs) < 2 or not all(_fit(tree, name, amount, uses) for name, amount in capacities.items()):
        return ()
    found = []
    for top, own in jobs.items():
        below = {name for name in tree.nodes if list(tree.path(name))[-1] == top}
        part = copy(instance)
        force_setattr(part, "jobs", tuple(own))
        force_setattr(part, "tenants", tuple(one for one in instance.tenants if one.id in below))
        found.append(part)
    return tuple(found)


def _fit(tree: Tree, capacity: str, amount: int, uses: Mapping[str, set[str]]) -> bool:
    """Return whether all trees may claim at once the most that each of them may."""
    limits, reserves = tree.limits(capacity), tree.reserves(capacity)
    claims = 0
    for top in tree.roots:
        if capacity in uses.get(top, ()):
            if top not in limits:
                return False
            claims += limits[top]
        else:
            claims += reserves[top]
    return claims <= amount


def joined(call: Call, solutions: Sequence[Solution]) -> Solution:
    """Return the answer to an instance from the answers to its parts: checked, bounded and judged as a whole.

    Parameters
    ----------
    call
        The call about the whole instance.
    solutions
        What was found for each of `parts_of`; fewer where the call was interrupted.
    """
    # where one tree has no plan there is none, and nobody has a share
    nothing = any(one.termination is Termination.INFEASIBLE for one in solutions)
    kept = () if nothing else solutions
    floors = {name: share for one in kept for name, share in (one.floors or {}).items()}
    under: Any = under_floors(call.instance, floors)
    report = plan = None
    if all(one.plan is not None for one in solutions):
        options = call.kind.option_set
        assert options is not None and options.plan is not None
        taken = {
            job: option
            for one in solutions
            for job, option in options.taken(one.instance, one.require()).items()
            if option is not None
        }
        whole = options.plan(call.instance, taken)
        report = call.kind.check(under, whole)
        if report.feasible:
            plan = whole
        else:
            call.log.note(f"the parts' plans together fail the check: {report.violations[0]}")
    prices = _prices(under, solutions)
    exact = None if prices is None else call.kind.exact_bound(under, prices)
    verified = None if exact is None else outward(exact, upper=call.maximizes)
    bounds = [one.bound for one in solutions]
    known = [Fraction(bound) for bound in bounds if bound is not None]
    claimed = outward(sum(known, Fraction(0)), upper=call.maximizes) if len(known) == len(bounds) else None
    sources = {str(one.certificate.source) for one in solutions}
    verdict = judge(
        maximizes=call.maximizes,
        objective=None if plan is None or report is None else report.objective,
        claimed=_termination([one.termination for one in solutions]),
        claimed_bound=claimed,
        claimed_source=sources.pop()
        if len(sources) == 1
        else "solver"
        if "solver" in sources
        else "branch_and_bound",
        verified_bound=verified,
        asked_gap=call.options.gap,
    )
    ended = _termination([one.termination for one in solutions])
    if verdict.termination in _PROVED and ended not in _PROVED:
        # bounds meet, but the shares that they are about are not shown to be those due
        verdict = replace(verdict, termination=ended)
    call.log.lap("check")
    objective = None if plan is None or report is None else report.objective
    first = solutions[0]
    return Solution(
        instance=call.instance,
        backend=first.backend,
        reason=f"{first.reason}; {len(solutions)} trees of tenants that lend each other nothing, one by one",
        termination=verdict.termination,
        plan=plan,
        report=report,
        certificate=Certificate(objective, verdict.bound, verdict.source, verified, prices),
        outcome=None,
        times={**call.log.times, "total": call.log.elapsed},
        seed=call.options.seed,
        packages=tuple(dict.fromkeys(package for one in solutions for package in one.packages)),
        notes=tuple(
            dict.fromkeys((*call.log.notes, *verdict.notes, *(n for one in solutions for n in one.notes)))
        ),
        levels=() if nothing else tuple(level for one in solutions for level in one.levels),
        floors={} if nothing else floors,
        fair_bound=_fair_bound(solutions, upper=call.maximizes),
        goals=() if plan is None else tuple(_goals(solutions)),
    )


def _goals(solutions: Sequence[Solution]) -> Iterator[GoalResult]:
    """Yield what became of every goal in all parts together: what is best in each is best of the whole."""
    named: dict[str, list[GoalResult]] = {}
    for goal in (goal for one in solutions for goal in one.goals):
        named.setdefault(goal.name, []).append(goal)
    for name, goals in named.items():
        bounds = [goal.bound for goal in goals if goal.bound is not None]
        known = len(bounds) == len(goals) and all(one.termination is Termination.OPTIMAL for one in solutions)
        value, seconds = sum(goal.value for goal in goals), sum(goal.seconds for goal in goals)
        yield GoalResult(name, goals[0].sense, value, sum(bounds) if known else None, seconds)


def _fair_bound(solutions: Sequence[Solution], *, upper: bool) -> float | None:
    """Return the bound over all that is as fair: what is as fair as a whole is so in every part."""
    bounds = [one.fair_bound for one in solutions]
    known = [Fraction(bound) for bound in bounds if bound is not None]
    return outward(sum(known, Fraction(0)), upper=upper) if len(known) == len(bounds) else None


def _prices(under: Any, solutions: Sequence[Solution]) -> dict[str, float] | None:
    """Return the parts' prices; one on a capacity is one on what its tree may have of it, which is less."""
    found = dict.fromkeys(under.capacities, 0.0)
    for one in solutions:
        if one.certificate.multipliers is None:
            return None
        tree = tree_of(one.instance.tenants)
        for name, price in one.certificate.multipliers.items():
            if not price:
                continue
            limit = name
            if name in under.capacities:
                if tree.roots[0] not in tree.limits(name):
                    return None
                limit = f"{name} of {tree.roots[0]}"
            found[limit] = found.get(limit, 0.0) + price
    return found


def _termination(terminations: Sequence[Termination]) -> Termination:
    """Return why all parts together ended: as proved as the least proved of them."""
    for one in terminations:
        if one not in _PROVED:
            return one
    closed = all(one is Termination.OPTIMAL for one in terminations)
    return Termination.OPTIMAL if closed else Termination.GAP_REACHED
