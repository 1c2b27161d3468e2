"""How Kueue puts the pods of one workload into a tree of places: a baseline, answer for answer.

Capacity is counted from the nodes up. A level is chosen, then one place that holds everything (the tightest),
or a list of places from the emptiest on, whose last is again the tightest that holds the rest; so level by
level down to the nodes. The rules are those of Kueue's topology-aware scheduling at commit ff69552e
(`pkg/cache/scheduler`), in our own words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

__all__ = ["Leaf", "NoFit", "Request", "Taken", "kept", "placed", "replaced"]

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place of the lowest level.

    Attributes
    ----------
    path
        The labels from the top level down.
    room, room_beside_leader
        How many pods fit; how many if the leader is there as well.
    holds_leader
        Whether the leader fits.
    weight
        The score of preferred affinity.
    """

    path: Path
    room: int
    room_beside_leader: int = 0
    holds_leader: bool = False
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """What a workload asks for.

    Attributes
    ----------
    count
        Pods, the leader apart.
    level
        The level of the request; ``None`` for the lowest.
    mode
        ``"required"``: in one place of the level; ``"preferred"``: there or in places of levels above;
        ``"unconstrained"``: anywhere.
    slices
        Level and size of slices, outermost first.
    leader
        Whether there is a leader.
    least_free
        Whether unconstrained pods fill the fullest places first.
    """

    count: int
    level: int | None = None
    mode: Literal["required", "preferred", "unconstrained"] = "unconstrained"
    slices: tuple[tuple[int, int], ...] = ()
    leader: bool = False
    least_free: bool = True


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why there is no placement: so much fits of so much."""

    fit: int
    of: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Pods and leader that a leaf got."""

    path: Path
    pods: int
    leader: bool


@dataclass(slots=True)
class _Domain:
    path: Path
    level: int
    children: list[_Domain] = field(default_factory=list)
    pods: int = 0
    slices: int = 0
    pods_led: int = 0
    slices_led: int = 0
    leaders: int = 0
    weight: int = 0


def placed(leaves: Sequence[Leaf], levels: int, request: Request) -> list[Taken] | NoFit:
    """Return what every leaf gets, in the order of paths.

    Parameters
    ----------
    leaves
        The lowest places.
    levels
        How many levels there are.
    request
        What is asked for.
    """
    tree = _Tree(leaves, levels, request)
    found = tree.level_and_domains()
    if isinstance(found, NoFit):
        return found
    return tree.down(*found)


def kept(previous: Sequence[tuple[Path, int]], count: int) -> list[tuple[Path, int]]:
    """Return what an elastic workload of so many pods keeps of its earlier places: the first ones."""
    found, left = list[tuple[Path, int]](), count
    for path, pods in previous:
        if (mine := min(pods, left)) > 0:
            found.append((path, mine))
            left -= mine
    return found


def replaced(
    leaves: Sequence[Leaf], levels: int, request: Request, rest: Sequence[tuple[Path, int]], lost: int
) -> list[Taken] | NoFit:
    """Return where the pods of a lost node go, while the rest of their workload stays.

    They go to the place whose slice the loss has left incomplete, the innermost one, else to the place of the
    required level in which the rest lies.

    Parameters
    ----------
    leaves, levels, request
        As in `placed`; the request is that of the whole workload.
    rest
        Where the other pods are.
    lost
        How many pods are lost.
    """
    within: Path = (
        rest[0][0][: request.level + 1] if rest and request.mode == "required" and request.level else ()
    )
    inner = [slices for slices in request.slices if lost % slices[1] == 0]
    for level, size in reversed(request.slices):
        there = Counter[Path]()
        for path, pods in rest:
            there[path[: level + 1]] += pods
        if broken := [path for path, pods in sorted(there.items()) if pods % size]:
            within, inner = broken[0], [one for one in inner if one[0] > level]
            break
    inside = [leaf for leaf in leaves if leaf.path[: len(within)] == within]
    own = replace(request, count=lost, slices=tuple(inner), leader=False)
    return placed(inside, levels, own)


