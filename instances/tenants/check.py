"""What tenants add to the meaning of a plan: claims within limits, shares above floors, the cost of stopping.

Claims are added up along the tree, without the rows that formulations use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from apportion.core.errors import InvalidInstance
from apportion.core.outcome import Report, Violation
from apportion.instances.kind import ProblemType
from apportion.instances.options import Option
from apportion.instances.tenants.ledger import TenantLedger, is_tenanted, kept_uses
from apportion.instances.tenants.rows import limits_today

__all__ = [
    "capacities_and_limits",
    "checked",
    "exceeded_today",
    "ledger_of",
    "less_stops",
    "positions",
    "shared_capacities",
    "with_what_is_kept",
]

_KEPT = 2.0**-10
"""A sum that keeps less than this part of its terms is formed exactly."""


def ledger_of(kind: ProblemType, instance: Any) -> TenantLedger:
    """Return the book of limits of an instance with tenants.

    Raises
    ------
    InvalidInstance
        If a floor cannot be reached.
    """
    found = _book(kind, instance)
    found.reach_floors()
    return found


def _book(kind: ProblemType, instance: Any) -> TenantLedger:
    if kind.option_set is None or kind.edits is None:
        raise InvalidInstance.at("$.tenants", f"{kind.name} has no tenants")
    sign = 1 if kind.maximizes(instance) else -1
    return TenantLedger(instance, kind.option_set, shared_capacities(kind, instance), sign)


def shared_capacities(kind: ProblemType, instance: Any) -> dict[str, int]:
    """Return how much there is of every capacity that tenants share, and no less than what is kept.

    Where less is left of a capacity than running jobs use that may not be stopped, they keep what they have.
    """
    found = _capacities(kind, instance)
    return {**found, **_beyond(kind, instance, found)}


def capacities_and_limits(kind: ProblemType, instance: Any) -> dict[str, int]:
    """Return `shared_capacities`, and the limits of the instance of which no tenant has a part."""
    limits = {} if kind.option_set is None else kind.option_set.limits(instance)
    return {**shared_capacities(kind, instance), **limits}


def _capacities(kind: ProblemType, instance: Any) -> dict[str, int]:
    if kind.option_set is not None and kind.option_set.capacities is not None:
        return kind.option_set.capacities(instance)
    return kind.edits.capacities(instance) if kind.edits else {}


def _beyond(kind: ProblemType, instance: Any, capacities: Mapping[str, int]) -> dict[str, int]:
    """Return what is kept of the capacities of which more is kept than there is.

    What lies on nodes is bounded by the nodes, not by a number.
    """
    if kind.option_set is None or kind.option_set.relaxes or not is_tenanted(instance):
        return {}
    kept, nodes = dict[str, int](), kind.option_set.nodes(instance)
    for _, capacity, use in kept_uses(instance, kind.option_set):
        kept[capacity] = kept.get(capacity, 0) + use
    counted = {name: room for name, room in capacities.items() if nodes.get(name) is None}
    return {name: use for name, use in kept.items() if name in counted and use > counted[name]}


def with_what_is_kept(kind: ProblemType, instance: Any) -> Any:
    """Return an instance that has no less of any capacity than what is kept of it."""
    present = _capacities(kind, instance)
    for name, use in _beyond(kind, instance, present).items():
        assert kind.edits is not None
        instance = kind.edits.change_capacity(instance, name, present[name], use - present[name])
    return instance


def exceeded_today(kind: ProblemType, instance: Any) -> Iterator[str]:
    """Yield in words what running jobs that may not be stopped hold beyond a capacity or a limit of today."""
    if kind.option_set is None or not is_tenanted(instance):
        return
    present = _capacities(kind, instance)
    for name, use in _beyond(kind, instance, present).items():
        yield f"jobs that may not be stopped hold {use} of {present[name]} {name}; nobody else gets any of it"
    ledger = _book(kind, instance)
    for capacity, kept in ledger.kept.items():
        stated, (limits, _) = ledger.tree.limits(capacity), limits_today(ledger.tree, capacity, kept)
        for name, limit in limits.items():
            if limit > stated[name]:
                yield (
                    f"{name} claims {limit} of {stated[name]} {capacity} for jobs that may not be stopped: "
                    "its limit is lower than that, and it gets nothing more"
                )


def positions(kind: ProblemType, instance: Any, plan: Any, ledger: TenantLedger) -> dict[str, int | None]:
    """Return the position of the option that every job gets in a plan, ``None`` where it may not have it."""
    if kind.option_set is None:
        return {}
    taken = kind.option_set.taken(instance, plan)
    found: dict[str, int | None] = {}
    for job_id, options in ledger.options.items():
        name = taken.get(job_id)
        found[job_id] = next(
            (
                place
                for place, option in enumerate(options)
                if option.name == name or (name is None and option.idle)
            ),
            None,
        )
    return found


def less_stops(kind: ProblemType, instance: Any, plan: Mapping[str, Any], total: Fraction) -> Fraction:
    """Return an exact objective with the costs of whom a plan stops."""
    ledger = ledger_of(kind, instance)
    places = positions(kind, instance, plan, ledger)
    stopped = sum((Fraction(cost) for cost in _stop_costs(places, ledger)), Fraction(0))
    return total - stopped if kind.maximizes(instance) else total + stopped


def checked(kind: ProblemType, instance: Any, plan: Any, report: Report) -> Report:
    """Return the report of a feasible plan with what tenants refuse, and less what stopping costs."""
    ledger = _book(kind, instance)
    places = positions(kind, instance, plan, ledger)
    violations: list[Violation] = []
    for job_id, place in places.items():
        if place is None:
            had = " or ".join(str(option.name) for option in ledger.options[job_id][:3])
            said = f"is running, may not be stopped or moved and must keep {had}"
            violations.append(Violation("preemptible", job_id, said))
    chosen = {job_id: ledger.options[job_id][place] for job_id, place in places.items() if place is not None}
    for capacity, total in shared_capacities(kind, instance).items():
        violations.extend(_quota_violations(ledger, capacity, total, chosen))
    for name, (floor, members) in ledger.floors.items():
        share = sum(ledger.share(job, place) for job in members if (place := places.get(job)) is not None)
        if share < floor:
            violations.append(Violation("floor", name, f"has a share of {share}, at least {floor} is due"))
    return Report(_less_stops(kind, instance, plan, report.objective, places, ledger), tuple(violations))


def _less_stops(
    kind: ProblemType,
    instance: Any,
    plan: Any,
    objective: float | None,
    places: Mapping[str, int | None],
    ledger: TenantLedger,
) -> float | None:
    """Return the objective with the costs of stopping: exactly, where sums of doubles would cancel."""
    sign = -1 if kind.maximizes(instance) else 1
    costs = list(_stop_costs(places, ledger))
    if objective is None or not any(costs):
        return objective
    total = objective + sign * math.fsum(costs)
    if abs(total) >= _KEPT * (abs(objective) + math.fsum(costs)):
        return total
    return float(kind.exact_objective(instance, plan) + sign * sum(map(Fraction, costs)))


def _quota_violations(
    ledger: TenantLedger, capacity: str, total: int, chosen: Mapping[str, Option]
) -> Iterator[Violation]:
    tree = ledger.tree
    used: dict[str, int] = {}
    for job_id, option in chosen.items():
        leaf = ledger.jobs[job_id].tenant
        if isinstance(leaf, str):
            used[leaf] = used.get(leaf, 0) + option.uses.get(capacity, 0)
    inside, claims = tree.claims(capacity, used)
    alone, least = tree.claims(capacity, ledger.kept.get(capacity, {}))
    guaranteed = tree.guarantees(capacity)
    for name, node in tree.nodes.items():
        quota = node.tenant.quotas.get(capacity)
        if quota is None or quota.borrowing_limit is None:
            continue
        limit = max(guaranteed[name] + quota.borrowing_limit, alone[name])
        if inside[name] > limit:
            yield Violation("quota", f"{capacity} of {name}", f"claims {inside[name]}, may have {limit}")
    yield from _non_preemptible_violations(ledger, capacity, chosen)
    together = sum(claims[root] for root in tree.roots)
    total = max(total, sum(least[root] for root in tree.roots))
    if together > total:
        yield Violation("lending", capacity, f"uses and what is not lent add up to {together} of {total}")


def _non_preemptible_violations(
    ledger: TenantLedger, capacity: str, chosen: Mapping[str, Option]
) -> Iterator[Violation]:
    kept = ledger.never_stopped.get(capacity, {})
    for name, guaranteed in ledger.tree.non_preemptible_limits(capacity).items():
        below = set(ledger.tree.below(name))
        used = sum(
            option.uses.get(capacity, 0)
            for job_id, option in chosen.items()
            if ledger.jobs[job_id].tenant in below and not ledger.is_preemptible(job_id)
        )
        if used > max(guaranteed, sum(kept.get(leaf, 0) for leaf in below)):
            said = f"jobs that are not preemptible use {used}, {guaranteed} are guaranteed"
            yield Violation("quota", f"{capacity} of {name}", said)


def _stop_costs(places: Mapping[str, int | None], ledger: TenantLedger) -> Iterator[float]:
    for job_id, place in places.items():
        if place is not None and ledger.options[job_id][place].idle:
            yield ledger.stop_costs[job_id]
