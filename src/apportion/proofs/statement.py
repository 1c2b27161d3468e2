"""An instance as a plain statement in JSON, for a checker that shares nothing with this package.

What a job may get is what its kind offers (`apportion.instances.tenants.options`), the limits of tenants and
the shares that must be reached among the capacities. Values, times and amounts are exact. The fields are
listed in `apportion.proofs.reference`, which reads statements; `apportion.proofs.stating`, by which the
package's own checker states an instance, is another way to the same menus.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from apportion.instances import FreezingInstance, MatchingEntry, MatchingInstance, kind_of
from apportion.instances.freezing.check import configuration_name
from apportion.instances.freezing.nodes import nodes_of
from apportion.instances.tenants.check import ledger_of, shared_capacities
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.proofs.certificate import instance_digest

__all__ = ["Statement", "statement_of"]

Statement = dict[str, Any]
"""As it stands in JSON."""
_Option = dict[str, Any]


def statement_of(instance: Any, plan: Any = None) -> Statement:
    """Return the statement of an instance, or of a bare model.

    Parameters
    ----------
    instance
        Where shares are due, the instance under its floors.
    plan
        A plan to be stated beside it, if it says for every job all that a choice of options needs: none where
        jobs lie on nodes or on pools of several machines.
    """
    if isinstance(instance, MultipleChoiceKnapsack):
        found = _of_menus(instance)
    elif isinstance(instance, Assignment):
        found = _of_assignment(instance)
    elif isinstance(instance, MatchingInstance):
        found = _of_matching(instance)
    else:
        found = _of_kind(instance)
    alone = all(pool["count"] == 1 for pool in found["pools"]) and found["goal"] != "shares"
    if plan is not None and alone and not found["nodes"] and not isinstance(instance, Assignment):
        found["plan"] = _chosen(instance, plan, found["jobs"])
    return {"format": "apportion-statement", "version": 1, "instance": instance_digest(instance), **found}


def _number(value: float | Fraction) -> int | str:
    """Return a number exactly: a whole one as it is, a fraction as text."""
    above, below = value.as_integer_ratio()
    return above if below == 1 else f"{above}/{below}"


def _of_kind(instance: Any) -> Statement:
    kind = kind_of(instance)
    ledger = ledger_of(kind, instance)
    configured: dict[str | None, tuple[str, int]] = {}
    nodes: dict[str, Any] = {}
    if isinstance(instance, FreezingInstance):
        rows = (
            (row.gpu_type, row.gpus, depth)
            for job in instance.jobs
            for row in job.menu
            for depth in row.depths
        )
        configured = {configuration_name(*row): row[:2] for row in rows}
        sized = ((name, nodes_of(instance, name)) for name in instance.gpus)
        nodes = {name: {"size": one.size, "rooms": one.room()} for name, one in sized if one is not None}
    jobs = []
    for job, offers in ledger.offers.items():
        options = []
        for place, offer in enumerate(offers):
            option: _Option = {
                "name": offer.name,
                "value": _number(offer.value),
                "uses": ledger.uses(job, place),
            }
            if offer.name in configured:
                option["gpu_type"], option["gpus"] = configured[offer.name]
            options.append(option)
        jobs.append({"name": job, "options": options})
    return {
        "goal": "maximize" if kind.maximizes(instance) else "minimize",
        "capacities": dict(ledger.limits),
        "pools": [],
        "nodes": nodes,
        "jobs": jobs,
        "prices": ["capacities", "cuts"] if isinstance(instance, FreezingInstance) else ["capacities"],
    }


def _of_matching(instance: MatchingInstance) -> Statement:
    kind = kind_of(instance)
    ledger, shared = ledger_of(kind, instance), shared_capacities(kind, instance)
    number = {pool.id: at for at, pool in enumerate(instance.machines)}
    steps = [
        math.gcd(*(job.on[pool.id].uses for job in instance.jobs if pool.id in job.on))
        for pool in instance.machines
    ]
    jobs = []
    for job in instance.jobs:
        options = []
        for place, offer in enumerate(ledger.offers[job.id]):
            uses = {name: use for name, use in ledger.uses(job.id, place).items() if name not in shared}
            option: _Option = {"name": offer.name, "value": _number(offer.value), "uses": uses}
            if offer.name is not None:
                option |= _on(number[offer.name], job.on[offer.name])
            options.append(option)
        offered = {option["name"] for option in options}
        barred = [_on(number[name], entry) for name, entry in job.on.items() if name not in offered]
        jobs.append({"name": job.id, "options": options} | ({"barred": barred} if barred else {}))
    return {
        "goal": _goal(instance.objective, divisible=instance.divisible),
        "capacities": {name: room for name, room in ledger.limits.items() if name not in shared},
        "pools": [
            {"name": pool.id, "count": pool.count, "capacity": _whole_uses(pool.capacity, step)}
            for pool, step in zip(instance.machines, steps, strict=True)
        ],
        "nodes": {},
        "jobs": jobs,
        "prices": ["pools", "cuts", "capacities"],
    }


def _on(pool: int, entry: MatchingEntry) -> _Option:
    """Return what an entry says of the pool's machines."""
    time = _number(entry.time_s or 0.0)
    return {"pool": pool, "time": time, "gang": entry.gpus, "use": entry.uses}


