"""Workloads as jobs: a menu of flavors and counts, what they hold now, and where their pods may run.

An option's name says flavors and counts and can be read back: ``main*4[cpu=spot,memory=spot]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from math import prod
from typing import Any

from apportion.core.errors import Problem
from apportion.instances.readers.kueue.dump import (
    Holder,
    Notes,
    Objects,
    Pair,
    Topology,
    amount_of,
    integer,
    mapping,
    name_of,
    objects_of,
    requests_of,
)

__all__ = [
    "SLICES",
    "Assigned",
    "Job",
    "PodSet",
    "jobs_of",
    "option_name",
    "parsed_option",
    "runs_on",
    "slices_of",
    "tolerates",
]


_PART = re.compile(r"([^*+\[\]]+)\*(\d+)\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Assigned:
    """One pod set of an option.

    Attributes
    ----------
    name
        Of the pod set.
    count
        Pods.
    flavors
        Flavor by resource.
    """

    name: str
    count: int
    flavors: Mapping[str, str]


def option_name(parts: Iterable[Assigned]) -> str:
    """Return the name of an option.

    Examples
    --------
    >>> option_name([Assigned("main", 4, {"cpu": "spot"})])
    'main*4[cpu=spot]'
    """
    said = []
    for part in parts:
        flavors = ",".join(f"{resource}={flavor}" for resource, flavor in sorted(part.flavors.items()))
        said.append(f"{part.name}*{part.count}[{flavors}]")
    return "+".join(said)


def parsed_option(name: str) -> tuple[Assigned, ...] | None:
    """Return what an option's name says, ``None`` for a name of another make.

    Examples
    --------
    >>> parsed_option("main*4[cpu=spot]")
    (Assigned(name='main', count=4, flavors={'cpu': 'spot'}),)
    """
    found = []
    for part in name.split("+"):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        pairs = [pair.split("=", 1) for pair in match[3].split(",") if pair]
        if any(len(pair) != 2 for pair in pairs):
            return None
        found.append(Assigned(match[1], int(match[2]), dict(pairs)))
    return tuple(found)


def runs_on(pod: Mapping[str, Any], flavor: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """Tell whether a pod's node selector and tolerations let it run on a flavor.

    Parameters
    ----------
    pod
        The pod's spec.
    flavor
        The flavor's spec.
    keys
        Labels that flavors of the same group distinguish; others of the selector are the pod's own affair.
    """
    labels = mapping(flavor, "nodeLabels")
    selector = mapping(pod, "nodeSelector")
    if any(key in selector and labels.get(key) != selector[key] for key in keys):
        return False
    tolerations = [*objects_of(pod, "tolerations"), *objects_of(flavor, "tolerations")]
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in objects_of(flavor, "nodeTaints")
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Tell whether a toleration is one of a taint."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint.get("key"))
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


_FLAVOR_FIELDS = ("nodeLabels", "nodeTaints", "tolerations", "topologyName")
_MOST_FLAVORS = 256
_MOST_DOMAINS = 200_000
_MOST_COUNTS = 128
_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
SLICES = " -> "
"""Between the names of a workload slice that runs and of the one that is to take its place."""
_SPEC_FIELDS = (
    "podSets",
    "queueName",
    "priority",
    "active",
    "priorityClassName",
    "priorityClassSource",
    "priorityClassRef",
)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of a workload that are alike.

    Attributes
    ----------
    name
        Of the pod set.
    counts
        How many there may be.
    requests
        What a pod asks for, by resource.
    pod
        The spec of its pods.
    topology
        Its topology request; empty where it has none.
    """

    name: str
    counts: tuple[int, ...]
    requests: Mapping[str, int]
    pod: Mapping[str, Any]
    topology: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A Kueue workload as a job of the instance: its menu and what it holds now.

    Attributes
    ----------
    id
        Namespace and name.
    queue
        Its cluster queue.
    priority
        Higher first.
    created_s
        Seconds since 1970.
    options
        Uses by pair, by the option's name.
    pods
        Pods of every option.
    current
        The option it holds, ``None`` while it is pending.
    sets
        Its pod sets by name.
    places
        Where the pods of its pod sets run, by name: labels of the levels and how many.
    """

    id: str
    queue: str
    priority: int
    created_s: float
    options: Mapping[str, Mapping[Pair, int]]
    pods: Mapping[str, int]
    current: str | None
    sets: Mapping[str, PodSet]
    places: Mapping[str, Sequence[tuple[tuple[str, ...], int]]]


def jobs_of(
    objects: Objects, queues: Mapping[str, Holder], topology: Topology | None, notes: Notes
) -> list[Job]:
    """Return the workloads that are pending or hold quota; others are noted.

    A slice that is to replace another one (KEP-77) is one job with it: the old one's option, or its own.
    """
    flavors = {name_of(entry): mapping(entry, "spec") for entry in objects["ResourceFlavor"]}
    for name, spec in flavors.items():
        notes.unused("ResourceFlavor", name, "spec", spec, _FLAVOR_FIELDS)
    routes = _routes(objects, notes)
    found, replaces = list[Job](), dict[str, str]()
    for entry in objects["Workload"]:
        name, spec, status = name_of(entry), mapping(entry, "spec"), mapping(entry, "status")
        notes.unused("Workload", name, "spec", spec, _SPEC_FIELDS)
        admission = mapping(status, "admission")
        if _holds(status, "Finished"):
            notes.add("workloads that are finished are left out", name)
            continue
        queue = str(admission.get("clusterQueue") or routes.get(_route(entry), ""))
        if not queue and str(spec.get("queueName")) in queues:
            queue = str(spec["queueName"])
        if queue not in queues or not queues[queue].is_queue:
            why = f"its cluster queue is not known (queueName {spec.get('queueName')!r}): add localqueues"
            notes.problems.append(Problem(f"Workload {name}", why))
            continue
        if not admission and (spec.get("active") is False or not queues[queue].takes):
            notes.add("pending workloads that are not active, or whose queue is held, are left out", name)
            continue
        before = len(notes.problems)
        job = _job(entry, queues[queue], flavors, topology, notes)
        if len(notes.problems) > before:
            wrong = notes.problems[before].message
            del notes.problems[before:]
            if not admission:
                notes.add(f"pending workloads that cannot be read are left out: {wrong}", name)
                continue
            held, uses = _held(entry, admission, notes)  # where that is wrong, too, nobody knows what is free
            current = option_name(held)
            pods = {current: sum(part.count for part in held)}
            job = Job(name, queue, 0, 0.0, {current: uses}, pods, current, {}, {})
            notes.add(f"running workloads that cannot be read keep what they hold: {wrong}", name)
        replaced = str(mapping(entry, "metadata", "annotations").get(_REPLACES) or "")
        if replaced:
            replaces[job.id] = replaced
        found.append(job)
    return _in_place(found, replaces)


def _in_place(jobs: list[Job], replaces: Mapping[str, str]) -> list[Job]:
    """Return the jobs with every pending slice joined to the running one that it is to replace."""
    by_id = {job.id: job for job in jobs}
    for new, old in replaces.items():
        runs, waits = by_id.get(old), by_id[new]
        if runs is None or runs.current is None or waits.current is not None:
            continue  # what it was to replace is gone, or it runs already
        del by_id[new]
        kept = {runs.current: runs.options[runs.current]}
        by_id[old] = Job(
            id=f"{old}{SLICES}{new}",
            queue=runs.queue,
            priority=waits.priority,
            created_s=waits.created_s,
            options={**kept, **{name: uses for name, uses in waits.options.items() if name not in kept}},
            pods={runs.current: runs.pods[runs.current], **waits.pods},
            current=runs.current,
            sets={**runs.sets, **waits.sets},
            places=runs.places,
        )
    return list(by_id.values())


def _routes(objects: Objects, notes: Notes) -> dict[tuple[str, str], str]:
    """Return the cluster queue of every local queue, from its object or from an admitted workload."""
    found = {}
    for entry in objects["Workload"]:
        admitted = mapping(entry, "status", "admission").get("clusterQueue")
        if admitted:
            found[_route(entry)] = str(admitted)
    for entry in objects["LocalQueue"]:
        spec, metadata = mapping(entry, "spec"), mapping(entry, "metadata")
        notes.unused("LocalQueue", name_of(entry), "spec", spec, ("clusterQueue",))
        found[str(metadata.get("namespace")), str(metadata["name"])] = str(spec.get("clusterQueue"))
    return found


def _route(entry: Mapping[str, Any]) -> tuple[str, str]:
    return str(mapping(entry, "metadata").get("namespace")), str(mapping(entry, "spec").get("queueName"))


def _job(
    entry: Mapping[str, Any],
    queue: Holder,
    flavors: Mapping[str, Mapping[str, Any]],
    topology: Topology | None,
    notes: Notes,
) -> Job:
    name, spec = name_of(entry), mapping(entry, "spec")
    admission = mapping(entry, "status", "admission")
    sets = [_pod_set(one, name, notes) for one in objects_of(spec, "podSets")]
    options: dict[str, Mapping[Pair, int]] = {}
    pods: dict[str, int] = {}
    current = None
    if admission:
        held, uses = _held(entry, admission, notes)
        current = option_name(held)
        options[current], pods[current] = uses, sum(part.count for part in held)
    if not admission:
        if any(one.name.strip("*+[]") != one.name for one in sets):
            notes.problems.append(Problem(f"Workload {name}", "a pod set's name has signs that no name has"))
        for parts in _choices(sets, queue, flavors, topology, name, notes):
            called = option_name(parts)
            if called not in options:
                options[called] = _uses(parts, sets)
                pods[called] = sum(part.count for part in parts)
    return Job(
        id=name,
        queue=queue.id,
        priority=integer(spec.get("priority"), 0, f"Workload {name} spec.priority", notes),
        created_s=_seconds(entry, notes),
        options=options,
        pods=pods,
        current=current,
        sets={one.name: one for one in sets},
        places=_places(admission, name, notes),
    )


def _pod_set(given: Mapping[str, Any], name: str, notes: Notes) -> PodSet:
    used = ("name", "count", "minCount", "template", "topologyRequest")
    notes.unused("Workload", name, "spec.podSets", given, used)
    where = f"Workload {name} spec.podSets"
    count = max(0, integer(given.get("count"), 0, f"{where}.count", notes))
    least = max(0, min(count, integer(given.get("minCount"), count, f"{where}.minCount", notes)))
    counts = list(range(least, min(count, least + _MOST_COUNTS - 1) + 1))
    if count - least >= _MOST_COUNTS:
        step = (count - least) / (_MOST_COUNTS - 1)
        counts = sorted({least + round(place * step) for place in range(_MOST_COUNTS)})
        notes.add(f"of the counts from minCount to count {_MOST_COUNTS} are in the menu", name)
    pod = mapping(given, "template", "spec")
    called = str(given.get("name") or "main")
    return PodSet(
        called, tuple(counts), requests_of(pod, name, notes), pod, mapping(given, "topologyRequest")
    )


def _choices(
    sets: Sequence[PodSet],
    queue: Holder,
    flavors: Mapping[str, Mapping[str, Any]],
    topology: Topology | None,
    name: str,
    notes: Notes,
) -> Iterator[tuple[Assigned, ...]]:
    """Yield every choice of flavors and counts for the pod sets of a workload."""
    covered = frozenset().union(*(resources for _, resources in queue.groups))
    menus: list[list[dict[str, str]]] = []
    for one in sets:
        wanted = set(one.requests) | ({"pods"} & covered)
        if wanted - covered:
            missing = ", ".join(sorted(wanted - covered))
            notes.add(
                f"a workload asks for {missing}, which its queue does not cover: it has no option", name
            )
            return
        groups = []
        for names, resources in queue.groups:
            own = sorted(wanted & resources)
            if own:
                keys = {key for flavor in names for key in mapping(flavors.get(flavor, {}), "nodeLabels")}
                fitting = [
                    flavor
                    for flavor in names
                    if all((flavor, resource) in queue.nominal for resource in own)
                    and runs_on(one.pod, flavors.get(flavor, {}), keys)
                ]
                groups.append([dict.fromkeys(own, flavor) for flavor in fitting])
        menus.append(
            [{key: value for part in parts for key, value in part.items()} for parts in product(*groups)]
        )
    if prod(len(menu) for menu in menus) > _MOST_FLAVORS:
        notes.add("all pod sets of a workload with many of them take the same flavors", name)
        shared = [choice for choice in menus[0] if all(choice in menu for menu in menus)]
        combined = [tuple([choice] * len(sets)) for choice in shared]
    else:
        combined = list(product(*menus))
    for counts in product(*(one.counts for one in sets)):
        for chosen in combined:
            parts = tuple(
                Assigned(one.name, count, choice)
                for one, count, choice in zip(sets, counts, chosen, strict=True)
            )
            why = None if topology is None else _unfit(parts, sets, queue, topology)
            if why is None:
                yield parts
            else:
                notes.add(f"choices of flavors that Kueue's topology rules out are no options: {why}", name)


def _uses(parts: Sequence[Assigned], sets: Sequence[PodSet]) -> dict[Pair, int]:
    uses: dict[Pair, int] = {}
    for part, one in zip(parts, sets, strict=True):
        for resource, flavor in part.flavors.items():
            each = one.requests.get(resource, 1 if resource == "pods" else 0)
            uses[flavor, resource] = uses.get((flavor, resource), 0) + part.count * each
    return uses


def _held(
    entry: Mapping[str, Any], admission: Mapping[str, Any], notes: Notes
) -> tuple[list[Assigned], dict[Pair, int]]:
    """Return what an admitted workload holds, less the pods that it has given back."""
    name = name_of(entry)
    back = {
        str(one.get("name")): integer(one.get("count"), 0, f"Workload {name} reclaimablePods", notes)
        for one in objects_of(mapping(entry, "status"), "reclaimablePods")
    }
    parts, uses = [], dict[Pair, int]()
    for one in objects_of(admission, "podSetAssignments"):
        notes.unused(
            "Workload",
            name,
            "status.admission.podSetAssignments",
            one,
            ("name", "count", "flavors", "resourceUsage", "topologyAssignment"),
        )
        chosen = {str(key): str(value) for key, value in mapping(one, "flavors").items()}
        count = max(0, integer(one.get("count"), 0, f"Workload {name} podSetAssignments", notes))
        left = max(0, count - back.get(str(one.get("name")), 0))
        parts.append(Assigned(str(one.get("name") or "main"), left, chosen))
        for resource, given in mapping(one, "resourceUsage").items():
            if resource in chosen:
                used = amount_of(given, resource, f"Workload {name} resourceUsage {resource}", notes)
                pair = (chosen[resource], resource)
                uses[pair] = uses.get(pair, 0) + (used * left // count if count else used)
    return parts, uses


def _places(
    admission: Mapping[str, Any], name: str, notes: Notes
) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """Return where the pods of every pod set run, as v1beta1 lists domains, or v1beta2 slices of them."""
    found: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    where = f"Workload {name} topologyAssignment"
    for one in objects_of(admission, "podSetAssignments"):
        given = mapping(one, "topologyAssignment")
        at = found.setdefault(str(one.get("name") or "main"), [])
        for domain in objects_of(given, "domains"):
            at.append((_labels(domain, "values"), integer(domain.get("count"), 0, where, notes)))
        for part in objects_of(given, "slices"):
            number = min(integer(part.get("domainCount"), 0, where, notes), _MOST_DOMAINS)
            levels = [_expanded(level, number) for level in objects_of(part, "valuesPerLevel")]
            counts = mapping(part, "podCounts")
            each = counts.get("individual")
            if not isinstance(each, list):
                each = [counts.get("universal")] * number
            if not levels or any(len(own) != number for own in (*levels, each)):
                notes.problems.append(Problem(where, f"has not {number} domains at every level"))
                continue
            at.extend(
                (labels, integer(count, 0, where, notes))
                for labels, count in zip(zip(*levels, strict=True), each, strict=True)
            )
    return found


def _labels(of: Mapping[str, Any], field: str) -> tuple[str, ...]:
    values = of.get(field)
    return tuple(map(str, values)) if isinstance(values, list) else ()


def _expanded(level: Mapping[str, Any], number: int) -> tuple[str, ...]:
    """Return the labels of one level: one for all domains, or a prefix, a root each and a suffix."""
    if level.get("universal"):
        return (str(level["universal"]),) * number
    own = mapping(level, "individual")
    before, after = (own.get(end) or own.get(f"common{end.title()}") or "" for end in ("prefix", "suffix"))
    return tuple(f"{before}{root}{after}" for root in _labels(own, "roots"))


def _holds(status: Mapping[str, Any], condition: str) -> bool:
    return any(
        one.get("type") == condition and one.get("status") == "True"
        for one in objects_of(status, "conditions")
    )


def _seconds(entry: Mapping[str, Any], notes: Notes) -> float:
    given = mapping(entry, "metadata").get("creationTimestamp")
    if given is None:
        return 0.0
    try:
        return datetime.fromisoformat(str(given)).timestamp()
    except ValueError:
        notes.problems.append(Problem(f"Workload {name_of(entry)}", f"creationTimestamp is {given!r}"))
        return 0.0


def slices_of(request: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of the slices that a topology request asks for, by level; 0 where one is no number."""
    slices = [(request.get("podSetSliceRequiredTopology"), request.get("podSetSliceSize"))]
    for layer in objects_of(request, "podsetSliceRequiredTopologyConstraints"):
        slices.append((layer.get("topology"), layer.get("size")))
    return {str(level): integer(size, 0, "", Notes()) for level, size in slices if level}


