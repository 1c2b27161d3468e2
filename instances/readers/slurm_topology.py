"""The trees above the nodes of a Slurm site: switches, blocks, and domains that share an interconnect.

Taken are the records of ``scontrol show topology`` and ``topology.conf``, the topologies of a
``topology.yaml`` (since Slurm 25.05) and a model of topograph: switches with what is below them, and nodes
with the accelerator domain (NVLink) and sub-domain that they share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from apportion.core.errors import Problem
from apportion.core.node_lists import expand
from apportion.instances.readers.kueue.dump import Notes

__all__ = [
    "BEGINS",
    "NOBODY",
    "OF_TOPOLOGY",
    "Record",
    "Tree",
    "number_of",
    "split_topology",
    "trees_of",
    "trees_of_yaml",
]

Record = Mapping[str, str]
OF_TOPOLOGY = ("SwitchName", "BlockName", "AggregatedBlock", "BlockSizes")
BEGINS = (*OF_TOPOLOGY, "NodeName", "JobId")
"""The first word of a record, which says what it is about."""
NOBODY = ("", "(null)", "N/A", "None")
_LEAF = "switch"
"""The lowest level of a tree of switches."""
_DOMAINS = ("domain", "sub-domain")
"""What nodes of one accelerator interconnect share, from the top down."""
_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


class Tree(NamedTuple):
    """One tree over the nodes.

    Attributes
    ----------
    levels
        Those above the nodes, from the top down.
    places
        By node its places, from the top down.
    """

    levels: list[str]
    places: dict[str, tuple[str, ...]]


def split_topology(raw: bytes) -> tuple[bytes, bytes]:
    """Return the YAML that a text begins with, if any, and the records that follow."""
    first = re.search(rb"^(?:%s)=" % "|".join(BEGINS).encode(), raw, re.MULTILINE)
    begin = raw[: first.start() if first else len(raw)]
    if not re.search(rb"^\s*(?:- +topology|[\"']?(?:switches|blocks)[\"']?) *:", begin, re.MULTILINE):
        return b"", raw
    return begin, raw[len(begin) :]


def number_of(amount: str) -> int:
    """Return an amount as Slurm writes it, memory in MiB, rounded up; 0 for what is no number."""
    unit = amount[-1:].upper()
    try:
        exact = float(amount[:-1]) * _MIB[unit] if unit in _MIB else float(amount)
        return int(-(-exact // 1))
    except (ValueError, OverflowError):
        return 0


def trees_of(records: Mapping[str, Sequence[Record]], notes: Notes) -> list[Tree]:
    """Return the tree of switches that records speak of, or that of blocks."""
    switches = {one["SwitchName"]: one for one in records["SwitchName"]}
    if switches:
        return [_switches(switches, notes)]
    sizes = next((one["BlockSizes"] for one in records["BlockSizes"]), "")
    blocks = {one["BlockName"]: expand(one.get("Nodes", "")) for one in records["BlockName"]}
    nodes = [len(expand(one.get("Nodes", ""))) for one in records["AggregatedBlock"]]
    return [_blocks(blocks, sizes, nodes)] if blocks else []


def trees_of_yaml(given: Any, notes: Notes) -> list[Tree]:
    """Return the trees of a ``topology.yaml``, the default first, or of a model of topograph."""
    if isinstance(given, Mapping):
        return _of_model(given, notes)
    found = list[tuple[bool, str, Tree]]()
    for at, topology in enumerate(_mappings(given, "$", notes)):
        name, where = str(topology.get("topology", at)), f"$[{at}]"
        tree = Tree([], {})
        for kind in ("tree", "block"):
            said = topology.get(kind)
            if said is not None and not isinstance(said, Mapping):
                notes.problems.append(Problem(f"{where}.{kind}", "must be a mapping"))
            elif said is not None:
                tree = _TOPOLOGIES[kind](said, f"{where}.{kind}", notes)
        found.append((topology.get("cluster_default") is True, name, tree))
    found.sort(key=lambda one: not one[0])
    taken, trees = set[str](), list[Tree]()
    for _, name, tree in found:
        levels = [f"{name} {level}" if level in taken else level for level in tree.levels]
        taken.update(levels)
        trees.append(Tree(levels, tree.places))
    return trees[:1] + [tree for tree in trees[1:] if tree.levels]


def _of_model(model: Mapping[Any, Any], notes: Notes) -> list[Tree]:
    switches = dict[str, dict[str, str]]()
    given = model.get("switches")
    for name, switch in given.items() if isinstance(given, Mapping) else ():
        below = switch.get("switches") if isinstance(switch, Mapping) else None
        switches[str(name)] = {"Switches": _names(below, f"$.switches.{name}.switches", notes)}
    shared = dict[str, dict[str, str]]()
    for at, block in enumerate(_mappings(model.get("blocks"), "$.blocks", notes)):
        nodes = _names(block.get("nodes"), f"$.blocks[{at}].nodes", notes)
        own = switches.setdefault(str(block.get("switch", "")), {})
        own["Nodes"] = ",".join(filter(None, [own.get("Nodes", ""), nodes]))
        domains = dict(_domains_of(block))
        shared |= dict.fromkeys(expand(nodes), domains)
    for children in [one.get("Switches", "") for one in switches.values()]:
        for name in expand(children):
            switches.setdefault(name, {})  # a leaf without nodes
    trees = [_switches(switches, notes)]
    levels = [level for level in _DOMAINS if any(level in own for own in shared.values())]
    places = {node: tuple(own.get(level, node) for level in levels) for node, own in shared.items()}
    return [*trees, Tree(levels, places)] if levels else trees


def _domains_of(block: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield the accelerator domain and sub-domain that annotations or labels of a block name."""
    for field in ("labels", "annotations"):
        said = block.get(field)
        for key, value in said.items() if isinstance(said, Mapping) else ():
            last = str(key).rpartition("/")[2]
            if last in _DOMAINS or last == "accelerator":
                yield ("domain" if last == "accelerator" else last), str(value)


