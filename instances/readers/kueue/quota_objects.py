"""Cluster queues and cohorts: which tenant has what of every pair of flavor and resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apportion.errors import Problem
from apportion.instances.readers.kueue.dump import Notes, listed, mapping, name_of, whole
from apportion.instances.readers.kueue.quantities import amount

__all__ = ["COHORT", "Holder", "holders"]

COHORT = "cohort:"
"""Before the names of cohorts, which may be those of queues as well."""

_QUEUE_FIELDS = ("resourceGroups", "cohort", "cohortName", "fairSharing", "preemption", "stopPolicy")
_COHORT_FIELDS = ("resourceGroups", "parent", "parentName", "fairSharing")

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Holder:
    """A cluster queue or a cohort.

    Attributes
    ----------
    id
        Its tenant's id.
    parent
        Its parent's, ``None`` at the top.
    weight
        Fair-sharing weight.
    groups
        Flavors in order and resources, of each resource group.
    nominal, borrowing, lending
        By pair; a missing limit is none.
    is_queue
        Whether workloads may belong to it.
    takes
        Whether pending workloads may be admitted.
    preempts, gives
        Whether its workloads may pre-empt those of other queues, or of its own.
    """

    id: str
    parent: str | None
    weight: float
    groups: tuple[tuple[tuple[str, ...], frozenset[str]], ...]
    nominal: Mapping[Pair, int]
    borrowing: Mapping[Pair, int]
    lending: Mapping[Pair, int]
    is_queue: bool
    takes: bool = True
    preempts: bool = False
    gives: bool = False


def holders(objects: Mapping[str, list[Mapping[str, Any]]], notes: Notes) -> dict[str, Holder]:
    """Return queues and cohorts by id; a cohort that is only named is one without quota."""
    found: dict[str, Holder] = {}
    for kind in ("Cohort", "ClusterQueue"):
        for entry in objects[kind]:
            holder = _holder(kind, entry, notes)
            if holder.id in found:
                notes.problems.append(Problem(f"{kind} {name_of(entry)}", "stands twice"))
            found[holder.id] = holder
    for holder in tuple(found.values()):
        if holder.parent is not None and holder.parent not in found:
            found[holder.parent] = Holder(holder.parent, None, 1.0, (), {}, {}, {}, is_queue=False)
    for name in found:
        above, seen = found[name].parent, {name}
        while above is not None and above not in seen:
            seen.add(above)
            above = found[above].parent
        if above is not None:
            notes.problems.append(Problem(name, "hangs on a circle of cohorts"))
    return found


def _holder(kind: str, entry: Mapping[str, Any], notes: Notes) -> Holder:
    name, spec, is_queue = name_of(entry), mapping(entry, "spec"), kind == "ClusterQueue"
    notes.unused(kind, name, "spec", spec, _QUEUE_FIELDS if is_queue else _COHORT_FIELDS)
    fields = ("cohortName", "cohort") if is_queue else ("parentName", "parent")
    parent = next((spec[field] for field in fields if spec.get(field)), None)
    tables: tuple[dict[Pair, int], ...] = ({}, {}, {})
    groups = []
    for group in listed(spec, "resourceGroups"):
        flavors = []
        for flavor in listed(group, "flavors"):
            flavors.append(str(flavor.get("name")))
            for quota in listed(flavor, "resources"):
                resource = str(quota.get("name"))
                where = f"{kind} {name} {flavors[-1]}/{resource}"
                for table, field in zip(
                    tables, ("nominalQuota", "borrowingLimit", "lendingLimit"), strict=True
                ):
                    if quota.get(field) is not None:
                        given = whole(quota[field], resource, f"{where}.{field}", notes)
                        table[flavors[-1], resource] = given
                notes.unused(
                    kind,
                    name,
                    "spec.resourceGroups.flavors.resources",
                    quota,
                    ("name", "nominalQuota", "borrowingLimit", "lendingLimit"),
                )
        covered = group.get("coveredResources")
        resources = [str(one) for one in covered] if isinstance(covered, list) else []
        groups.append((tuple(flavors), frozenset(resources)))
    stop = str(spec.get("stopPolicy") or "None")
    if stop == "HoldAndDrain":
        notes.add("ClusterQueue spec.stopPolicy HoldAndDrain is read as Hold: nobody is drained", name)
    preemption = mapping(spec, "preemption")
    reclaims, within = _policy(preemption, "reclaimWithinCohort"), _policy(preemption, "withinClusterQueue")
    for field, policy in (("reclaimWithinCohort", reclaims), ("withinClusterQueue", within)):
        if policy not in ("Any", "Never"):
            notes.add(f"{kind} spec.preemption.{field} {policy} is read as: anybody may be stopped", name)
    notes.unused(kind, name, "spec.preemption", preemption, ("reclaimWithinCohort", "withinClusterQueue"))
    return Holder(
        id=name if is_queue else COHORT + name,
        parent=None if parent is None else COHORT + str(parent),
        weight=_weight(kind, name, spec, notes),
        groups=tuple(groups),
        nominal=tables[0],
        borrowing=tables[1],
        lending=tables[2],
        is_queue=is_queue,
        takes=stop == "None",
        preempts=reclaims != "Never",
        gives=within != "Never",
    )


def _policy(preemption: Mapping[str, Any], field: str) -> str:
    return str(preemption.get(field) or "Never")


def _weight(kind: str, name: str, spec: Mapping[str, Any], notes: Notes) -> float:
    given = mapping(spec, "fairSharing").get("weight", 1)
    try:
        exact = amount(given)
        if not 0 <= exact <= 10**9:
            raise ValueError(f"must be from 0 to 10^9, is {given!r}")
    except ValueError as error:
        notes.problems.append(Problem(f"{kind} {name} spec.fairSharing.weight", str(error)))
        return 1.0
    return float(exact)