class _Tree:
    """The counted tree of one request."""

    def __init__(self, leaves: Sequence[Leaf], levels: int, request: Request) -> None:
        self.request, self.levels = request, levels
        self.slice_level, self.size = request.slices[0] if request.slices else (levels - 1, 1)
        self.unit = [self._unit(level) for level in range(levels)]
        self.by_level: list[dict[Path, _Domain]] = [{} for _ in range(levels)]
        for leaf in leaves:
            self._add(leaf)
        for root in self.by_level[0].values():
            self._count(root)
        self.least_free = request.least_free and request.mode == "unconstrained"

    def _unit(self, level: int) -> int:
        """Return by how many pods a place of a level below the slices' counts."""
        inner = [size for at, size in self.request.slices[1:] if level <= at]
        return inner[0] if level > self.slice_level and inner else 1

    def _add(self, leaf: Leaf) -> None:
        above: _Domain | None = None
        for level in range(self.levels):
            path = leaf.path[: level + 1]
            known = self.by_level[level].get(path)
            if known is None:
                known = self.by_level[level][path] = _Domain(path, level)
                if above is not None:
                    above.children.append(known)
            above = known
        assert above is not None
        above.pods, above.leaders, above.weight = leaf.room, int(leaf.holds_leader), leaf.weight
        above.pods_led = leaf.room_beside_leader if leaf.holds_leader else leaf.room

    def _count(self, domain: _Domain) -> None:
        """Count pods, slices, and both beside a leader, from the leaves up."""
        if domain.children:
            for child in domain.children:
                self._count(child)
            unit = self.unit[domain.level + 1]
            whole = [
                (child.pods // unit * unit, child.pods_led // unit * unit, child) for child in domain.children
            ]
            domain.pods = sum(pods for pods, _, _ in whole)
            losses = [(pods - led) for pods, led, child in whole if child.leaders]
            domain.leaders = max(child.leaders for child in domain.children)
            domain.pods_led = domain.pods - min(losses, default=0)
            domain.slices = sum(child.slices for child in domain.children)
            lost = [child.slices - child.slices_led for child in domain.children if child.leaders]
            domain.slices_led = domain.slices - min(lost, default=0)
            domain.weight = sum(child.weight for child in domain.children)
        if domain.level == self.slice_level:
            domain.slices, domain.slices_led = domain.pods // self.size, domain.pods_led // self.size

    def _sorted(self, domains: Iterable[_Domain], *, leader: bool) -> list[_Domain]:
        sign = 1 if self.least_free else -1
        if leader:
            return sorted(
                domains, key=lambda d: (-d.leaders, -d.weight, sign * d.slices_led, d.pods_led, d.path)
            )
        return sorted(domains, key=lambda d: (-d.weight, sign * d.slices, d.pods, d.path))

    def level_and_domains(self) -> tuple[int, list[_Domain]] | NoFit:
        """Return the level of the placement and its places there, in order."""
        request = self.request
        level = self.levels - 1 if request.level is None else request.level
        need, leader = request.count // self.size, request.leader
        best = 0
        while True:
            order = self._sorted(self.by_level[level].values(), leader=leader)
            fits = [d for d in order if _slices(d, leader=leader) >= need and d.leaders >= leader]
            # affinity comes before room: a place that is preferred and too small asks for the level above
            if fits and (fits[0] is order[0] or self.least_free):
                fits = [d for d in fits if d.weight == fits[0].weight]
                return level, [fits[0] if self.least_free else _tightest(fits, need, leader=leader)]
            best = max([best, *(_slices(d, leader=False) for d in order)])
            if request.mode == "preferred" and level > 0:
                level -= 1
                continue
            if request.mode == "required":
                return NoFit(best, need)
            chosen, missing = self._several(order, need, leader=leader)
            return NoFit(need - missing, need) if missing or chosen is None else (level, chosen)

    def _several(self, order: list[_Domain], need: int, *, leader: bool) -> tuple[list[_Domain] | None, int]:
        """Return places one after the other until all is placed, and how many slices are missing."""
        found: list[_Domain] = []
        left = list(order)
        if leader:
            first = _leads(left, need, lambda d: d.slices, lambda d: d.slices_led)
            if first is None:
                return None, need
            left.remove(first)
            found.append(first)
            need -= first.slices_led
            left = self._sorted(left, leader=False)
        left = [d for d in left if d.slices > 0]
        while need > 0 and left:
            enough = [d for d in left if d.slices >= need]
            best_fit = not self.least_free and left[0].slices >= need
            one = _tightest(enough, need, leader=False) if best_fit else left[0]
            left.remove(one)
            found.append(one)
            need -= one.slices
        return found, max(need, 0)

    def down(self, level: int, domains: list[_Domain]) -> list[Taken]:
        """Return what the leaves get below some chosen places."""
        request = self.request
        got = self._fill(domains, request.count, self.size, request.leader, above=True)
        for lower in range(level + 1, self.levels):
            if lower <= self.slice_level:
                children = [child for domain, _, _ in got for child in domain.children]
                order = self._sorted(children, leader=request.leader)
                got = self._fill(order, request.count, self.size, request.leader, above=True)
            else:
                parts = []
                for domain, pods, leader in got:
                    order = self._below(domain.children, leader=leader)
                    parts += self._fill(order, pods, self.unit[lower], leader, above=False)
                got = parts
        taken = [Taken(domain.path, pods, leader) for domain, pods, leader in got if pods or leader]
        return sorted(taken, key=lambda one: one.path)

    def _below(self, domains: Iterable[_Domain], *, leader: bool) -> list[_Domain]:
        """Sort places below the slices': slices count nothing there."""
        if leader:
            return sorted(domains, key=lambda d: (-d.leaders, -d.weight, d.pods_led, d.path))
        return sorted(domains, key=lambda d: (-d.weight, d.pods, d.path))

    def _fill(
        self, order: list[_Domain], pods: int, unit: int, leader: bool, *, above: bool
    ) -> list[tuple[_Domain, int, bool]]:
        """Give pods to places in order, by units; the last is the tightest that holds the rest."""
        found: list[tuple[_Domain, int, bool]] = []
        left, need = list(order), pods // unit
        while (need > 0 or leader) and left:
            one = left[0]
            if not self.least_free and _room(one, unit, leader, above) >= need and one.leaders >= leader:
                fits = [d for d in left if _room(d, unit, leader, above) >= need and d.leaders >= leader]
                one = min(fits, key=lambda d: _room(d, unit, leader, above))
            elif leader:
                found_one = _leads(
                    left, need, lambda d: _room(d, unit, False, above), lambda d: _room(d, unit, True, above)
                )
                one = left[0] if found_one is None else found_one
            left.remove(one)
            led = leader and bool(one.leaders)
            mine = min(need, _room(one, unit, led, above))
            found.append((one, mine * unit, led))
            need -= mine
            if led:
                leader = False
                left = self._sorted(left, leader=False) if above else self._below(left, leader=False)
        return found


def _leads(
    order: Sequence[_Domain], need: int, room: Callable[[_Domain], int], led: Callable[[_Domain], int]
) -> _Domain | None:
    """Return the first place that can hold the leader and leaves room for all others, or just holds it."""
    total = sum(map(room, order))
    able = [domain for domain in order if domain.leaders]
    enough = (domain for domain in able if total - room(domain) + led(domain) >= need)
    return next(enough, able[0] if able else None)


def _room(domain: _Domain, unit: int, leader: bool, above: bool) -> int:
    if above:
        return domain.slices_led if leader else domain.slices
    return (domain.pods_led if leader else domain.pods) // unit


def _slices(domain: _Domain, *, leader: bool) -> int:
    return domain.slices_led if leader else domain.slices


def _tightest(domains: Sequence[_Domain], need: int, *, leader: bool) -> _Domain:
    """Return the first place of least room that holds what is needed."""
    fits = [d for d in domains if _slices(d, leader=leader) >= need and d.leaders >= leader]
    return min(fits, key=lambda d: _slices(d, leader=leader))
