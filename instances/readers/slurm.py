"""Read what Slurm says of switches, nodes and pending jobs as one placement: who of them could start now.

Taken are the words of ``scontrol show topology``, ``scontrol --details show node`` and
``scontrol show job``, one after the other in one text, a record on one line or on several; ``topology.conf``
says as much as the first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import Any

from msgspec import UNSET, structs

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.node_lists import NoNodeList, compressed, expand, state_words
from apportion.instances.placement.rules import Rule, SpreadRule
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.readers.kueue.dump import Dump, Notes
from apportion.instances.readers.slurm_topology import (
    BEGINS,
    NOBODY,
    OF_TOPOLOGY,
    Record,
    Tree,
    number_of,
    trees_of,
    trees_of_yaml,
)

__all__ = ["read_slurm"]

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w:/.\-]*)=")
_READY = {"IDLE", "MIXED", "ALLOCATED"}
_AWAY = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "NOT_RESPONDING"),
    *(
        "REBOOT",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "POWER_DOWN",
        "PLANNED",
        "RESERVED",
    ),
}
_ABOUT_NODES = ("None", "Resources", "Priority", "ReqNodeNotAvail", "Nodes_required")
"""Why a job waits, where more room lets it start."""
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?(?::([1-9]\d{0,8}))?")
"""Tasks of an array: ``4``, ``0-29`` or ``0-28:2``."""
_TASKS = 1000
"""So many tasks of an array are read at most."""
_HELD = ("CONFIGURING", "RUNNING", "SUSPENDED")
"""The states of a task that counts for the limit of its array."""
_OF_NODES = ("ReqNodeList", "ExcNodeList")
"""The nodes that a job asks for by name, and those it does not want."""
Named = Mapping[tuple[str, str], tuple[str, set[str]]]
"""By field and list of nodes: the label of the nodes that a job may be on, and those of the list."""
_SIZE, _YES = "size", "yes"
"""The label that tells unlike nodes apart; what a feature is as a label."""


def read_slurm(raw: bytes, name: str = "slurm", topology: Any = None) -> Dump[PlacementInstance]:
    """Read the words of Slurm as a placement instance.

    Levels are the switches from the top down (``switch2``, ``switch1``, ``switch``, numbered as Slurm does),
    or the blocks (``blocks4``, ``blocks2``, ``block``), then the nodes. A node has the CPUs, MiB of memory
    and GRES of its ``CfgTRES``, of which ``AllocTRES`` is in use; of a type that a pending job asks for
    (``gpu:a100``) it has as many as its ``Gres`` says. Features and partitions are labels. A
    pending job has a pod a node and is worth its priority; ``--switches=1`` asks for one leaf switch,
    ``--segment`` for so many nodes a block at a time, ``--exclusive`` for whole nodes, ``--nodelist`` and
    ``--exclude`` for nodes by name, whose lists are labels. Of an array come as many tasks as may start
    now: up to its limit (``%8``) less those that run.

    Parameters
    ----------
    raw
        The text.
    name
        The instance's name.
    topology
        What a ``topology.yaml`` or a model of topograph says, in place of the text; further trees in it
        are further trees of the instance.

    Raises
    ------
    InvalidInstance
        If the text names no node, or says something that cannot be.
    """
    notes = Notes()
    records = _records(raw.decode("utf-8", "replace"))
    pending = [one for one in records["JobId"] if one.get("JobState") == "PENDING"]
    try:
        trees = trees_of(records, notes) if topology is None else trees_of_yaml(topology, notes)
        named = _named_nodes(pending)
        typed = {one for record in pending for one in _needs(record, 1) if ":" in one}
        nodes = list(_nodes(records["NodeName"], trees, named, typed, notes))
    except NoNodeList as error:
        raise InvalidInstance.at("$", str(error)) from None
    if not nodes and not notes.problems:
        notes.problems.append(
            Problem("$", "names no node: give what scontrol --details show node prints as well")
        )
    if notes.problems:
        raise InvalidInstance(notes.problems[:20])
    sizes = [dict(size) for size in sorted({tuple(sorted(group.capacity.items())) for group in nodes})]
    nodes = [
        structs.replace(group, labels={**group.labels, _SIZE: str(sizes.index(group.capacity))})
        for group in nodes
    ]
    first = trees[0].levels if trees else []
    held = Counter(one.get("ArrayJobId", "") for one in records["JobId"] if one.get("JobState") in _HELD)
    jobs = [job for one in pending for job in _jobs(one, trees, sizes, named, held, notes)]
    instance = PlacementInstance(
        schema_version="1",
        levels=(*first, "node"),
        nodes=tuple(nodes),
        jobs=tuple(jobs),
        rules=tuple(_rules(jobs, sizes)),
        trees=tuple(tuple(tree.levels) for tree in trees[1:]) or UNSET,
        name=name,
    )
    return Dump(instance, tuple(notes.lines()))


def _records(text: str) -> dict[str, list[Record]]:
    """Return what every record says, by its first word; lines that begin with a blank go on with the last."""
    found: dict[str, list[Record]] = {word: [] for word in BEGINS}
    lines: list[str] = []
    for line in [*text.splitlines(), "End="]:
        line = line.partition("#")[0] if line.startswith(OF_TOPOLOGY) else line
        if line[:1].isspace() or not line.strip():
            lines += [line] if lines else []
            continue
        if lines:
            found[lines[0].partition("=")[0]].append(_said(" ".join(lines)))
        word, says, _ = line.partition("=")
        lines = [line] if says and word in BEGINS else []
    return found


def _said(text: str) -> Record:
    begins = list(_PAIR.finditer(text))
    ends = [one.start() for one in begins[1:]] + [len(text)]
    pairs = [(one[1], text[one.end() : end].strip()) for one, end in zip(begins, ends, strict=False)]
    return dict(reversed(pairs))  # the first counts: comments and reasons stand behind


def _named_nodes(pending: Iterable[Record]) -> Named:
    """Return the nodes of every list by which jobs ask for nodes or exclude them."""
    lists = {
        (field, record[field]): None
        for record in pending
        for field in _OF_NODES
        if record.get(field, "") not in NOBODY
    }
    return {one: (f"{one[0]}/{number}", set(expand(one[1]))) for number, one in enumerate(lists)}


def _nodes(
    records: Iterable[Record], trees: Sequence[Tree], named: Named, typed: Collection[str], notes: Notes
) -> Iterator[PlacementNodes]:
    """Yield the nodes, those alike at one place together; of GRES with a type those of ``typed`` alone."""
    found: list[PlacementNodes] = []
    levels, places = trees[0] if trees else Tree([], {})
    for record in records:
        name = record["NodeName"]
        if levels and name not in places:
            notes.add("a node that no switch and no block names is left out", name)
            continue
        capacity, used = _amounts(record.get("CfgTRES", "")), _amounts(record.get("AllocTRES", ""))
        if not capacity:
            notes.problems.append(Problem(f"$.{name}.CfgTRES", "says nothing: scontrol show node prints it"))
            continue
        gres, gres_used = _gres(record.get("Gres", "")), _gres(record.get("GresUsed", ""))
        for resource, amount in gres.items():
            of_all = resource.partition(":")[0]
            if resource in capacity or (of_all != resource and resource not in typed):
                continue
            if of_all != resource and (used.get(of_all, 0) == 0 or gres[of_all] == amount):
                in_use = used.get(of_all, 0)
            elif "GresUsed" in record:
                in_use = gres_used.get(resource, 0)
            else:  # AccountingStorageTRES does not name it
                where = f"$.{name}.GresUsed"
                notes.problems.append(Problem(where, "is missing: use scontrol --details show node"))
                continue
            capacity[resource], used[resource] = amount, in_use
        admitting = [
            label
            for (field, _), (label, those) in named.items()
            if (name in those) == (field == _OF_NODES[0])
        ]
        words = state_words(record.get("State", ""))
        node = PlacementNodes(
            names=name,
            capacity=capacity,
            at={
                # a node that a further tree does not name shares nothing there
                level: place
                for tree in trees
                for level, place in zip(
                    tree.levels, tree.places.get(name, (name,) * len(tree.levels)), strict=True
                )
            },
            labels={
                **_labels(_names(record.get("ActiveFeatures", "")), _names(record.get("Partitions", ""))),
                **dict.fromkeys(admitting, _YES),
            },
            ready=bool(words & _READY) and not words & _AWAY,
            used={one: min(amount, capacity.get(one, 0)) for one, amount in used.items() if amount},
        )
        found.append(node)
    order = {place: at for at, place in enumerate(dict.fromkeys(places.values()))}
    found.sort(key=lambda node: order.get(tuple(node.at.values()), 0))
    for _, listed in groupby(found, key=lambda group: repr(structs.replace(group, names="-"))):
        first, *others = listed
        yield structs.replace(first, names=compressed([one.names for one in (first, *others)]))


def _amounts(tres: str, types: bool = False) -> dict[str, int]:
    """Return what ``CfgTRES`` and the like name: CPUs, MiB of memory and GRES; of ``types`` as well."""
    found: dict[str, int] = {}
    for piece in tres.split(","):
        resource, _, amount = piece.partition("=")
        if resource in ("cpu", "mem") or (resource.startswith("gres/") and (types or ":" not in resource)):
            found[resource.removeprefix("gres/")] = number_of(amount)
    return found


def _gres(text: str) -> dict[str, int]:
    """Return how many of every GRES a text names, and of every type: ``gres/gpu:a100:4``, ``gpu:2``, ``gpu``.

    Left out are CPUs, memory and licences, which ``TresPerTask`` names beside them, and what no job consumes.
    """
    found: Counter[str] = Counter()
    for piece in re.sub(r"\([^)]*\)", "", text).split(","):
        resource, *words = re.split("[:=]", re.sub("^gres[:/]", "", piece))
        if resource in ("", "cpu", "mem", "node", "null") or "/" in resource or "no_consume" in words:
            continue
        count = number_of(words.pop()) if words and re.fullmatch(r"\d+[KMGT]?", words[-1]) else 1
        found.update(dict.fromkeys((resource, *(f"{resource}:{kind}" for kind in words[:1])), count))
    return found


def _needs(record: Record, count: int) -> dict[str, int]:
    """Return what a job needs on each of its nodes, of GRES with a type also how many of the type."""
    asked = _amounts(record.get("ReqTRES", ""), types=True)
    needs = {resource: -(-amount // count) for resource, amount in asked.items() if amount}
    tasks = number_of(record.get("NumTasks", "1"))
    for field, on_a_node in (("TresPerNode", count), ("TresPerJob", 1), ("TresPerTask", tasks)):
        for resource, amount in _gres(record.get(field, "")).items():
            if amount:
                needs.setdefault(resource, -(-amount * on_a_node // count))
    return needs


def _jobs(
    record: Record,
    trees: Sequence[Tree],
    sizes: Sequence[Mapping[str, int]],
    named: Named,
    held: Mapping[str, int],
    notes: Notes,
) -> Iterator[PlacementJob]:
    """Yield a pending job, or an array's tasks, unless they wait for something else than nodes."""
    name, reason = record["JobId"], record.get("Reason", "None")
    if not reason.startswith(_ABOUT_NODES) or record.get("Priority") == "0":
        notes.add(f"a job that waits because of {reason} is left out", name)
        return
    features = _names(record.get("Features", "").replace("&", ","))
    if any(set("|[]*()!:") & set(feature) for feature in features):
        notes.add("a job with alternatives among its features is left out", name)
        return
    count = number_of(record.get("NumNodes", "1").split("-")[0]) or 1
    asked_for, excluded = (named.get((field, record.get(field, ""))) for field in _OF_NODES)
    if asked_for is not None and len(asked_for[1]) != count:
        notes.add("a job that names some of its nodes, not all, is left out", name)
        return
    if record.get("Reservation", "") not in NOBODY:
        notes.add("a job in a reservation is left out", name)
        return
    if record.get("Licenses", "") not in NOBODY:
        notes.add("licences are not counted", name)
    on = {one[0]: _YES for one in (asked_for, excluded) if one is not None}
    needs = _needs(record, count)
    taken = [
        (dict(size), {_SIZE: str(at)})
        for at, size in enumerate(sizes)
        if all(size.get(one, 0) >= need for one, need in needs.items())
    ]
    if taken and record.get("OverSubscribe") != "NO":  # not whole nodes, of a size that is enough
        taken = [(needs, {})]
    pods, options = _pods(record, count, trees, notes), []
    for partition in _names(record.get("Partition", "")) or [""]:
        for needs, size in taken:
            labels = {**_labels(features, [partition]), **size, **on}
            there = structs.replace(
                pods, name=" ".join(["pods", *size.values()]), needs=needs, selector=labels
            )
            worth = float(number_of(record.get("Priority", "1")))
            options.append(PlacementOption(" ".join([partition or "run", *size.values()]), (there,), worth))
    if not options:
        notes.add("a job that asks for more than any node has is left out", name)
        return
    for task in _tasks(record, held, notes):
        yield PlacementJob(id=task, options=tuple(options))


