"""A dump of Kueue's objects as one instance: menus of flavors and counts, quotas in a tree of tenants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from msgspec import UNSET

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.fields import LARGEST_USE
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.placement import PlacementInstance
from apportion.instances.readers.kueue.dump import Dump, Holder, Notes, Pair, by_kind, holders, topology_of
from apportion.instances.readers.kueue.topology import on_nodes, per_pod
from apportion.instances.readers.kueue.workload_objects import SLICES, Job, jobs_of
from apportion.instances.tenants import Fairness, Quota, Tenant

__all__ = ["Dump", "read_dump"]

_SHOWN = 20
MILLI = 1000
"""Amounts of cores are told in thousandths."""
_LARGEST_WORTH = 2**50
"""What all pods are worth together at most: a double still counts single pods."""
_AFTER_SHARES = "Workload spec.priority decides between plans of the same shares of queues, not before these"


def read_dump(
    raw: bytes, name: str = "kueue"
) -> Dump[MultipleChoiceKnapsackInstance] | Dump[PlacementInstance]:
    """Read what ``kubectl get clusterqueues,cohorts,resourceflavors,localqueues,workloads -A -o json`` says.

    Every pair of flavor and resource is a capacity ``flavor/resource``. A queue's nominal quota is its
    guarantee, a cohort's guarantee adds those below it; whole trees lend each other nothing. A workload is
    a job that may wait; an option is worth its pods, and one pod of a higher priority more than all pods of
    lower ones. Where flavors have a topology, and it and nodes are in the dump, pods lie on nodes.

    Raises
    ------
    InvalidInstance
        If the dump is no JSON, or says something that cannot be.
    """
    notes = Notes()
    objects = by_kind(raw, notes)
    tenants = holders(objects, notes)
    if not objects["ClusterQueue"] and not notes.problems:
        notes.problems.append(Problem("$.items", "has no ClusterQueue of kueue.x-k8s.io"))
    topology = topology_of(objects, notes)
    jobs = [] if notes.problems else jobs_of(objects, tenants, topology, notes)
    if notes.problems:
        raise InvalidInstance(notes.problems[:_SHOWN])
    units = _units(tenants, jobs, () if topology is None else per_pod(jobs))
    for pair, unit in sorted(units.items()):
        if unit not in (1, MILLI):
            notes.add(f"capacities {_called(pair)} are counted in units of {unit}", pair[0])
    guarantees = _guarantees(tenants)
    roots = [holder.id for holder in tenants.values() if holder.parent is None]
    capacities = {
        _called(pair): sum(guarantees[root].get(pair, 0) for root in roots) // unit
        for pair, unit in sorted(units.items())
    }
    worths = _worths(jobs, notes)
    pending = [job for job in jobs if job.current is None or SLICES in job.id]
    instance = MultipleChoiceKnapsackInstance(
        schema_version="1",
        name=name,
        sense="maximize",
        capacities=capacities,
        jobs=tuple(_job(job, tenants, units, worths[job.priority], pending) for job in jobs),
        tenants=tuple(_tenant(holder, guarantees[holder.id], units) for holder in tenants.values()),
        fairness=Fairness(share="dominant_share", over="tree"),
    )
    if topology is None:
        return Dump(instance, tuple(notes.lines()))
    placed = on_nodes(instance, jobs, topology, objects, units, notes)
    if notes.problems:
        raise InvalidInstance(notes.problems[:_SHOWN])
    return Dump(placed, tuple(notes.lines()))


def _guarantees(tenants: Mapping[str, Holder]) -> dict[str, dict[Pair, int]]:
    """Return what every subtree has by pair: its own and that of everything below."""
    found: dict[str, dict[Pair, int]] = {name: {} for name in tenants}
    for holder in tenants.values():
        at: str | None = holder.id
        while at is not None:
            for pair, quota in holder.nominal.items():
                found[at][pair] = found[at].get(pair, 0) + quota
            at = tenants[at].parent
    return found


def _units(
    tenants: Mapping[str, Holder], jobs: list[Job], also: Iterable[tuple[Pair, int]]
) -> dict[Pair, int]:
    """Return by pair the unit of its amounts: cores, and else a larger one only where numbers need it."""
    amounts: dict[Pair, set[int]] = {}
    for pair, amount in also:
        amounts.setdefault(pair, set()).add(amount)
    for holder in tenants.values():
        for table in (holder.nominal, holder.borrowing, holder.lending):
            for pair, amount in table.items():
                amounts.setdefault(pair, set()).add(amount)
    for job in jobs:
        for uses in job.options.values():
            for pair, amount in uses.items():
                amounts.setdefault(pair, set()).add(amount)
    units = {}
    for pair, of in amounts.items():
        common, whole = max(1, gcd(*of)), MILLI if pair[1] == "cpu" else 1
        units[pair] = whole if common % whole == 0 and max(of) // whole <= LARGEST_USE else common
    return units


def _tenant(holder: Holder, guarantee: Mapping[Pair, int], units: Mapping[Pair, int]) -> Tenant:
    quotas = {}
    for pair, amount in sorted(guarantee.items()):
        limit = holder.borrowing.get(pair) if holder.parent is not None else 0
        lending = holder.lending.get(pair)
        unit = units[pair]
        quotas[_called(pair)] = Quota(
            amount // unit,
            None if limit is None else limit // unit,
            None if lending is None or holder.parent is None else lending // unit,
        )
    return Tenant(id=holder.id, parent=holder.parent, weight=holder.weight, quotas=quotas)


def _worths(jobs: list[Job], notes: Notes) -> dict[int, int]:
    """Return what a pod of every priority is worth: more than all pods of lower ones together.

    Where that needs more than `_LARGEST_WORTH`, the lowest priorities count alike, and a note says so.
    """
    pods: dict[int, int] = {}
    for job in jobs:
        pods[job.priority] = pods.get(job.priority, 0) + max(job.pods.values(), default=0)
    classes = [[priority] for priority in sorted(pods)]
    while True:
        found, below = dict[int, int](), 0
        for alike in classes:
            worth = below + 1
            found |= dict.fromkeys(alike, worth)
            below += worth * sum(pods[priority] for priority in alike)
        if below <= _LARGEST_WORTH or len(classes) == 1:
            break
        classes = [classes[0] + classes[1], *classes[2:]]
    lowest = classes[0] if classes else []
    if len(lowest) > 1:
        notes.add(f"priorities up to {lowest[-1]} count alike: there are too many", "spec.priority")
    for job in jobs:
        if job.priority not in lowest:
            notes.add(_AFTER_SHARES, job.id)
    return found


def _job(
    job: Job, tenants: Mapping[str, Holder], units: Mapping[Pair, int], worth: int, pending: list[Job]
) -> KnapsackJob:
    options = []
    for option, uses in job.options.items():
        counted = {_called(pair): amount // units[pair] for pair, amount in uses.items() if amount}
        if any(amount > LARGEST_USE for amount in counted.values()):
            raise InvalidInstance(
                Problem(f"Workload {job.id}", f"{option} uses more than {LARGEST_USE} units")
            )
        options.append(KnapsackOption(option, float(worth * job.pods[option]), counted))
    running, sliced = job.current is not None, SLICES in job.id
    stoppable = running and _may_be_stopped(job, tenants, pending)
    return KnapsackJob(
        id=job.id,
        options=tuple(options),
        required=sliced and not stoppable,
        current=job.current,
        tenant=job.queue,
        preemptible=stoppable if running and not sliced else UNSET,
        submitted_s=job.created_s,
        priority=job.priority,
    )


def _may_be_stopped(job: Job, tenants: Mapping[str, Holder], pending: list[Job]) -> bool:
    """Tell whether a pending workload may stop a running one, by the policy of its own queue.

    ``LowerPriority`` stops lower priorities alone, ``LowerOrNewerEqualPriority`` also an equal one that is
    newer, ``Any`` all.
    """
    root = _root(tenants[job.queue], tenants)
    for other in pending:
        holder = tenants[other.queue]
        policy = holder.gives if other.queue == job.queue else holder.preempts
        if policy == "Never" or other.id == job.id or _root(holder, tenants) != root:
            continue
        newer = policy == "LowerOrNewerEqualPriority" and job.created_s > other.created_s
        if policy == "Any" or other.priority > job.priority or (newer and other.priority == job.priority):
            return True
    return False


def _root(holder: Holder, tenants: Mapping[str, Holder]) -> str:
    while holder.parent is not None:
        holder = tenants[holder.parent]
    return holder.id


def _called(pair: Pair) -> str:
    return f"{pair[0]}/{pair[1]}"
