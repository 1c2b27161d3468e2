"""How Kueue puts the pods of one workload into a tree of places: a baseline, answer for answer.

Capacity is counted from the nodes up. A level is chosen, then one place that holds everything (the tightest),
or a list of places from the emptiest on, whose last is again the tightest that holds the rest; so level by
level down to the nodes. Balanced placement, where it is asked for, chooses few places that share evenly. The
rules are those of Kueue's topology-aware scheduling at commit ff69552e (`pkg/cache/scheduler`), in our own
words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import log2
from typing import Literal

__all__ = [
    "Domain",
    "Leaf",
    "NoFit",
    "Request",
    "Share",
    "Taken",
    "Tree",
    "fewest",
    "kept",
    "placed",
    "replaced",
    "shared_evenly",
]

Path = tuple[str, ...]
Share = tuple["Domain", int, bool]
"""What a place gets: pods, and whether the leader."""


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
    balanced
        Whether the places of a preferred level share pods evenly where one place above holds them all.
    """

    count: int
    level: int | None = None
    mode: Literal["required", "preferred", "unconstrained"] = "unconstrained"
    slices: tuple[tuple[int, int], ...] = ()
    leader: bool = False
    least_free: bool = True
    balanced: bool = False


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
class Domain:
    """A place of any level, and what it has room for.

    Attributes
    ----------
    path, level
        Its labels from the top level down, and how many there are less one.
    children
        The places of the next level in it.
    pods, slices
        How many fit.
    pods_led, slices_led
        How many fit beside the leader.
    leaders
        How many leaders fit, one at most.
    weight
        The score of preferred affinity.
    """

    path: Path
    level: int
    children: list[Domain] = field(default_factory=list)
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
    tree = Tree(leaves, levels, request)
    if request.balanced and request.mode == "preferred" and (shares := tree.balanced()) is not None:
        return tree.down(*shares, even=True)
    found = tree.level_and_domains()
    if isinstance(found, NoFit):
        return found
    level, domains = found
    return tree.down(level, tree.fill(domains, request.count, tree.size, request.leader, above=True))


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