def _tasks(record: Record, held: Mapping[str, int], notes: Notes) -> list[str]:
    """Return the names of an array's tasks that may start now, or that of a job alone."""
    text, _, limit = record.get("ArrayTaskId", "").partition("%")
    if not set("-,") & set(text):
        return [record["JobId"]]
    array = record.get("ArrayJobId", record["JobId"])
    spans = [_SPAN.fullmatch(span) for span in text.split(",")]
    if None in spans:
        notes.add("tasks of an array that Slurm does not write out are left out", array)
    listed = [(int(one[1]), int(one[2] or one[1]), int(one[3] or 1)) for one in spans if one is not None]
    tasks = chain.from_iterable(range(first, last + 1, step) for first, last, step in listed)
    names = [f"{array}_{task}" for task in islice(tasks, _TASKS + 1)]
    most = max(0, number_of(limit) - held.get(array, 0)) if limit else len(names)
    if min(most, len(names)) > _TASKS:
        notes.add(f"of an array the first {_TASKS} tasks alone are read", array)
    return names[: min(most, _TASKS)]


def _pods(record: Record, count: int, trees: Sequence[Tree], notes: Notes) -> PlacementPods:
    """Return the pods of a job, one a node: within one leaf switch, or so many a block, where it says so."""
    leaves = [tree.levels[-1] for tree in trees if tree.levels]
    leaf = next((one for one in leaves if one.endswith("switch")), leaves[0] if leaves else None)
    block = next((one for one in leaves if one.endswith("block")), None)
    switches = record.get("Switches", "").split("@")[0]
    one_switch = leaf is not None and switches == "1"
    if one_switch:
        notes.add("a job that waits for one switch waits without an end", record["JobId"])
    elif switches:
        notes.add("that a job asks for few switches, but not for one, is not used", record["JobId"])
    segment = number_of(record.get("SegmentSize", "0")) if block is not None else 0
    if segment and count % segment:
        notes.add("a segment that does not divide a job's nodes is not used", record["JobId"])
        segment = 0
    return PlacementPods(
        needs={},
        count=count,
        slices={block: segment} if segment and block is not None else {},
        required=leaf if one_switch and leaf is not None else UNSET,
    )


def _rules(jobs: Iterable[PlacementJob], sizes: Iterable[Mapping[str, int]]) -> Iterator[Rule]:
    """Yield that pods of a job have a node each, where two could share one."""
    pods = [pods for job in jobs for option in job.options for pods in option.pods if pods.count > 1]
    twice = [{one: 2 * need for one, need in each.needs.items()} for each in pods]
    if any(all(size.get(one, 0) >= need for one, need in two.items()) for two in twice for size in sizes):
        yield SpreadRule(level="node", by="job", max=1)


def _names(text: str) -> list[str]:
    return [one for one in text.split(",") if one not in NOBODY]


def _labels(features: Iterable[str], partitions: Iterable[str]) -> dict[str, str]:
    """Return the labels of nodes that have such features and are in such partitions."""
    return dict.fromkeys([*features, *(f"partition/{one}" for one in partitions if one)], _YES)