def _unfit(
    parts: Sequence[Assigned], sets: Sequence[PodSet], queue: Holder, topology: Topology
) -> str | None:
    """Return why Kueue's flavor assigner gives pods of a topology no such flavors; ``None`` where it does.

    Parameters
    ----------
    parts, sets
        The choice, and the pod sets that make it.
    queue, topology
        Of the workload; pods that ask for no topology have one where all flavors of the queue have it.
    """
    own = {flavor for names, _ in queue.groups for flavor in names}
    mixed = not own <= topology.flavors.keys()
    groups: dict[Any, set[str]] = {}
    for part, asked in zip(parts, sets, strict=True):
        flavors, request = set(part.flavors.values()), asked.topology
        if not request and mixed and flavors & topology.flavors.keys():
            return "pods that ask for no topology have none, as their queue has flavors without one"
        if not request:
            continue
        groups.setdefault(request.get("podSetGroupName") or (part.name,), set()).update(flavors)
        if not flavors <= topology.flavors.keys():
            return "a topology is asked for, and a flavor has none"
        sizes = slices_of(request)
        levels = {*sizes, *(str(request[key]) for key in ("required", "preferred") if request.get(key))}
        if unknown := levels - {*topology.levels}:
            return f"the topology has no level {min(unknown)}"
        if any(size < 1 or part.count % size for size in sizes.values()):
            return "slices are of one pod at least, and divide the count"
    several = any(len(flavors) > 1 for flavors in groups.values())
    return "pods that ask for a topology, and groups of them, take one flavor" if several else None