class Tree:
    """The counted tree of one request."""

    def __init__(self, leaves: Sequence[Leaf], levels: int, request: Request) -> None:
        self.request, self.levels = request, levels
        self.slice_level, self.size = request.slices[0] if request.slices else (levels - 1, 1)
        self.unit = [self._unit(level) for level in range(levels)]
        self.by_level: list[dict[Path, Domain]] = [{} for _ in range(levels)]
        for leaf in leaves:
            self._add(leaf)
        for root in self.by_level[0].values():
            self.count(root)
        self.least_free = request.least_free and request.mode == "unconstrained"

    def _unit(self, level: int) -> int:
        """Return by how many pods a place of a level below the slices' counts."""
        inner = [size for at, size in self.request.slices[1:] if level <= at]
        return inner[0] if level > self.slice_level and inner else 1

    def _add(self, leaf: Leaf) -> None:
        above: Domain | None = None
        for level in range(self.levels):
            path = leaf.path[: level + 1]
            known = self.by_level[level].get(path)
            if known is None:
                known = self.by_level[level][path] = Domain(path, level)
                if above is not None:
                    above.children.append(known)
            above = known
        assert above is not None
        above.pods, above.leaders, above.weight = leaf.room, int(leaf.holds_leader), leaf.weight
        above.pods_led = leaf.room_beside_leader if leaf.holds_leader else leaf.room

    def count(self, domain: Domain) -> None:
        """Count pods, slices, and both beside a leader, from the leaves up."""
        if domain.children:
            for child in domain.children:
                self.count(child)
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

    def _sorted(self, domains: Iterable[Domain], *, leader: bool) -> list[Domain]:
        return _by_room(domains, 1 if self.least_free else -1, leader=leader)

    def level_and_domains(self) -> tuple[int, list[Domain]] | NoFit:
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

    def _several(self, order: list[Domain], need: int, *, leader: bool) -> tuple[list[Domain] | None, int]:
        """Return places one after the other until all is placed, and how many slices are missing."""
        found: list[Domain] = []
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

    def balanced(self) -> tuple[int, list[Share]] | None:
        """Return a level and the even shares of its places; ``None`` where there are none."""
        need, level, leader = self.request.count // self.size, self.request.level or 0, self.request.leader
        least, _, chosen = self.most_even()
        if not least:
            return None
        if level < self.slice_level:
            few = fewest(chosen, need, self.size, leader, by_entropy=True)
            chosen, level = [child for domain in few for child in domain.children], level + 1
        shares = shared_evenly(chosen, need, self.size, leader, least)
        return None if shares is None else (level, shares)

    def most_even(self) -> tuple[int, int, list[Domain]]:
        """Return the greatest smallest share, of how many places of the preferred level, and what is there.

        One place above that level, or the top, is to hold everything; places that could not take the share
        are taken away. 0 where nothing holds everything.
        """
        need, level, leader = self.request.count // self.size, self.request.level or 0, self.request.leader
        above = sorted(self.by_level[level - 1].values(), key=lambda d: d.path) if level else []
        groups = [d.children for d in above] if level else [list(self.by_level[0].values())]
        best, number, chosen = 0, 0, list[Domain]()
        for group in groups:
            for least in _smallest_share(group, need, leader, below=level < self.slice_level):
                if least < best:
                    break
                pruned = self._pruned(group, least)
                found = _greedy(pruned, need, leader)
                if found is None:
                    continue
                if least > best or found[0] < number:
                    best, number, chosen = least, found[0], pruned
                break
        return best, number, chosen

    def _pruned(self, group: Sequence[Domain], least: int) -> list[Domain]:
        """Return copies of places without what could not take so great a share."""
        copies = deepcopy(list(group))
        for domain in copies:
            for child in domain.children:
                _prune(child, least, self.request.leader)
            self.count(domain)
            _prune(domain, least, self.request.leader)
        return copies

    def down(self, level: int, got: list[Share], *, even: bool = False) -> list[Taken]:
        """Return what the leaves get below places that have got their pods.

        Down to the level of slices what a place has got is not kept unless shares are even: only places are.
        """
        request = self.request
        for lower in range(level + 1, self.levels):
            above = lower <= self.slice_level
            if above and not even:
                children = [child for domain, _, _ in got for child in domain.children]
                order = self._sorted(children, leader=request.leader)
                got = self.fill(order, request.count, self.size, request.leader, above=True)
                continue
            parts = []
            for domain, pods, leader in got:
                sort, unit = (self._sorted, self.size) if above else (self._below, self.unit[lower])
                parts += self.fill(sort(domain.children, leader=leader), pods, unit, leader, above=above)
            got = parts
        taken = [Taken(domain.path, pods, leader) for domain, pods, leader in got if pods or leader]
        return sorted(taken, key=lambda one: one.path)

    def _below(self, domains: Iterable[Domain], *, leader: bool) -> list[Domain]:
        """Sort places below the slices': slices count nothing there."""
        if leader:
            return sorted(domains, key=lambda d: (-d.leaders, -d.weight, d.pods_led, d.path))
        return sorted(domains, key=lambda d: (-d.weight, d.pods, d.path))

    def fill(self, order: list[Domain], pods: int, unit: int, leader: bool, *, above: bool) -> list[Share]:
        """Give pods to places in order, by units; the last is the tightest that holds the rest."""
        found: list[Share] = []
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


def _by_room(domains: Iterable[Domain], sign: int, *, leader: bool) -> list[Domain]:
    if leader:
        return sorted(domains, key=lambda d: (-d.leaders, -d.weight, sign * d.slices_led, d.pods_led, d.path))
    return sorted(domains, key=lambda d: (-d.weight, sign * d.slices, d.pods, d.path))


def _greedy(
    domains: Iterable[Domain], need: int, leader: bool
) -> tuple[int, Domain | None, Domain | None] | None:
    """Return how many places the largest first take, that of the leader and the last; ``None`` for no fit."""
    order = _by_room(domains, -1, leader=leader)
    first: Domain | None = None
    if leader:
        if not order or not order[0].leaders:
            return None
        first = order[0]
        need, order = need - first.slices_led, _by_room(order[1:], -1, leader=False)
    number, last = int(leader), None
    for domain in order:
        if need <= 0 or domain.slices <= 0:
            break
        number, last, need = number + 1, domain, need - domain.slices
    return (number, first, last) if need <= 0 else None


