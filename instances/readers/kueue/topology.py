"""Workloads on the nodes of a topology: menus of flavors become pods, which lie on nodes.

A pair of flavor and resource stays one resource, ``a100/nvidia.com/gpu``, of which the flavor's nodes have
what is allocatable; a flavor without a topology is one node with its quota. So quotas and shares of tenants
are those of the menus, and every option says what each of its pods takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from apportion.instances.fields import LARGEST_USE
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
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
from apportion.instances.placement.site import refusal
from apportion.instances.readers.kueue.dump import (
    HOST,
    Notes,
    Objects,
    Pair,
    Topology,
    amount_of,
    kept_guarantees,
    mapping,
    name_of,
    objects_of,
    requests_of,
)
from apportion.instances.readers.kueue.workload_objects import (
    Assigned,
    Job,
    PodSet,
    parsed_option,
    slices_of,
    tolerates,
)

__all__ = ["APART", "SLASH", "on_nodes", "per_pod"]

APART = "flavor:"
"""Before the name of a flavor that has no topology, as a node."""
SLASH = ("/", ":")
"""Between namespace and name in Kueue's words, and in a placement, where a slash comes before pods."""
_MANY = 10**6
"""Pods that a node takes of which nobody says how many."""
_OF_TOPOLOGY = "kueue.x-k8s.io/tas"
"""Label of the pods that Kueue places; others take room."""
_WORKLOAD, _POD_SET = "kueue.x-k8s.io/workload", "kueue.x-k8s.io/podset"
"""Annotation and label of a pod: whose it is."""
_ENDED = ("Succeeded", "Failed")
_NOWHERE = "no known node"
"""Where running pods are that no free node holds, and what no node has: jobs there are placed anew."""
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""The taint that Kubernetes gives a cordoned node: what runs there stays."""
_EVICTS = "NoExecute"
_TAINTED = ("NoSchedule", _EVICTS)


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
    limited = any("pods" in mapping(entry, "status", "allocatable") for entry in objects["Node"])
    without = _without(topology, menus, limited=limited)
    nodes = [*_nodes(topology, objects, units, keys, notes, limited=limited), *without]
    resources = {resource for node in nodes for resource in node.capacity}
    if lost := {f"{flavor}/{resource}" for flavor, resource in units} - resources:
        at, none = dict.fromkeys(topology.levels[:-1], _NOWHERE), dict.fromkeys(sorted(lost), 0)
        nodes.append(PlacementNodes(names=_NOWHERE, capacity=none, at=at, ready=False))
    taints = {taint for node in nodes for taint in node.taints}
    free = _Free(nodes, topology.levels, objects)
    made = [
        _job(menu, job, topology, units, taints, free, notes)
        for menu, job in zip(menus.jobs, jobs, strict=True)
    ]
    nodes, made = _with_what_stays([*_with_room_for_what_stays(nodes, made, notes)], made)
    free_of_others: dict[str, int] = {}
    for node in nodes:
        for key, has in node.capacity.items():
            left = max(0, has - node.used.get(key, 0)) if node.ready else 0
            free_of_others[key] = free_of_others.get(key, 0) + left
    tenants = menus.tenants and kept_guarantees(menus.tenants, free_of_others, notes)
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
        tenants=tenants,
        fairness=menus.fairness,
    )


def _with_room_for_what_stays(
    nodes: Sequence[PlacementNodes], jobs: Sequence[PlacementJob], notes: Notes
) -> Iterator[PlacementNodes]:
    """Yield nodes that have what must stay on them: it runs there, whatever is left or others take."""
    stays = _taken_now(job for job in jobs if job.preemptible is False)
    for node in nodes:
        short = {
            key: need + node.used.get(key, 0)
            for key, need in stays.get(node.names, {}).items()
            if node.capacity.get(key, need) < need + node.used.get(key, 0)
        }
        if short:
            notes.add("nodes have less than what runs there and stays: they take nothing more", node.names)
        yield replace(node, capacity=node.capacity | short)


def _taken_now(jobs: Iterable[PlacementJob]) -> dict[str, Counter[str]]:
    """Return by node what pods of jobs that run take there."""
    found: dict[str, Counter[str]] = {}
    for job in jobs:
        if job.current is not None:
            option = next(one for one in job.options if one.id == job.current.option)
            for pods in option.pods:
                for at, count in job.current.on.get(pods.name, {}).items():
                    takes = {key: need * count for key, need in pods.needs.items()}
                    found.setdefault(at, Counter()).update(takes | {"pods": count})
    return found


def _with_what_stays(
    nodes: list[PlacementNodes], jobs: list[PlacementJob]
) -> tuple[list[PlacementNodes], list[PlacementJob]]:
    """Let pods stay on nodes whose taints only keep new ones away: such a taint is one of its node alone.

    Where nobody tolerates it, the node has nothing free but what they take now.
    """
    keep = {node.names: {*_for_new_ones(node)} for node in nodes}
    stay = {
        (job.id, pods.name): {
            (taint, node)
            for node in job.current.on.get(pods.name, ())
            for taint in keep.get(node, set()).difference(pods.tolerates)
        }
        for job in jobs
        if job.current is not None
        for option in job.options
        for pods in option.pods
    }
    alone = {at: f"{at[0]} of {at[1]}" for at in set().union(*stay.values())}

    def tolerant(job: PlacementJob, pods: PlacementPods) -> PlacementPods:
        own = stay.get((job.id, pods.name), ())
        more = [name for at, name in alone.items() if at in own or at[0] in pods.tolerates]
        return replace(pods, tolerates=(*pods.tolerates, *sorted(more)))

    def with_tolerant(job: PlacementJob, option: PlacementOption) -> PlacementOption:
        return replace(option, pods=tuple(tolerant(job, pods) for pods in option.pods))

    if not alone:
        return nodes, jobs
    taken = _taken_now(jobs)
    tolerated = {
        one for job in jobs for option in job.options for pods in option.pods for one in pods.tolerates
    }

    def kept(node: PlacementNodes) -> PlacementNodes:
        found = replace(node, taints=tuple(alone.get((one, node.names), one) for one in node.taints))
        if (
            all(one in tolerated for one in node.taints if (one, node.names) in alone)
            or node.names not in taken
        ):
            return found
        rest = {key: max(0, has - taken[node.names][key]) for key, has in node.capacity.items()}
        return replace(found, used={key: max(much, node.used.get(key, 0)) for key, much in rest.items()})

    return (
        [kept(node) for node in nodes],
        [replace(job, options=tuple(with_tolerant(job, one) for one in job.options)) for job in jobs],
    )


def _nodes(
    topology: Topology,
    objects: Objects,
    units: Mapping[Pair, int],
    keys: set[str],
    notes: Notes,
    *,
    limited: bool,
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
        if limited:
            has = amount_of(allocatable.get("pods", _MANY), "pods", f"Node {name} pods", notes)
            capacity["pods"], taken["pods"] = has, used.get(name, {}).get("pods", 0)
        conditions = objects_of(mapping(entry, "status"), "conditions")
        ready = all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")
        tainted = [
            one for one in objects_of(mapping(entry, "spec"), "taints") if one.get("effect") in _TAINTED
        ]
        if mapping(entry, "spec").get("unschedulable") and _CORDONED["key"] not in (
            one.get("key") for one in tainted
        ):
            tainted.append(_CORDONED)
        yield PlacementNodes(
            names=str(labels.get(topology.labels[-1])) if topology.labels[-1] == HOST else name,
            capacity=capacity,
            at={level: str(labels[level]) for level in topology.levels[:-1]},
            labels={key: str(labels[key]) for key in sorted(keys) if key in labels},
            taints=tuple(map(_said, tainted)),
            ready=ready,
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
            or phase in _ENDED
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


def _without(
    topology: Topology, menus: MultipleChoiceKnapsackInstance, *, limited: bool
) -> Iterator[PlacementNodes]:
    """Yield a node for every flavor without the topology, with its quota."""
    apart: dict[str, dict[str, int]] = {}
    for name, amount in menus.capacities.items():
        flavor = name.partition("/")[0]
        if flavor not in topology.flavors:
            apart.setdefault(flavor, {})[name] = min(amount, LARGEST_USE)
    for flavor, capacity in apart.items():
        at = dict.fromkeys(topology.levels[:-1], APART + flavor)
        yield PlacementNodes(
            names=APART + flavor, capacity=capacity | ({"pods": _MANY} if limited else {}), at=at
        )


class _Free:
    """What is free on nodes, to find some for pods whose nodes the dump does not say."""

    def __init__(self, nodes: Sequence[PlacementNodes], levels: Sequence[str], objects: Objects) -> None:
        self._levels = levels
        self.seen: dict[tuple[str, str], dict[str, int]] = {}
        for pod in objects["Pod"]:
            about = mapping(pod, "metadata")
            of = f"{about.get('namespace')}/{mapping(about, 'annotations').get(_WORKLOAD)}"
            node = mapping(pod, "spec").get("nodeName")
            if node and mapping(pod, "status").get("phase") not in _ENDED:
                at = self.seen.setdefault((of, str(mapping(about, "labels").get(_POD_SET, "main"))), {})
                at[str(node)] = at.get(str(node), 0) + 1
        self._nodes = {node.names: node for node in nodes}
        self._left = {
            node.names: {key: own - node.used.get(key, 0) for key, own in node.capacity.items()}
            for node in nodes
        }

    def lies(self, node: str, down_to: str) -> tuple[str, ...]:
        """Return the names of the places in which a node lies, from the top level down to one."""
        names = (*(self._nodes[node].at[level] for level in self._levels[:-1]), node)
        return names[: self._levels.index(down_to) + 1]

    def take(self, node: str, pods: PlacementPods, count: int) -> None:
        """Take what pods need."""
        left = self._left.get(node, {})
        for resource, need in _takes(pods, left):
            left[resource] = left.get(resource, 0) - need * count

    def found(
        self, pods: PlacementPods, count: int, level: str | None = None, values: tuple[str, ...] = ()
    ) -> dict[str, int]:
        """Return nodes that hold so many pods, the first ones; fewer where there are none.

        Parameters
        ----------
        pods, count
            Which pods, and how many.
        level, values
            The domain in which they lie, by the names of its last levels; anywhere by default.
        """
        rooms = {
            node: max(0, min((left.get(key, 0) // need for key, need in _takes(pods, left)), default=count))
            for node, left in self._left.items()
            if node in self._nodes
            and not refusal(self._nodes[node], _staying(pods, self._nodes[node]))
            and (level is None or self.lies(node, level)[-len(values) :] == values)
        }
        if pods.required is not UNSET:  # the first place that holds them all, where there is one
            places: dict[tuple[str, ...], dict[str, int]] = {}
            for node, room in rooms.items():
                places.setdefault(self.lies(node, str(pods.required)), {})[node] = room
            rooms = next((one for one in places.values() if sum(one.values()) >= count), rooms)
        on: dict[str, int] = {}
        for node, room in rooms.items():
            if count and room:
                on[node] = min(count, room)
                self.take(node, pods, on[node])
                count -= on[node]
        return on


def _staying(pods: PlacementPods, node: PlacementNodes) -> PlacementPods:
    """Return pods that run, which taints that only keep new ones away do not drive from a node."""
    return replace(pods, tolerates=(*pods.tolerates, *_for_new_ones(node))) if node.taints else pods


def _for_new_ones(node: PlacementNodes) -> Iterator[str]:
    """Yield the taints of a node that keep new pods away, and drive none out."""
    return (taint for taint in node.taints if not taint.endswith(_EVICTS))


def _takes(pods: PlacementPods, left: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield what a pod takes of a node with so much left, itself included where pods are limited."""
    yield from ((resource, need) for resource, need in pods.needs.items() if need)
    if "pods" in left:
        yield "pods", 1


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
            _pods(part, asked, _name(part, flavors), topology, units, taints) for part, asked in parts
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
        id=menu.id.replace(*SLASH),
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
    part: Assigned, asked: PodSet, name: str, topology: Topology, units: Mapping[Pair, int], taints: set[str]
) -> PlacementPods:
    needs = {
        f"{flavor}/{resource}": _each(asked, resource) // units[flavor, resource]
        for resource, flavor in part.flavors.items()
    }
    placed = any(flavor in topology.flavors for flavor in part.flavors.values())
    request, selector = (asked.topology, mapping(asked.pod, "nodeSelector")) if placed else ({}, {})
    asks = {field: request.get(field) for field in ("required", "preferred")}
    levels: dict[str, Any] = {field: level for field, level in asks.items() if level in topology.levels}
    own = chain.from_iterable(
        objects_of(topology.flavors.get(flavor, {}), "tolerations") for flavor in set(part.flavors.values())
    )
    tolerations = [*objects_of(asked.pod, "tolerations"), *own]
    return PlacementPods(
        needs={resource: need for resource, need in needs.items() if need},
        count=part.count,
        name=name,
        slices={
            level: size
            for level, size in slices_of(request).items()
            if level in topology.levels and size > 0 and not part.count % size  # others run, and none waits
        },
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
    """Return the nodes of running pods: as admitted or as their pods say, less those that were given back."""
    flavors = {resource.partition("/")[0] for resource in pods.needs}
    apart = sorted(flavors - topology.flavors.keys())
    if apart:
        return {APART + apart[0]: pods.count}
    on: dict[str, int] = {}
    name, left = pods.name.partition("@")[0], pods.count

    def lie(nodes: Mapping[str, int]) -> None:
        nonlocal left
        for node, count in nodes.items():
            on[node] = on.get(node, 0) + min(count, left)
            left -= min(count, left)

    domains = [*job.places.get(name, ())]
    if topology.labels[-1] == HOST:
        for values, count in domains:
            lie({values[-1]: count} if values else {})
        domains = []
    else:
        lie(free.seen.get((job.id, name), {}))
    for node, count in on.items():
        free.take(node, pods, count)
    if left:
        notes.add(
            "running pods whose nodes the dump does not say are taken to be on the first free ones", job.id
        )
        for values, count in domains:
            lie(free.found(pods, min(count, left), topology.labels[-1], values))
        lie({} if domains else free.found(pods, left))
        lie({_NOWHERE: left})
    return {node: count for node, count in on.items() if count}