def _whole_uses(capacity: int | None, step: int) -> int | None:
    """Return what of a machine's capacity jobs can use whose uses are multiples of a number."""
    return capacity if capacity is None or not step else capacity // step * step


def _goal(objective: str, *, divisible: bool) -> str:
    if divisible:
        return "shares"
    return {"value": "maximize", "cost": "minimize"}.get(objective, objective)


def _of_menus(model: MultipleChoiceKnapsack) -> Statement:
    names = _apart(model.capacity_names)
    uses = model.uses.tolist()
    options: list[_Option] = [
        {
            "name": str(row),
            "value": _number(value),
            "uses": {k: use for k, use in zip(names, own, strict=True) if use},
        }
        for row, (value, own) in enumerate(zip(model.values.tolist(), uses, strict=True))
    ]
    return {
        "goal": model.sense,
        "capacities": dict(zip(names, model.capacities.tolist(), strict=True)),
        "pools": [],
        "nodes": {},
        "jobs": list(_jobs(options, model.offsets.tolist(), model.required.tolist())),
        "prices": ["capacities"],
    }


def _of_assignment(model: Assignment) -> Statement:
    """State a bare assignment: a machine's capacity bounds all uses on it, its units of time are a pool's."""
    limited = [at for at, one in enumerate(model.limited.tolist()) if one]
    names = dict(zip(limited, _apart([model.pool_names[model.pool[at]] for at in limited]), strict=True))
    timed = model.goal == "makespan"
    arrays = (model.machine, model.values, model.uses, model.gpus)
    options = [
        {
            "name": str(row),
            "value": 0 if timed else _number(value),
            "uses": {names[machine]: use} if machine in names and use else {},
            "pool": machine,
            "time": _number(value) if timed else 0,
            "gang": gpus,
            "use": 0,
        }
        for row, (machine, value, use, gpus) in enumerate(zip(*(one.tolist() for one in arrays), strict=True))
    ]
    return {
        "goal": _goal(model.goal, divisible=model.divisible),
        "capacities": {names[at]: int(model.capacities[at]) for at in limited},
        "pools": [
            {"name": str(at), "count": count, "capacity": None}
            for at, count in enumerate(model.counts.tolist())
        ],
        "nodes": {},
        "jobs": list(_jobs(options, model.offsets.tolist(), model.required.tolist())),
        "prices": ["capacities", "pools"],
    }


def _jobs(options: list[_Option], offsets: Sequence[int], required: Sequence[bool]) -> Iterator[Statement]:
    for job, (first, last) in enumerate(pairwise(offsets)):
        nothing: list[_Option] = [] if required[job] else [{"name": None, "value": 0, "uses": {}}]
        yield {"name": str(job), "options": [*options[first:last], *nothing]}


def _apart(names: Sequence[str]) -> list[str]:
    """Return names that differ: of equal ones all but the first get their position."""
    return [name if names.index(name) == at else f"{name} #{at}" for at, name in enumerate(names)]


def _chosen(instance: Any, plan: Any, jobs: Sequence[Statement]) -> list[int]:
    """Return the position of the option that every job has in a plan; being left out has a name or none."""
    if isinstance(instance, MultipleChoiceKnapsack):
        taken: Mapping[str, Any] = {str(j): str(row) for j, row in enumerate(plan.tolist()) if row >= 0}
    else:
        offering = kind_of(instance).offering
        assert offering is not None
        taken = offering.taken(instance, plan)
    found = []
    for job in jobs:
        names = [option["name"] for option in job["options"]]
        name = taken.get(job["name"])
        found.append(names.index(name) if name in names else len(names) - 1)
    return found