def _smallest_share(group: Sequence[Domain], need: int, leader: bool, *, below: bool) -> tuple[int, ...]:
    """Return the greatest smallest share of places that hold so many slices, and a lesser one if that fails.

    Parameters
    ----------
    group
        Places of the preferred level.
    need, leader
        Slices, and whether there is a leader.
    below
        Whether it is the places in them that share.
    """
    found = _greedy([child for d in group for child in d.children] if below else group, need, leader)
    if found is None:
        return ()
    number, first, last = found
    least = need // number
    if first is not None:
        least = min(least, first.slices_led)
    if last is None:
        return (least,)
    least = min(least, last.slices)
    beside = min(least, last.slices_led) if leader else least
    return (least, beside) if 0 < beside < least else (least,)


def _prune(domain: Domain, least: int, leader: bool) -> None:
    """Take away what a place cannot have where every share is so great: all of it, or the leader."""
    if domain.slices < least:
        domain.pods = domain.slices = domain.pods_led = domain.slices_led = domain.leaders = 0
    elif leader and domain.leaders and domain.slices_led < least:
        domain.pods_led = domain.slices_led = domain.leaders = 0
    else:
        return
    for child in domain.children:
        _prune(child, least if domain.slices else child.slices + 1, leader)


def fewest(
    domains: Sequence[Domain], need: int, size: int, leader: bool, *, by_entropy: bool
) -> list[Domain]:
    """Return as few places as hold so many slices of a size, of these with least room; empty for no fit.

    Of equal ones the first in the order of paths, or of room beside the leader and how evenly it is spread.
    """
    found = _greedy(domains, need, leader)
    if found is None:
        return []

    def order(domain: Domain) -> tuple[float, float, float, Path]:
        if not by_entropy:
            return 0.0, 0.0, 0.0, domain.path
        return -domain.leaders, -domain.slices_led, -_entropy(domain.children), domain.path

    # by number of places: those that leave so many leaders and pods to place
    chosen: list[dict[tuple[int, int], list[Domain]]] = [{} for _ in range(found[0] + 1)]
    chosen[0][int(leader), need * size] = []
    for domain in sorted(domains, key=order):
        for number in range(found[0], 0, -1):
            for (leaders, pods), before in sorted(chosen[number - 1].items(), key=lambda one: one[0]):
                if leaders <= 0 and pods <= 0:
                    continue
                with_it = [*before, domain]
                if leaders > 0 and domain.leaders:
                    chosen[number].setdefault((leaders - domain.leaders, pods - domain.pods_led), with_it)
                if domain.slices:
                    chosen[number].setdefault((leaders, pods - domain.pods), with_it)
    full = {pods: those for (leaders, pods), those in chosen[-1].items() if leaders == 0 and pods <= 0}
    return full[max(full)] if full else []


def _entropy(domains: Sequence[Domain]) -> float:
    total = sum(domain.pods for domain in domains)
    parts = [domain.pods / total for domain in domains if domain.pods > 0]
    return -sum(part * log2(part) for part in parts)


def shared_evenly(
    domains: Sequence[Domain], need: int, size: int, leader: bool, least: int
) -> list[Share] | None:
    """Return what as few places as possible get, each no less than so many slices; ``None`` for no way.

    What is over goes to the largest as far as they have room, first to that of the leader.
    """
    chosen = _by_room(fewest(domains, need, size, leader, by_entropy=False), -1, leader=leader)
    over = need - len(chosen) * least
    if not chosen or over < 0:
        return None
    shares: list[Share] = []
    for at, domain in enumerate(chosen):
        led = leader and at == 0
        more = min((domain.slices_led if led else domain.slices) - least, over)
        shares.append((domain, (least + more) * size, led))
        over -= more
    return None if over else shares


def _leads(
    order: Sequence[Domain], need: int, room: Callable[[Domain], int], led: Callable[[Domain], int]
) -> Domain | None:
    """Return the first place that can hold the leader and leaves room for all others, or just holds it."""
    total = sum(map(room, order))
    able = [domain for domain in order if domain.leaders]
    enough = (domain for domain in able if total - room(domain) + led(domain) >= need)
    return next(enough, able[0] if able else None)


def _room(domain: Domain, unit: int, leader: bool, above: bool) -> int:
    if above:
        return domain.slices_led if leader else domain.slices
    return (domain.pods_led if leader else domain.pods) // unit


def _slices(domain: Domain, *, leader: bool) -> int:
    return domain.slices_led if leader else domain.slices


def _tightest(domains: Sequence[Domain], need: int, *, leader: bool) -> Domain:
    """Return the first place of least room that holds what is needed."""
    fits = [d for d in domains if _slices(d, leader=leader) >= need and d.leaders >= leader]
    return min(fits, key=lambda d: _slices(d, leader=leader))
