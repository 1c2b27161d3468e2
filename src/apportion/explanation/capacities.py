"""What every capacity is worth at the plan: its price, one unit more and one unit fewer by re-solving."""

from __future__ import annotations

from apportion.errors import ApportionError
from apportion.explanation.parts import CapacityWorth, Difference
from apportion.explanation.plan_view import PlanView, difference
from apportion.explanation.resolver import Resolver
from apportion.explanation.subject import Subject
from apportion.models.lagrangian import lagrangian_bound

__all__ = ["capacity_worths"]


def capacity_worths(view: PlanView, resolver: Resolver, notes: list[str]) -> tuple[CapacityWorth, ...]:
    """Return the worth of every capacity.

    One unit more changes the instance (for gap filling a node is added, and longer menus with it); one unit
    fewer leaves the menus as they are, so a job that gives up a node pays for its rescaling.

    Parameters
    ----------
    view
        The plan.
    resolver
        Re-solves; each of its questions may take an equal share of the seconds left.
    notes
        Gets a line for what could not be shown.
    """
    model = view.model
    used = model.used(view.rows)
    worths = []
    for k, name in enumerate(model.capacity_names):
        if not view.subject.shown(name):
            continue
        share = 1.0 / (2 * (model.num_capacities - k))
        capacity = int(model.capacities[k])
        one_more, at_most = _one_more(view, k, resolver, share, notes)
        worths.append(
            CapacityWorth(
                name=name,
                capacity=capacity,
                used=int(used[k]),
                free=capacity - int(used[k]),
                price=None if view.prices is None else float(view.prices[k]),
                one_more=one_more,
                one_more_at_most=at_most,
                one_fewer=_one_fewer(view, k, resolver, 2 * share, notes),
            )
        )
    return tuple(worths)


def _one_more(
    view: PlanView, k: int, resolver: Resolver, share: float, notes: list[str]
) -> tuple[Difference | None, float | None]:
    name = view.model.capacity_names[k]
    if resolver.exhausted:  # forming the variant alone reads a large instance once more
        notes.append(f"one more unit of {name} was not solved within the limit")
        return None, None
    try:
        wider = view.subject.wider(view.structure, k)
    except ApportionError as error:
        notes.append(f"one more unit of {name}: {error}")
        return None, None
    answer = resolver.solve(wider.instance, view.solution, share)
    worth = None
    if answer is None or answer.plan is None:
        notes.append(f"one more unit of {name} was not solved within the limit")
    else:
        worth = difference(answer, view.solution, view.sign, _least(view))
    return worth, _at_most(view, wider)


def _at_most(view: PlanView, wider: Subject) -> float | None:
    """Return the bound of the same multipliers with the wider instance, less the objective."""
    if view.prices is None or view.solution.objective is None:
        return None
    if wider.menus.model.capacity_names != view.model.capacity_names:
        return None
    bound = lagrangian_bound(wider.menus.model, view.prices, wider.menus.value_error)
    return None if bound is None else max(view.sign * (bound - view.solution.objective), 0.0)


def _one_fewer(
    view: PlanView, k: int, resolver: Resolver, share: float, notes: list[str]
) -> Difference | None:
    capacities = view.model.capacities.copy()
    if capacities[k] == 0:
        return None
    capacities[k] -= 1
    name = view.model.capacity_names[k]
    if resolver.exhausted:
        notes.append(f"one unit fewer of {name} was not solved within the limit")
        return None
    still_fits = bool((view.model.used(view.rows) <= capacities).all())
    start = view.subject.start(view.solution, view.rows) if still_fits else None
    try:
        answer = resolver.solve(view.subject.fewer(view.structure, k), start, share)
    except ApportionError as error:
        notes.append(f"one unit fewer of {name}: {error}")
        return None
    if answer is None or answer.plan is None:
        infeasible = answer is not None and answer.termination.value == "infeasible"
        outcome = "leaves nothing feasible" if infeasible else "was not solved within the limit"
        notes.append(f"one unit fewer of {name} {outcome}")
        return None
    return difference(view.solution, answer, view.sign, _least(view))


def _least(view: PlanView) -> float | None:
    """Return what a unit is worth at least, where that is known."""
    return 0.0 if view.subject.gains_with_more else None
