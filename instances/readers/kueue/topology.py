"""Workloads on the nodes of a topology: menus of flavors become pods, which lie on nodes.

A pair of flavor and resource stays one resource, ``a100/nvidia.com/gpu``, of which the flavor's nodes have
what is allocatable; a flavor without a topology is one node with its quota. So quotas and shares of tenants
are those of the menus, and every option says what each of its pods takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from apportion.core.errors import Problem
from apportion.instances.fields import LARGEST_USE
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.placement import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
    PlacementRunning,
)
from apportion.instances.placement.goals import (
    JobsStoppedGoal,
    LevelsClimbedGoal,
    PodsMovedGoal,
    ValueGoal,
)
from apportion.instances.readers.kueue.dump import (
    Notes,
    Pair,
    amount_of,
    integer,
    mapping,
    name_of,
    objects_of,
)
from apportion.instances.readers.kueue.workload_objects import (
    Assigned,
    Job,
    PodSet,
    parsed_option,
    requests_of,
    tolerates,
)
from apportion.instances.tenants import Quota, Tenant

__all__ = ["HOST", "assignment", "choice_of", "menus_of", "moved", "on_nodes", "per_pod", "topology_of"]

HOST = "kubernetes.io/hostname"
_APART = "flavor:"
"""Before the name of a flavor that has no topology, as a node."""
_SLASH, _BACK = ("/", ":"), (":", "/")
"""Between namespace and name in Kueue's words, and in a placement, where a slash comes before pods."""
_MANY = 10**6
"""Pods that such a node takes."""
_OF_TOPOLOGY = "kueue.x-k8s.io/tas"
"""Label of the pods that Kueue places; others take room."""
_TAINTED = ("NoSchedule", "NoExecute")