def _tree_topology(said: Mapping[Any, Any], where: str, notes: Notes) -> Tree:
    switches = dict[str, dict[str, str]]()
    for at, one in enumerate(_mappings(said.get("switches"), f"{where}.switches", notes)):
        fields = (("Switches", "children"), ("Nodes", "nodes"))
        switches[str(one.get("switch", at))] = {
            word: _names(one[field], f"{where}.switches[{at}].{field}", notes)
            for word, field in fields
            if field in one
        }
    return _switches(switches, notes)


def _block_topology(said: Mapping[Any, Any], where: str, notes: Notes) -> Tree:
    blocks = {
        str(one.get("block", at)): expand(_names(one.get("nodes"), f"{where}.blocks[{at}].nodes", notes))
        for at, one in enumerate(_mappings(said.get("blocks"), f"{where}.blocks", notes))
    }
    return _blocks(blocks, _names(said.get("block_sizes"), f"{where}.block_sizes", notes), [])


_TOPOLOGIES = {"tree": _tree_topology, "block": _block_topology}


def _mappings(given: Any, where: str, notes: Notes) -> Iterator[Mapping[Any, Any]]:
    if given is not None and not isinstance(given, list):
        notes.problems.append(Problem(where, "must be a list"))
    for at, one in enumerate(given if isinstance(given, list) else ()):
        if isinstance(one, Mapping):
            yield one
        else:
            notes.problems.append(Problem(f"{where}[{at}]", "must be a mapping"))


def _names(given: Any, where: str, notes: Notes) -> str:
    """Return a list of names as Slurm writes it, of one word or of several."""
    words = given if isinstance(given, list) else [] if given is None else [given]
    if any(isinstance(word, Mapping | list) for word in words):
        notes.problems.append(Problem(where, "must be names such as n[00-15]"))
        return ""
    return ",".join(map(str, words))


def _blocks(blocks: Mapping[str, Sequence[str]], sizes: str, aggregated: Sequence[int]) -> Tree:
    """Return the tree of blocks and what aggregates them, by sizes or by groups of so many nodes."""
    least = max(map(len, blocks.values()), default=0) or 1
    widths = sorted({_ratio(size, least) for size in aggregated} | _ratios(sizes))
    levels = [f"blocks{width}" for width in reversed(widths) if width > 1] + ["block"]
    names, found = list(blocks), dict[str, tuple[str, ...]]()
    for at, block in enumerate(names):
        above = tuple(
            f"{names[at // width * width]}..{names[min(len(names), at // width * width + width) - 1]}"
            for width in reversed(widths)
            if width > 1
        )
        found |= dict.fromkeys(blocks[block], (*above, block))
    return Tree(levels, found)


def _ratio(size: int, least: int) -> int:
    """Return of how many base blocks one is, a power of two."""
    return 1 << max(0, (size - 1) // least).bit_length()


def _ratios(sizes: str) -> set[int]:
    """Return by how many base blocks ``BlockSizes`` aggregates."""
    counted = [size for size in map(number_of, sizes.split(",")) if size > 0]
    return {_ratio(size, counted[0]) for size in counted}


def _switches(switches: Mapping[str, Record], notes: Notes) -> Tree:
    above: dict[str, str] = {}
    for name, switch in switches.items():
        for child in expand(switch.get("Switches", "")) if switch.get("Switches") not in NOBODY else ():
            if child not in switches:
                notes.problems.append(Problem(f"$.{name}.Switches", f"{child} is no switch of the topology"))
            elif above.setdefault(child, name) != name:
                notes.add("a switch below two is taken to be below the first", child)
    paths: dict[str, tuple[str, ...]] = {}
    for name, switch in switches.items():
        if name in above.values() or switch.get("Nodes") in (None, *NOBODY):
            continue
        path = [name]
        while (upper := above.get(path[-1])) is not None and upper not in path:
            path.append(upper)
        if upper is not None:
            notes.problems.append(Problem(f"$.{upper}.Switches", "switches lie in a circle"))
        for node in expand(switch["Nodes"]):
            if paths.setdefault(node, tuple(path)) != tuple(path):
                notes.add("a node at two leaf switches is taken to be at the first", node)
    if not paths:
        notes.problems.append(Problem("$.SwitchName", "no switch is above nodes alone, as the lowest are"))
    depth = max(map(len, paths.values()), default=0)
    levels = [f"{_LEAF}{height}" if height else _LEAF for height in reversed(range(depth))]
    # a leaf switch that lies higher is a place of its own on the levels that it lacks
    lying = {node: tuple(reversed((path[0],) * (depth - len(path)) + path)) for node, path in paths.items()}
    return Tree(levels, lying)
