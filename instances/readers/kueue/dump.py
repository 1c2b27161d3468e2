"""What a dump says: its objects by kind, quantities, the holders of quotas, and what of it is not used.

Quantities are whole numbers: cpu in thousandths of a core, all else in pieces or bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.tenants import Quota, Tenant

__all__ = [
    "COHORT",
    "HOST",
    "Dump",
    "Holder",
    "Notes",
    "Topology",
    "amount",
    "amount_of",
    "by_kind",
    "holders",
    "integer",
    "kept_guarantees",
    "mapping",
    "name_of",
    "objects_of",
    "requests_of",
    "topology_of",
]


_QUANTITY = re.compile(r"^([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$")
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    **{name: Fraction(1000) ** power for power, name in enumerate("MGTPE", start=2)},
    **{f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", start=1)},
}


def amount(value: Any, resource: str | None = None) -> int | Fraction:
    """Return a quantity.

    Parameters
    ----------
    value
        As Kubernetes writes it: ``"500m"``, ``"1Gi"``, ``4``.
    resource
        ``"cpu"`` is counted in thousandths, others in whole units rounded up; ``None``: the exact number.

    Raises
    ------
    ValueError
        If it is no quantity.

    Examples
    --------
    >>> amount("1500m", "cpu"), amount("1Gi", "memory"), amount("2", "nvidia.com/gpu"), amount("500m")
    (1500, 1073741824, 2, Fraction(1, 2))
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no quantity")
    found = _QUANTITY.match(str(value).strip())
    if found is None:
        raise ValueError(f"{value!r} is no quantity")
    digits, suffix, exponent = found.groups()
    number = Fraction(digits) * (_SUFFIX[suffix] if suffix else 1) * Fraction(10) ** int(exponent or 0)
    if resource is None:
        return number
    return -((-number * (1000 if resource == "cpu" else 1)) // 1)


HOST = "kubernetes.io/hostname"
_NODE = "one node"
"""The level of the nodes where the topology ends above them; no label has a space."""
_GROUP = "kueue.x-k8s.io/"
_VERSIONS = ("v1beta1", "v1beta2", "v1alpha1")
_SPACE = re.compile(r"\s*")
_USED = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology", "Workload")
_OF_THE_CLUSTER = ("Node", "Pod")
"""Kinds of Kubernetes itself."""


Instance = TypeVar("Instance")


@dataclass(frozen=True, slots=True)
class Dump(Generic[Instance]):
    """An instance read from a dump of a cluster's objects, and what of the dump it does not say.

    Attributes
    ----------
    instance
        The instance.
    notes
        What of the dump it does not say, a line each.
    """

    instance: Instance
    notes: tuple[str, ...]


class Notes:
    """What an instance does not say of a dump, a line for each field with how often it was met.

    Attributes
    ----------
    problems
        What is wrong with the dump.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._met: dict[str, list[str]] = {}

    def add(self, what: str, where: str) -> None:
        """Note that something of an object is not used."""
        self._met.setdefault(what, []).append(where)

    def unused(
        self, kind: str, name: str, path: str, given: Mapping[str, Any], used: Collection[str]
    ) -> None:
        """Note every field of an object that says something and is not used."""
        for field, value in given.items():
            if field not in used and value not in (None, "", [], {}, False):
                self.add(f"{kind} {path}.{field} is not used", name)

    def lines(self) -> list[str]:
        """Return the notes, sorted, with the first objects that they are about."""
        found = []
        for what, names in sorted(self._met.items()):
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            found.append(f"{what} ({len(names)}: {shown})")
        return found


def by_kind(raw: bytes, notes: Notes) -> dict[str, list[Mapping[str, Any]]]:
    """Return the objects of a dump by kind.

    Parameters
    ----------
    raw
        A ``List``, a single object, or several of them one after the other.
    notes
        Objects of other kinds and versions are noted.

    Raises
    ------
    InvalidInstance
        If it is no JSON, or not made of objects.
    """
    found: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in (*_USED, *_OF_THE_CLUSTER)}
    for place, entry in enumerate(_entries(raw)):
        kind, version = str(entry.get("kind")), str(entry.get("apiVersion", ""))
        of_cluster = kind in _OF_THE_CLUSTER and version == "v1"
        known = version.startswith(_GROUP) and version.removeprefix(_GROUP) in _VERSIONS
        if not (of_cluster or known):
            notes.add(f"objects of kind {kind} ({version or 'no apiVersion'}) are not used", _called(entry))
        elif not of_cluster and kind not in _USED:
            notes.add(f"objects of kind {kind} are not used", _called(entry))
        elif not isinstance(mapping(entry, "metadata").get("name"), str):
            notes.problems.append(Problem(f"$.items[{place}].metadata.name", "must be a name"))
        else:
            found[kind].append(entry)
    return found


def mapping(of: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the object at a path, an empty one where there is none."""
    at: Any = of
    for field in path:
        at = at.get(field) if isinstance(at, Mapping) else None
    return at if isinstance(at, Mapping) else {}


def objects_of(of: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list, an empty one where there is none."""
    value = of.get(field)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def name_of(entry: Mapping[str, Any]) -> str:
    """Return an object's name, with its namespace where it has one."""
    metadata = mapping(entry, "metadata")
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def amount_of(value: Any, resource: str, path: str, notes: Notes) -> int:
    """Return an amount of a resource; a wrong one is a problem and counts as 0."""
    try:
        found = int(amount(value, resource))
    except ValueError as error:
        notes.problems.append(Problem(path, str(error)))
        return 0
    if not 0 <= found < 2**63:
        notes.problems.append(Problem(path, f"must be from 0 to 2^63 - 1, is {value!r}"))
        return 0
    return found


def integer(value: Any, missing: int, path: str, notes: Notes) -> int:
    """Return a whole number, `missing` where there is none; a wrong one is a problem and counts as that."""
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int) or not -(10**9) <= value <= 10**9:
        notes.problems.append(Problem(path, f"must be a whole number up to 10^9, is {value!r}"))
        return missing
    return value


def _entries(raw: bytes) -> list[Mapping[str, Any]]:
    try:
        text, decoder, roots = raw.decode("utf-8-sig").strip(), json.JSONDecoder(), []
        at = 0
        while at < len(text):
            root, at = decoder.raw_decode(text, at)
            roots.append(root)
            gap = _SPACE.match(text, at)
            at = gap.end() if gap is not None else at
    except (ValueError, RecursionError) as error:
        raise InvalidInstance(Problem("$", f"cannot be read as JSON: {error}")) from None
    entries: list[Any] = []
    for root in roots:
        is_list = isinstance(root, Mapping) and isinstance(root.get("items"), list)
        entries.extend(root["items"] if is_list else root if isinstance(root, list) else [root])
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise InvalidInstance(Problem("$.items", "must be a list of Kubernetes objects"))
    return entries


def _called(entry: Mapping[str, Any]) -> str:
    return str(mapping(entry, "metadata").get("name", "without a name"))


COHORT = "cohort:"
"""Before the names of cohorts, which may be those of queues as well."""

_POD_FIELDS = (
    "containers",
    "initContainers",
    "overhead",
    "resources",
    "nodeSelector",
    "tolerations",
    "restartPolicy",
    "priorityClassName",
    "terminationGracePeriodSeconds",
    "dnsPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "serviceAccount",
    "volumes",
    "automountServiceAccountToken",
    "enableServiceLinks",
)
"""What counts, and what has no part in who may run where."""
_QUEUE_FIELDS = ("resourceGroups", "cohort", "cohortName", "fairSharing", "preemption", "stopPolicy")
_COHORT_FIELDS = ("resourceGroups", "parent", "parentName", "fairSharing")

Pair = tuple[str, str]
Objects = Mapping[str, list[Mapping[str, Any]]]


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
        Whose workloads its own may pre-empt: the policy for other queues of its tree, and for its own queue.
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
    preempts: str = "Never"
    gives: str = "Never"


def holders(objects: Objects, notes: Notes) -> dict[str, Holder]:
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
    for group in objects_of(spec, "resourceGroups"):
        flavors = []
        for flavor in objects_of(group, "flavors"):
            flavors.append(str(flavor.get("name")))
            for quota in objects_of(flavor, "resources"):
                resource = str(quota.get("name"))
                where = f"{kind} {name} {flavors[-1]}/{resource}"
                for table, field in zip(
                    tables, ("nominalQuota", "borrowingLimit", "lendingLimit"), strict=True
                ):
                    if quota.get(field) is not None:
                        given = amount_of(quota[field], resource, f"{where}.{field}", notes)
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
            said = "says who may be stopped; which of them, and for whom, the objective does"
            notes.add(f"{kind} spec.preemption.{field} {policy} {said}", name)
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
        preempts=reclaims,
        gives=within,
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


def kept_guarantees(tenants: Sequence[Tenant], has: Mapping[str, int], notes: Notes) -> tuple[Tenant, ...]:
    """Return tenants whose guarantees so much suffices for; what is taken off may be borrowed."""
    promised: dict[str, int] = {}
    for tenant in tenants:
        for key, quota in tenant.quotas.items():
            promised[key] = promised.get(key, 0) + (0 if tenant.parent else quota.guarantee)
    for key, amount in sorted(promised.items()):
        if amount > has.get(key, 0):
            notes.add("quotas are more than the nodes have free: guarantees are less in proportion", key)

    def less(key: str, quota: Quota) -> Quota:
        there, limit = has.get(key, 0), quota.borrowing_limit
        if promised[key] <= there:
            return quota
        kept = quota.guarantee * there // promised[key]
        more = None if limit is None else limit + quota.guarantee - kept
        return replace(quota, guarantee=kept, borrowing_limit=more)

    return tuple(
        replace(one, quotas={key: less(key, quota) for key, quota in one.quotas.items()}) for one in tenants
    )


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
        return self.labels if self.labels[-1] == HOST else (*self.labels, _NODE)


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


def requests_of(pod: Mapping[str, Any], name: str, notes: Notes) -> dict[str, int]:
    """Return what a pod asks for by resource, as the scheduler counts it: init containers run one by one."""
    notes.unused("Workload", name, "spec.podSets.template.spec", pod, _POD_FIELDS)
    total: dict[str, int] = {}
    first: dict[str, int] = {}
    for container in objects_of(pod, "initContainers"):
        own = _container(container, name, notes)
        if container.get("restartPolicy") == "Always":
            _raise(total, own, added=True)
            _raise(first, total, added=False)
        else:
            _raise(first, {key: total.get(key, 0) + use for key, use in own.items()}, added=False)
    for container in objects_of(pod, "containers"):
        _raise(total, _container(container, name, notes), added=True)
    _raise(total, first, added=False)
    for resource, given in mapping(pod, "resources", "requests").items():
        total[resource] = amount_of(given, resource, f"Workload {name} {resource}", notes)
    overhead = mapping(pod, "overhead")
    own = {
        key: amount_of(given, key, f"Workload {name} overhead {key}", notes)
        for key, given in overhead.items()
    }
    _raise(total, own, added=True)
    return {resource: use for resource, use in sorted(total.items()) if use > 0}


def _container(container: Mapping[str, Any], name: str, notes: Notes) -> dict[str, int]:
    given = {**mapping(container, "resources", "limits"), **mapping(container, "resources", "requests")}
    return {key: amount_of(value, key, f"Workload {name} {key}", notes) for key, value in given.items()}


def _raise(total: dict[str, int], by: Mapping[str, int], *, added: bool) -> None:
    for key, use in by.items():
        total[key] = total.get(key, 0) + use if added else max(total.get(key, 0), use)
