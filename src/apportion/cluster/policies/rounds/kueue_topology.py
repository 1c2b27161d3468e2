"""How Kueue puts the pods of one workload into a tree of places: a baseline, answer for answer.

Capacity is counted from the nodes up. A level is chosen, then one place that holds everything (the tightest),
or a list of places from the emptiest on, whose last is again the tightest that holds the rest; so level by
level down to the nodes. Balanced placement, where it is asked for, chooses few places that share evenly.
Rules are those of Kueue's topology-aware scheduling at commit ff69552e (`pkg/cache/scheduler`) in our words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from math import log2
from typing import Literal

__all__ = ["Domain", "Leaf", "NoFit", "Request", "Taken", "Tree", "fewest", "placed", "replaced", "resized"]
__all__ += ["shared_evenly"]

Path = tuple[str, ...]
Share = tuple["Domain", int, bool]
"""What a place gets: pods, and whether the leader."""
Room = Callable[["Domain", bool], int]
"""How much of what is placed a place holds, beside the leader or not."""


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
    refusal
        Why no pod fits, such as ``resource:cpu`` or ``taint:spot``.
    """

    path: Path
    room: int
    room_beside_leader: int = 0
    holds_leader: bool = False
    weight: int = 0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What a workload asks for.

    Attributes
    ----------
    count
        Pods, the leader apart.
    level
        That of the request; ``None`` for the lowest. With slices and no other wish it is the highest.
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

    def __post_init__(self) -> None:
        """Check that every level of slices is below the one before, and its size divides that one's."""
        if self.slices and self.level is not None and self.level > self.slices[0][0]:
            raise ValueError("slices lie above the level of the request")
        for (above, larger), (level, size) in pairwise(self.slices):
            if level <= above or larger % size:
                raise ValueError(
                    "inner slices are of a lower level, and of a size that divides the outer one"
                )


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why there is no placement: so much fits of so much.

    Attributes
    ----------
    fit, of
        Slices, or pods where there are none.
    layers
        With slices inside slices the same by level, in the place of which most slices fit.
    excluded
        How many leaves hold no pod, by why; ``topologyDomain``: not where the rest of the pods is.
    unit
        Of what `fit` and `of` are numbers.
    """

    fit: int
    of: int
    layers: tuple[tuple[int, int, int], ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)
    unit: Literal["pod", "slice"] = "pod"


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
    found = _found(leaves, levels, request)
    if not isinstance(found, NoFit):
        return found
    excluded = Counter(leaf.refusal for leaf in leaves if leaf.refusal)
    return replace(found, excluded=excluded, unit="slice" if request.slices else "pod")


def _found(leaves: Sequence[Leaf], levels: int, request: Request) -> list[Taken] | NoFit:
    tree = Tree(leaves, levels, request)
    if request.balanced and request.mode == "preferred" and (shares := tree.balanced()) is not None:
        taken = tree.down(*shares, even=True)
        # inner slices may not find what shares were counted by; Kueue then admits fewer pods than asked for
        got = sum(one.pods for one in taken)
        return taken if got == request.count else NoFit(got // tree.size, request.count // tree.size)
    found = tree.level_and_domains()
    if isinstance(found, NoFit):
        return found
    level, domains = found
    return tree.down(level, tree.fill(domains, request.count, tree.size, request.leader, above=True))


def resized(
    leaves: Sequence[Leaf], levels: int, request: Request, previous: Sequence[tuple[Path, int]]
) -> list[Taken] | NoFit:
    """Return where the pods of an elastic workload lie that had others before: the first of them stay.

    Parameters
    ----------
    leaves, levels, request
        As in `placed`; the room is what the earlier pods leave.
    previous
        Where the earlier pods are.
    """
    stay, missing = list[tuple[Path, int]](), request.count
    for path, pods in previous:
        if mine := min(pods, missing):
            stay.append((path, mine))
            missing -= mine
    more = placed(leaves, levels, replace(request, count=missing)) if missing else []
    return more if isinstance(more, NoFit) else _merged(stay, more)


def replaced(
    leaves: Sequence[Leaf], levels: int, request: Request, rest: Sequence[tuple[Path, int]], lost: int
) -> list[Taken] | NoFit:
    """Return where the pods of a workload lie of which a node was lost: the rest of them stay.

    Where slices are left incomplete the lost go to the place of the innermost one, by slices of the innermost
    size that divides them; else to the place of the required level in which the rest lies.

    Parameters
    ----------
    leaves, levels, request
        As in `placed`; the request is that of the whole workload.
    rest
        Where the other pods are.
    lost
        How many pods are lost.
    """
    within, slices = Path(), request.slices
    if rest and slices and lost % slices[0][1]:
        level, size = next(one for one in reversed(slices) if lost % one[1])
        there = Counter[Path]()
        for path, pods in rest:
            there[path[: level + 1]] += pods
        within = next((path for path, pods in sorted(there.items()) if (pods + lost) % size == 0), ())
        if within:
            slices = tuple([one for one in slices if lost % one[1] == 0][-1:])
    elif rest and request.mode == "required" and request.level is not None:
        within = rest[0][0][: request.level + 1]
    inside = [
        leaf if leaf.path[: len(within)] == within else Leaf(leaf.path, 0, refusal="topologyDomain")
        for leaf in leaves
    ]
    new = placed(inside, levels, replace(request, count=lost, slices=slices, leader=False))
    return new if isinstance(new, NoFit) else _merged(rest, new)


def _merged(stay: Sequence[tuple[Path, int]], more: Sequence[Taken]) -> list[Taken]:
    """Return pods that stay and others in the order of paths."""
    leads = {one.path for one in more if one.leader}
    pods = Counter(dict.fromkeys(leads, 0))
    for path, count in [*stay, *((one.path, one.pods) for one in more)]:
        pods[path] += count
    return [Taken(path, count, path in leads) for path, count in sorted(pods.items())]


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
        self.sign = 1 if self.least_free else -1

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

    def count(self, domain: Domain, *, inner: bool = True) -> None:
        """Count pods, slices, and both beside a leader, from the leaves up; by inner slices or pod by pod."""
        if domain.children:
            for child in domain.children:
                self.count(child, inner=inner)
            unit = self.unit[domain.level + 1] if inner else 1
            whole = [
                (child.pods // unit * unit, child.pods_led // unit * unit, child) for child in domain.children
            ]
            domain.pods = sum(pods for pods, _, _ in whole)
            domain.leaders = max(child.leaders for child in domain.children)
            able = [one for one in whole if one[2].leaders or not self.request.leader]
            loss = min((pods - led for pods, led, _ in able), default=domain.pods)
            domain.pods_led = domain.pods - loss
            domain.slices = sum(child.slices for child in domain.children)
            lost = min((child.slices - child.slices_led for _, _, child in able), default=domain.slices)
            domain.slices_led = domain.slices - lost
            domain.weight = sum(child.weight for child in domain.children)
        if domain.level == self.slice_level:
            domain.slices, domain.slices_led = domain.pods // self.size, domain.pods_led // self.size

    def level_and_domains(self) -> tuple[int, list[Domain]] | NoFit:
        """Return the level of the placement and its places there, in order."""
        request = self.request
        level = self.levels - 1 if request.level is None else request.level
        need, leader = request.count // self.size, request.leader
        while True:
            order = _by_room(self.by_level[level].values(), self.sign, leader=leader)
            fits = [d for d in order if _slices(d, leader) >= need and d.leaders >= leader]
            # affinity comes before room: a place that is preferred and too small asks for the level above
            if fits and (fits[0] is order[0] or self.least_free or request.mode == "required"):
                return level, [fits[0] if self.least_free else _tightest(fits, need, leader, _slices)]
            if request.mode == "preferred" and level > 0:
                level -= 1
                continue
            if request.mode == "required":
                return self._no_fit(level, order[0].slices if order else 0)
            chosen, missing = self._several(order, need, leader=leader)
            if missing or chosen is None:
                return self._no_fit(level, need - missing)
            return level, chosen

    def _no_fit(self, level: int, fit: int) -> NoFit:
        """Return that so much fits in places of a level."""
        count, slices = self.request.count, self.request.slices
        if len(slices) < 2 or not self.by_level[level]:
            return NoFit(fit, count // self.size)
        best = min(self.by_level[level].values(), key=lambda d: (-d.slices, d.path))
        layers = [(at, _slices_inside(best, at, size), count // size) for at, size in slices]
        return NoFit(fit, count // self.size, tuple(layers))

    def _several(self, order: list[Domain], need: int, *, leader: bool) -> tuple[list[Domain] | None, int]:
        """Return places one after the other until all is placed, and how many slices are missing."""
        found: list[Domain] = []
        left = list(order)
        if leader:
            if not any(d.leaders for d in order):
                return None, need
            first = self._next(_leader_first(left, need, _slices), need, True, _slices)
            left.remove(first)
            found.append(first)
            need -= first.slices_led
            left = _by_room(left, self.sign, leader=False)
        while need > 0 and left:
            one = self._next(left, need, False, _slices)
            left.remove(one)
            found.append(one)
            need -= one.slices
        return found, max(need, 0)

    def _next(self, left: Sequence[Domain], need: int, leader: bool, room: Room) -> Domain:
        """Return the next place: the first, or where that holds all, the tightest of its weight that does."""
        first = left[0]
        if self.least_free or room(first, leader) < need or first.leaders < leader:
            return first
        return _tightest(left, need, leader, room)

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
            self.count(domain, inner=False)
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
                order = _by_room(children, self.sign, leader=False)
                got = self.fill(order, request.count, self.size, request.leader, above=True)
                continue
            unit = self.size if above else self.unit[lower]
            parts = []
            for domain, pods, leader in got:
                parts += self.fill(
                    _by_room(domain.children, self.sign, leader=False), pods, unit, leader, above=False
                )
            got = parts
        taken = [Taken(domain.path, pods, leader) for domain, pods, leader in got if pods or leader]
        return sorted(taken, key=lambda one: one.path)

    def fill(self, order: list[Domain], pods: int, unit: int, leader: bool, *, above: bool) -> list[Share]:
        """Give pods to places in order, by units; the last is the tightest that holds the rest.

        A place that can hold the leader and leaves room for all others comes first.
        """

        def units(domain: Domain, beside: bool) -> int:
            return (domain.pods_led if beside else domain.pods) // unit

        room, found, need = _slices if above else units, list[Share](), pods // unit
        left = _leader_first(order, need, room) if leader else list(order)
        while (need > 0 or leader) and left:
            one = self._next(left, need, leader, room)
            left.remove(one)
            led = leader and bool(one.leaders)
            mine = min(need, room(one, leader))
            found.append((one, mine * unit, led))
            need -= mine
            leader = leader and not led
        return found


def _slices_inside(domain: Domain, level: int, size: int) -> int:
    """Return how many slices of a size the places of a level in a place hold."""
    if domain.level == level:
        return domain.pods // size
    return sum(_slices_inside(child, level, size) for child in domain.children)


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
    """Return the greatest smallest share of places (or of those in them), and a lesser one if that fails."""
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
        _without_room(domain, leader_only=False)
    elif leader and domain.leaders and domain.slices_led < least:
        _without_room(domain, leader_only=True)


def _without_room(domain: Domain, *, leader_only: bool) -> None:
    domain.pods_led = domain.slices_led = domain.leaders = 0
    if not leader_only:
        domain.pods = domain.slices = 0
    for child in domain.children:
        _without_room(child, leader_only=leader_only)


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


def _leader_first(order: Sequence[Domain], need: int, room: Room) -> list[Domain]:
    """Put the first place in front that can hold the leader and leaves room for all others."""
    total = sum(room(domain, False) for domain in order)
    for domain in order:
        if domain.leaders and total - room(domain, False) + room(domain, True) >= need:
            return sorted(order, key=lambda d: d is not domain)
    return list(order)


def _slices(domain: Domain, beside: bool) -> int:
    return domain.slices_led if beside else domain.slices


def _tightest(order: Sequence[Domain], need: int, leader: bool, room: Room) -> Domain:
    """Return the first place of least room that holds what is needed, of those of the weight of the first."""
    alike = takewhile(lambda d: d.weight == order[0].weight, order)
    fits = [d for d in alike if room(d, leader) >= need and d.leaders >= leader]
    return min(fits, key=lambda d: room(d, leader))
