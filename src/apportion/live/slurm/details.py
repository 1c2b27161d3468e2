"""What ``scontrol --details --oneliner show node`` prints, read: what every node has, and what is idle of it.

A line a node of ``Key=value``, the same from Slurm 20 to 25; its JSON exists in later releases only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from apportion.live.offers import Offer, Size
from apportion.live.slurm.node_types import NodeTypes, type_of
from apportion.live.slurm.text import SUFFIXES, NodeStates, NotUnderstood

__all__ = ["Detail", "details_of_text", "idle_units", "sizes_of_text", "states_of"]

_OPEN = frozenset({"IDLE", "MIXED", "ALLOCATED", "DYNAMIC_NORM", "CLOUD"})
"""Words of nodes of which idle parts may be taken; whatever else is said of one keeps pilots away."""
_NO_TYPES: NodeTypes = MappingProxyType({})
_PARENTHESES = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Detail:
    """One node.

    Attributes
    ----------
    words
        Its state, base state and flags, in capitals.
    idle_gpus
        GPUs that no job has.
    """

    words: frozenset[str]
    offer: Offer
    idle_gpus: int

    @property
    def open(self) -> int:
        """How many pilots it would take at once: each has a GPU, a CPU and a MiB at least."""
        offer = self.offer
        return min(self.idle_gpus, offer.idle_cpus, offer.idle_memory_mib) if self.words <= _OPEN else 0


def details_of_text(text: str, partition: str, gres: str, types: NodeTypes = _NO_TYPES) -> dict[str, Detail]:
    """Return the nodes of a partition that have any of a resource, such as ``gpu`` or ``gpu:a100``.

    A node's type is as `type_of` says.
    """
    found = {}
    for line in text.splitlines():
        fields: dict[str, str] = {}
        for key, _, value in (word.partition("=") for word in line.split() if "=" in word):
            fields.setdefault(key, value)  # a comment at the end may hold anything
        if not fields or "NodeName" not in fields:
            continue
        if partition in fields.get("Partitions", "").split(","):
            detail = _detail(fields, gres, types)
            if detail.offer.units:
                found[fields["NodeName"]] = detail
    return found


def idle_units(details: Mapping[str, Detail]) -> tuple[str, ...]:
    """Return the nodes with idle GPUs, every one as often as it has any."""
    return tuple(node for node, detail in details.items() for _ in range(detail.open))


def states_of(details: Mapping[str, Detail]) -> NodeStates:
    """Return the words of every node."""
    return {node: detail.words for node, detail in details.items()}


def sizes_of_text(text: str, types: NodeTypes = _NO_TYPES) -> dict[str, Offer]:
    """Return what nodes taken whole have, from lines ``NODE|CPUS|MIB|FEATURES`` of ``sinfo``."""
    found = {}
    for line in filter(str.strip, text.splitlines()):
        columns = [column.strip().rstrip("+") for column in line.split("|")]
        if len(columns) != 4 or not (columns[1].isdecimal() and columns[2].isdecimal()):
            raise NotUnderstood("sinfo printed lines that are not NODE|CPUS|MIB|FEATURES")
        node, cpus, memory, features = columns
        found[node] = Offer(Size(int(cpus), int(memory), type_of(types, features.split(","))))
    return found


def _detail(fields: Mapping[str, str], gres: str, types: NodeTypes) -> Detail:
    words = set()
    for piece in fields.get("State", "UNKNOWN").split("+"):
        name = piece.rstrip("".join(SUFFIXES))
        words |= {name.upper(), *(SUFFIXES[sign] for sign in piece[len(name) :])}
    cpus = _number(fields, "CPUEfctv" if "CPUEfctv" in fields else "CPUTot")
    memory = _number(fields, "RealMemory") - int(fields.get("MemSpecLimit", "0"))
    gpus = _counted(fields.get("Gres", ""), gres)
    if gpus and "GresUsed" not in fields:
        raise NotUnderstood("scontrol show node --details prints no GresUsed")
    used = _counted(fields.get("GresUsed", ""), gres)
    idle_cpus = max(cpus - _number(fields, "CPUAlloc"), 0)
    idle_memory = max(memory - _number(fields, "AllocMem"), 0)
    sorts = {more[0] if more else "" for more, _ in _items(fields.get("Gres", ""), gres)}
    type = type_of(types, fields.get("ActiveFeatures", "").split(","), sorts)
    offer = Offer(Size(cpus, memory, type), gpus, idle_cpus, idle_memory)
    return Detail(frozenset(words), offer, max(gpus - used, 0))


def _number(fields: Mapping[str, str], key: str) -> int:
    value = fields.get(key, "")
    if not value.isdecimal():
        raise NotUnderstood(f"scontrol show node prints no {key}")
    return int(value)


def _counted(told: str, gres: str) -> int:
    """Return how many of a resource ``Gres=`` or ``GresUsed=`` names, of one type or of all."""
    return sum(count for _, count in _items(told, gres))


def _items(told: str, gres: str) -> list[tuple[list[str], int]]:
    """Return the type, if any, and the count of every item that is of a resource."""
    wanted_name, _, wanted_type = gres.partition(":")
    found = []
    for item in _PARENTHESES.sub("", told).split(","):
        name, *more = item.split(":")
        count = int(more.pop()) if more and more[-1].isdecimal() else 1
        if name == wanted_name and (not wanted_type or more == [wanted_type]):
            found.append((more, count))
    return found