Objects = Mapping[str, list[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Topology:
    """The levels over the nodes, and the flavors that have them.

    Attributes
    ----------
    labels
        The labels of the levels from the top down.
    flavors
        The specs of its flavors, by name.
    """

    labels: tuple[str, ...]
    flavors: Mapping[str, Mapping[str, Any]]

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the placement: the last is that of the nodes."""
        return self.labels if self.labels[-1] == HOST else (*self.labels, HOST)


def topology_of(objects: Objects, notes: Notes) -> Topology | None:
    """Return the topology that flavors name; ``None`` where there is none, or no node is in the dump."""
    flavors = {name_of(one): mapping(one, "spec") for one in objects["ResourceFlavor"]}
    named = [str(spec["topologyName"]) for spec in flavors.values() if spec.get("topologyName")]
    known = {
        name_of(one): tuple(
            str(level.get("nodeLabel")) for level in objects_of(mapping(one, "spec"), "levels")
        )
        for one in objects["Topology"]
    }
    if not named or not objects["Node"] or not known.get(named[0]):
        _unused(objects, notes)
        return None
    if len(set(named)) > 1:
        notes.add("of several topologies one is used: flavors of others are places without nodes", named[0])
    own = {name: spec for name, spec in flavors.items() if spec.get("topologyName") == named[0]}
    return Topology(known[named[0]], own)


def _unused(objects: Objects, notes: Notes) -> None:
    """Note all that speaks of topologies where pods do not lie on nodes."""
    why = "is not used without nodes and topologies in the dump"
    for entry in objects["ResourceFlavor"]:
        if mapping(entry, "spec").get("topologyName"):
            notes.add(f"ResourceFlavor spec.topologyName {why}", name_of(entry))
    for entry in objects["Workload"]:
        held = objects_of(mapping(entry, "status", "admission"), "podSetAssignments")
        for sets, path, field in (
            (objects_of(mapping(entry, "spec"), "podSets"), "spec.podSets", "topologyRequest"),
            (held, "status.admission.podSetAssignments", "topologyAssignment"),
        ):
            if any(one.get(field) for one in sets):
                notes.add(f"Workload {path}.{field} {why}", name_of(entry))
    for kind in ("Topology", "Node", "Pod"):
        for entry in objects[kind]:
            notes.add(f"objects of kind {kind} are not used", name_of(entry))


def per_pod(jobs: Sequence[Job]) -> Iterator[tuple[Pair, int]]:
    """Yield what single pods of the options take."""
    for job in jobs:
        for option in job.options:
            for part, pods in _parts(job, option):
                for resource, flavor in part.flavors.items():
                    yield (flavor, resource), _each(pods, resource)


def _parts(job: Job, option: str) -> list[tuple[Assigned, PodSet]]:
    return [(part, job.sets.get(part.name) or _from_usage(part, job, option)) for part in _assigned(option)]


def _assigned(option: str) -> tuple[Assigned, ...]:
    return parsed_option(option) or ()


def _from_usage(part: Assigned, job: Job, option: str) -> PodSet:
    """Return a pod set whose pods take equal parts of what a workload holds, for want of its own."""
    pods = max(1, job.pods[option])
    uses = job.options[option]
    each = {
        resource: -(-uses.get((flavor, resource), 0) // pods) for resource, flavor in part.flavors.items()
    }
    return PodSet(part.name, (part.count,), each, {}, {})


def _each(pods: PodSet, resource: str) -> int:
    return pods.requests.get(resource, 1 if resource == "pods" else 0)


def on_nodes(
    menus: MultipleChoiceKnapsackInstance,
    jobs: Sequence[Job],
    topology: Topology,
    objects: Objects,
    units: Mapping[Pair, int],
    notes: Notes,
) -> PlacementInstance:
    """Return the placement of what the menus say.

    Parameters
    ----------
    menus
        Jobs, tenants and shares.
    jobs
        What was read of the same jobs.
    topology
        The levels.
    objects
        The dump by kind.
    units
        In what amounts of a pair are counted.
    notes
        Grows by what the placement does not say.
    """
    keys = {key for job in jobs for pods in job.sets.values() for key in mapping(pods.pod, "nodeSelector")}
    nodes = [*_nodes(topology, objects, units, keys, notes), *_without(topology, menus)]
    taints = {taint for node in nodes for taint in node.taints}
    free = _Free(nodes)
    made = [
        _job(k, job, topology, units, taints, free, notes) for k, job in zip(menus.jobs, jobs, strict=True)
    ]
    preferred = any(
        pods.preferred is not UNSET for job in made for option in job.options for pods in option.pods
    )
    goals = (ValueGoal(), JobsStoppedGoal(), PodsMovedGoal(), LevelsClimbedGoal()) if preferred else UNSET
    return PlacementInstance(
        schema_version="1",
        name=menus.name,
        levels=topology.levels,
        nodes=tuple(nodes),
        jobs=tuple(made),
        goals=goals,
        tenants=_kept(menus.tenants, nodes, notes),
        fairness=menus.fairness,
    )


def _kept(
    tenants: tuple[Tenant, ...] | UnsetType, nodes: Sequence[PlacementNodes], notes: Notes
) -> tuple[Tenant, ...] | UnsetType:
    """Return tenants whose guarantees the nodes can keep; what is taken off may be borrowed."""
    if tenants is UNSET:
        return UNSET
    total: dict[str, int] = {}
    for node in nodes:
        for key, own in node.capacity.items():
            total[key] = total.get(key, 0) + (max(0, own - node.used.get(key, 0)) if node.ready else 0)
    promised: dict[str, int] = {}
    for tenant in tenants:
        for key, quota in tenant.quotas.items():
            promised[key] = promised.get(key, 0) + (0 if tenant.parent else quota.guarantee)
    for key, amount in sorted(promised.items()):
        if amount > total.get(key, 0):
            notes.add("quotas are more than the nodes have free: guarantees are less in proportion", key)

    def less(key: str, quota: Quota) -> Quota:
        has, limit = total.get(key, 0), quota.borrowing_limit
        if promised[key] <= has:
            return quota
        kept = quota.guarantee * has // promised[key]
        more = None if limit is None else limit + quota.guarantee - kept
        return replace(quota, guarantee=kept, borrowing_limit=more)

    return tuple(
        replace(one, quotas={key: less(key, quota) for key, quota in one.quotas.items()}) for one in tenants
    )


def _nodes(
    topology: Topology, objects: Objects, units: Mapping[Pair, int], keys: set[str], notes: Notes
) -> Iterator[PlacementNodes]:
    """Yield the nodes that carry all levels and the labels of a flavor."""
    used = _used(objects, notes)
    for entry in objects["Node"]:
        name, labels = name_of(entry), mapping(entry, "metadata", "labels")
        own = [
            flavor
            for flavor, spec in topology.flavors.items()
            if mapping(spec, "nodeLabels").items() <= labels.items()
        ]
        if not own or not all(label in labels for label in topology.labels):
            notes.add("nodes that are of no flavor with a topology, or lack a level, are left out", name)
            continue
        allocatable = mapping(entry, "status", "allocatable")
        capacity, taken = dict[str, int](), dict[str, int]()
        for (flavor, resource), unit in units.items():
            if flavor in own and resource in allocatable:
                if next(one for one in own if (one, resource) in units) != flavor:
                    notes.add("nodes of several flavors count for the first", name)
                    continue
                has = amount_of(allocatable[resource], resource, f"Node {name} {resource}", notes)
                capacity[f"{flavor}/{resource}"] = min(has // unit, LARGEST_USE)
                takes = used.get(name, {}).get(resource, 0)
                taken[f"{flavor}/{resource}"] = min(-(-takes // unit), LARGEST_USE)
        if "pods" in allocatable:
            capacity["pods"] = amount_of(allocatable["pods"], "pods", f"Node {name} pods", notes)
            taken["pods"] = used.get(name, {}).get("pods", 0)
        conditions = objects_of(mapping(entry, "status"), "conditions")
        ready = all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")
        yield PlacementNodes(
            names=name,
            capacity=capacity,
            at={level: str(labels[level]) for level in topology.levels[:-1]},
            labels={key: str(labels[key]) for key in sorted(keys) if key in labels},
            taints=tuple(
                _said(taint)
                for taint in objects_of(mapping(entry, "spec"), "taints")
                if taint.get("effect") in _TAINTED
            ),
            ready=ready and not mapping(entry, "spec").get("unschedulable"),
            used={resource: amount for resource, amount in taken.items() if amount},
        )


def _used(objects: Objects, notes: Notes) -> dict[str, dict[str, int]]:
    """Return what pods that Kueue does not place take, by node."""
    found: dict[str, dict[str, int]] = {}
    own = Notes()  # fields of others' pods are nobody's affair, wrong amounts are
    for entry in objects["Pod"]:
        spec, phase = mapping(entry, "spec"), mapping(entry, "status").get("phase")
        if (
            not spec.get("nodeName")
            or phase in ("Succeeded", "Failed")
            or _OF_TOPOLOGY in mapping(entry, "metadata", "labels")
        ):
            continue
        at = found.setdefault(str(spec["nodeName"]), {})
        for resource, amount in {**requests_of(spec, name_of(entry), own), "pods": 1}.items():
            at[resource] = at.get(resource, 0) + amount
    notes.problems += own.problems
    if not objects["Pod"]:
        notes.add("no pods are in the dump: nodes are taken to be free of others", "pods")
    return found


def _without(topology: Topology, menus: MultipleChoiceKnapsackInstance) -> Iterator[PlacementNodes]:
    """Yield a node for every flavor without the topology, with its quota."""
    apart: dict[str, dict[str, int]] = {}
    for name, amount in menus.capacities.items():
        flavor = name.partition("/")[0]
        if flavor not in topology.flavors:
            apart.setdefault(flavor, {})[name] = min(amount, LARGEST_USE)
    for flavor, capacity in apart.items():
        at = dict.fromkeys(topology.levels[:-1], _APART + flavor)
        yield PlacementNodes(names=_APART + flavor, capacity=capacity | {"pods": _MANY}, at=at)


class _Free:
    """What is free on nodes, to find some for pods whose nodes the dump does not say."""

    def __init__(self, nodes: Sequence[PlacementNodes]) -> None:
        self._left = {
            node.names: {key: own - node.used.get(key, 0) for key, own in node.capacity.items()}
            for node in nodes
        }

    def take(self, node: str, pods: PlacementPods, count: int) -> None:
        """Take what pods need."""
        left = self._left.get(node, {})
        for resource, need in pods.needs.items():
            left[resource] = left.get(resource, 0) - need * count

    def found(self, pods: PlacementPods, count: int) -> dict[str, int]:
        """Return nodes that hold so many pods, the first ones; fewer where there are none."""
        on: dict[str, int] = {}
        for node, left in self._left.items():
            room = min((left.get(key, 0) // need for key, need in pods.needs.items() if need), default=0)
            if count and room > 0:
                on[node] = min(count, room)
                self.take(node, pods, on[node])
                count -= on[node]
        return on


def _job(
    menu: KnapsackJob,
    job: Job,
    topology: Topology,
    units: Mapping[Pair, int],
    taints: set[str],
    free: _Free,
    notes: Notes,
) -> PlacementJob:
    options = []
    flavors: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for part in chain.from_iterable(map(_assigned, job.options)):
        flavors.setdefault(part.name, set()).add(tuple(sorted(part.flavors.items())))
    for option in menu.options:
        parts = [one for one in _parts(job, option.id) if one[0].count]
        pods = tuple(
            _pods(part, asked, _name(part, flavors), topology, units, taints, job.id, notes)
            for part, asked in parts
        )
        groups = {mapping(asked.topology).get("podSetGroupName") for _, asked in parts}
        together = len(pods) > 1 and len(groups) == 1 and None not in groups
        levels = {one.required for one in pods} - {UNSET}
        if together and len(levels) == 1:
            pods = tuple(replace(one, required=UNSET) for one in pods)
            options.append(PlacementOption(option.id, pods, option.value, levels.pop()))
        else:
            options.append(PlacementOption(option.id, pods, option.value))
    current = None
    if menu.current is not None:
        runs = next(one for one in options if one.id == menu.current)
        on = {pods.name: _on(pods, job, topology, free, notes) for pods in runs.pods}
        current = PlacementRunning(runs.id, {name: nodes for name, nodes in on.items() if nodes})
    return PlacementJob(
        id=menu.id.replace(*_SLASH),
        options=tuple(options),
        required=menu.required,
        current=current,
        tenant=menu.tenant,
        preemptible=menu.preemptible,
        submitted_s=menu.submitted_s,
        priority=menu.priority,
    )


def _name(part: Assigned, flavors: Mapping[str, Collection[Any]]) -> str:
    """Return a name that only pods of the same flavors have: others are not the same pods.

    Parameters
    ----------
    part
        Pods of an option.
    flavors
        By the name of pod sets, the choices of flavors that the job's options have.
    """
    if len(flavors[part.name]) == 1:
        return part.name
    return f"{part.name}@{'+'.join(sorted(set(part.flavors.values())))}"


def _pods(
    part: Assigned,
    asked: PodSet,
    name: str,
    topology: Topology,
    units: Mapping[Pair, int],
    taints: set[str],
    job: str,
    notes: Notes,
) -> PlacementPods:
    needs = {
        f"{flavor}/{resource}": _each(asked, resource) // units[flavor, resource]
        for resource, flavor in part.flavors.items()
    }
    placed = any(flavor in topology.flavors for flavor in part.flavors.values())
    request, selector = (asked.topology, mapping(asked.pod, "nodeSelector")) if placed else ({}, {})
    levels: dict[str, Any] = {"required": UNSET, "preferred": UNSET}
    slices = [(request.get("podSetSliceRequiredTopology"), request.get("podSetSliceSize"))]
    for layer in objects_of(request, "podsetSliceRequiredTopologyConstraints"):
        slices.append((layer.get("topology"), layer.get("size")))
    for field in levels:
        if request.get(field):
            levels[field] = str(request[field])
    where = f"Workload {job} topologyRequest"
    sizes = {str(level): integer(size, 0, where, notes) for level, size in slices if level}
    unknown = {*sizes, *levels.values()} - {UNSET, *topology.levels}
    if unknown or any(size < 1 for size in sizes.values()):
        what = f"level {min(map(str, unknown))}" if unknown else "size of slices"
        notes.problems.append(Problem(f"Workload {job}", f"asks for no {what} of the topology"))
        levels, sizes = {}, {}
    own = chain.from_iterable(
        objects_of(topology.flavors.get(flavor, {}), "tolerations") for flavor in set(part.flavors.values())
    )
    tolerations = [*objects_of(asked.pod, "tolerations"), *own]
    return PlacementPods(
        needs={resource: need for resource, need in needs.items() if need},
        count=part.count,
        name=name,
        slices=sizes,
        selector={str(key): str(value) for key, value in selector.items()},
        tolerates=tuple(
            sorted(taint for taint in taints if any(tolerates(one, _read(taint)) for one in tolerations))
        ),
        **levels,
    )


def _said(taint: Mapping[str, Any]) -> str:
    return f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"


def _read(taint: str) -> dict[str, str]:
    key, _, rest = taint.partition("=")
    value, _, effect = rest.rpartition(":")
    return {"key": key, "value": value, "effect": effect}


def _on(pods: PlacementPods, job: Job, topology: Topology, free: _Free, notes: Notes) -> dict[str, int]:
    """Return the nodes of running pods: as admitted, less those that were given back."""
    flavors = {resource.partition("/")[0] for resource in pods.needs}
    apart = sorted(flavors - topology.flavors.keys())
    if apart:
        return {_APART + apart[0]: pods.count}
    on: dict[str, int] = {}
    left = pods.count
    for values, count in job.places.get(pods.name.partition("@")[0], ()):
        if topology.labels[-1] == HOST and left and count:
            on[values[-1]] = on.get(values[-1], 0) + min(left, count)
            left -= min(left, count)
    for node, count in on.items():
        free.take(node, pods, count)
    if left:
        notes.add(
            "running pods whose nodes the dump does not say are taken to be on the first free ones", job.id
        )
        for node, count in free.found(pods, left).items():
            on[node] = on.get(node, 0) + count
    return on


def choice_of(plan: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what every job gets by a plan of menus or of a placement."""
    choice: Mapping[str, str] | None = plan.get("choice")
    if choice is not None:
        return choice
    return {name.replace(*_BACK): one["option"] for name, one in plan["placement"].items()}


def menus_of(instance: Any) -> Any:
    """Return an instance of `read_dump` without its nodes; any other as it is."""
    if not isinstance(instance, PlacementInstance):
        return instance
    jobs = []
    for job in instance.jobs:
        options = []
        for option in job.options:
            uses: dict[str, int] = {}
            for pods in option.pods:
                for resource, need in pods.needs.items():
                    uses[resource] = uses.get(resource, 0) + need * pods.count
            options.append(KnapsackOption(option.id, option.value, uses))
        jobs.append(
            KnapsackJob(
                id=job.id.replace(*_BACK),
                options=tuple(options),
                required=False,
                current=None if job.current is None else job.current.option,
                tenant=job.tenant,
            )
        )
    tenants = () if instance.tenants is UNSET else instance.tenants
    pairs = {resource: 0 for job in jobs for option in job.options for resource in option.uses}
    for tenant in tenants:
        for resource, quota in tenant.quotas.items():
            pairs[resource] = pairs.get(resource, 0) + quota.guarantee
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense="maximize",
        capacities=pairs,
        jobs=tuple(jobs),
        tenants=instance.tenants if tenants else UNSET,
    )


def moved(instance: Any, plan: Mapping[str, Any], job: str) -> int:
    """Return how many pods of a running job, which keeps its option, are to be on other nodes."""
    if not isinstance(instance, PlacementInstance):
        return 0
    name = job.replace(*_SLASH)
    runs = next(one.current for one in instance.jobs if one.id == name)
    if runs is None:
        return 0
    on: Mapping[str, Mapping[str, int]] = plan["placement"][name]["on"]
    return sum(
        max(0, count - on.get(name, {}).get(node, 0))
        for name, nodes in runs.on.items()
        for node, count in nodes.items()
    )


def assignment(plan: Mapping[str, Any], job: str) -> dict[str, dict[str, Any]]:
    """Return where the pods of a job's pod sets lie, as Kueue's v1beta1 writes a topology assignment."""
    found = {}
    placed = plan.get("placement", {}).get(job.replace(*_SLASH), {"on": {}})
    for name, on in placed["on"].items():
        if not any(node.startswith(_APART) for node in on):
            domains = [{"values": [node], "count": count} for node, count in sorted(on.items())]
            found[name.partition("@")[0]] = {"levels": [HOST], "domains": domains}
    return found
