"""Which pods lie together on a node, and on how many nodes: a relaxation whose columns come when they pay.

    maximise    value . x
    subject to  sum of x over the options of a chooser = 1
                pods of every kind in x <= pods of that kind in the patterns
                patterns of a sort of nodes <= nodes of that sort
                what x takes of further limits <= these limits,    x, patterns >= 0

A pattern is a set of pods that a node can hold. The bound counts every node by itself, which sums over nodes
do not (Gilmore and Gomory, *Operations Research* 9, 1961, for one resource and one sort of nodes). The prices
of kinds are weights: whatever they are, the pods of a plan weigh no more than the heaviest sets do on all
nodes together. An optimum at a vertex divides few choosers and few patterns, so that most of it is a plan.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.models.pods import PodMenus, PodPacking, beside_others
from apportion.solvers.general.guard import usable
from apportion.solvers.general.highs import GrowingProgramme
from apportion.solvers.packing.staying import most_staying

__all__ = ["Keeps", "Relaxation", "relaxed", "rounded"]

Keeps = Callable[[NDArray[np.int64], Sequence[tuple[int, ...]]], bool]
"""Whether options, -1 for none, with the nodes of their pods are a plan."""

_MOST_OPTIONS, _MOST_KINDS = 50_000, 500
"""Options and kinds of pods up to which a relaxation is short beside what it saves."""
_LARGE, _SAMPLED = 10_000, 10
"""Options from which on one in so many of the choosers and of the nodes is solved first,"""
_NEARLY = (0.0, 0.01, 0.02, 0.05, 0.1)
"""and relative distances from its prices at which patterns are made for all."""
_AT_ONCE = 300
"""Patterns that are added at a time, about, as long as there are not more sorts of nodes."""
_BEYOND = 10.0
"""What going beyond a limit costs, of what all choosers can be worth."""
_AGAIN = 6
"""How often it begins anew, so as to keep floors."""
_CLOSE = 1e-9
"""Relative difference between the bound and the optimum of some columns that counts as none."""
_FEWEST, _MOST = 12, 64
"""Nodes whose choosers are placed anew together,"""
_IN_VAIN = 60
"""and how often that may be in vain, one time after the other, or half as often as there are choosers."""
_STAYING, _OTHERS = 0.55, 0.9
"""Shares of the time after which plans in which pods stay first of all, and others, are as they are."""
_WHOLE = 1e-6
"""How far from a whole number what is taken of an option or of a pattern may lie."""


class Relaxation(NamedTuple):
    """What was found of a relaxation by patterns.

    Attributes
    ----------
    weights
        float64 [kinds] >= 0: the price of a pod of every kind.
    prices
        float64 [limits] >= 0: those of further limits.
    taken
        float64 [options].
    patterns
        Bundle, sort and kinds, the latter by their position among those of the bundle, and on how many nodes.
    worth
        The value, by the columns that were there; less what going beyond limits costs.
    within
        Whether limits are kept.
    """

    weights: NDArray[np.float64]
    prices: NDArray[np.float64]
    taken: NDArray[np.float64]
    patterns: list[tuple[int, int, tuple[int, ...], float]]
    worth: float
    within: bool


def relaxed(menus: PodMenus, seconds: float | None, near: Relaxation | None = None) -> Relaxation | None:
    """Solve the relaxation, as far as that goes in the time.

    Parameters
    ----------
    menus
        What is to be placed, and where.
    seconds
        How long that may take.
    near
        What was found for more choosers and other amounts: its patterns are there from the start.

    Returns
    -------
    Relaxation or None
        With the prices of the best bound found; ``None`` where nothing was found in the time, where there are
        too many options or kinds, or where a chooser has no option.
    """
    if menus.values.size > _MOST_OPTIONS or len(menus.needs) > _MOST_KINDS or not usable("highspy"):
        return None
    if not (np.diff(menus.offsets) > 0).all() or not all(each.is_listed for each in menus.contents):
        return None
    end = None if seconds is None else time.perf_counter() + seconds
    few = menus.some(_SAMPLED) if near is None and menus.values.size > _LARGE else None
    if few is not None:  # its prices are nearly those of all
        near = relaxed(few, seconds)
    master, found, best = _Master(menus, near), None, np.inf
    while True:
        left = None if end is None else end - time.perf_counter()
        if left is not None and left <= 0.0:
            return found
        now = master.solved(left)
        if now is None:
            return found
        objective, (weights, prices, of_sorts, taken, times, beyond) = now
        bound, added = master.priced(weights, prices, of_sorts)
        if bound < best:
            best, kept = bound, (weights, prices)
        patterns = [(*one, much) for one, much in zip(master.patterns, times.tolist(), strict=False) if much]
        found = Relaxation(*kept, taken, patterns, objective, not (beyond > _WHOLE).any())
        if not added or best - objective <= _CLOSE * abs(best):
            return found


class _Master:
    """The programme over the patterns so far.

    Rows: choosers, kinds, sorts of all bundles, limits. A column of a pattern counts all nodes of its sort.
    Every limit has a column that goes beyond it at a high cost: the first patterns may be too few for floors.
    """

    def __init__(self, menus: PodMenus, near: Relaxation | None) -> None:
        from scipy.sparse import csr_array, hstack

        self._menus = menus
        self.patterns = list[tuple[int, int, tuple[int, ...]]]()
        self._known = set[tuple[int, int, tuple[int, ...]]]()
        self._numbers = np.concatenate([each.number for each in menus.contents]).astype(np.float64)
        self._sorts = np.cumsum([0, *(each.number.size for each in menus.contents)])
        choosers, kinds, options = menus.offsets.size - 1, len(menus.needs), menus.values.size
        self._kinds, self._first_sort = choosers, choosers + kinds
        self._limits = self._first_sort + self._numbers.size
        self._options = options
        ones, none = np.ones(choosers), np.full(self._limits + menus.rooms.size, -np.inf)
        none[:choosers] = 1.0
        rooms = menus.rooms.astype(np.float64)
        upper = np.concatenate((ones, np.zeros(kinds), np.ones(self._numbers.size), rooms))
        self._programme = GrowingProgramme(none, upper, menus.values)
        self._pods = csr_array((menus.count, (menus.option, menus.kind)), shape=(options, kinds))
        one = csr_array((np.ones(options), (np.arange(options), menus.owner)), shape=(options, choosers))
        no_sort = csr_array((options, self._numbers.size))
        columns = hstack([one, self._pods, no_sort, menus.rows], format="csr")
        self._programme.add(menus.values, columns.indptr, columns.indices, columns.data)
        limits = np.arange(menus.rooms.size)
        high = -_BEYOND * float(np.maximum.reduceat(np.abs(menus.values), menus.offsets[:-1]).sum())
        most = np.asarray(menus.rows.sum(axis=0), dtype=np.float64).ravel()
        self._programme.add(
            np.full(limits.size, high), np.arange(limits.size + 1), self._limits + limits, -most
        )
        if near is not None:
            before = dict.fromkeys((at, kinds) for at, _, kinds, _ in near.patterns)
            pairs = ((at, sort, kinds) for at, kinds in before for sort in menus.contents[at].holding(kinds))
            self._add(list(islice(pairs, _AT_ONCE)))
            random = np.random.default_rng(0)
            for spread in _NEARLY if menus.values.size > _LARGE else ():
                weights = near.weights * (1.0 + spread * random.uniform(-1.0, 1.0, near.weights.size))
                self.priced(weights, near.prices, np.full(self._numbers.size, -1.0))
        for each in (*menus.needs.T, menus.needs.sum(axis=1)):
            self.priced(
                each.astype(np.float64), np.zeros(menus.rooms.size), np.full(self._numbers.size, -1.0)
            )

    def solved(self, seconds: float | None) -> tuple[float, list[NDArray[np.float64]]] | None:
        """Return the optimum: its value; prices of kinds, limits, sorts; what is taken of every column."""
        said = self._programme.solved(seconds)
        if said is None:
            return None
        _, kinds, sorts, limits = np.split(
            np.maximum(said.duals, 0.0), [self._kinds, self._first_sort, self._limits]
        )
        number = np.array([self._numbers[self._sorts[at] + sort] for at, sort, _ in self.patterns])
        taken, beyond, times = np.split(said.point, [self._options, self._options + limits.size])
        return said.objective, [kinds, limits, sorts / self._numbers, taken, times * number, beyond]

    def priced(
        self, weights: NDArray[np.float64], prices: NDArray[np.float64], of_sorts: NDArray[np.float64]
    ) -> tuple[float, int]:
        """Add the patterns that weigh more than sorts' prices; return the bound, and how many they are."""
        menus, found = self._menus, list[tuple[int, int, tuple[int, ...]]]()
        bound = float(prices @ menus.rooms)
        others = max(0, _AT_ONCE // max(1, self._numbers.size) - 1)
        slack = _CLOSE * (1.0 + of_sorts)
        for at, each in enumerate(menus.contents):
            own = slice(self._sorts[at], self._sorts[at + 1])
            most, heavier = each.heavier(weights[menus.members[at][0]], (of_sorts + slack)[own], others)
            bound += float(most @ each.number)
            found += [(at, sort, kinds) for sort, kinds in heavier]
        gain = menus.values - self._pods @ weights - menus.rows @ prices
        bound += float(np.maximum.reduceat(gain, menus.offsets[:-1]).sum())
        new = [one for one in dict.fromkeys(found) if one not in self._known]
        self._add(new)
        return bound, len(new)

    def _add(self, new: list[tuple[int, int, tuple[int, ...]]]) -> None:
        self.patterns += new
        self._known.update(new)
        rows, data, ends = list[int](), list[float](), [0]
        for at, sort, kinds in new:
            own, each, of = self._sorts[at] + sort, Counter(kinds), self._menus.members[at][0]
            rows += [self._kinds + int(of[kind]) for kind in each] + [self._first_sort + int(own)]
            data += [-count * float(self._numbers[own]) for count in each.values()] + [1.0]
            ends.append(len(rows))
        if new:
            self._programme.add(np.zeros(len(new)), np.array(ends), np.array(rows), np.array(data))


def rounded(
    menus: PodMenus,
    found: Relaxation,
    seconds: float | None,
    keeps: Keeps | None = None,
    begin: Callable[[], Mapping[int, tuple[int, ...]]] = dict,
    *,
    gap: float = 0.0,
) -> Iterator[tuple[NDArray[np.int64], list[tuple[int, ...]]]]:
    """Yield plans near the relaxation, the options of choosers, -1 for none, and the nodes of their pods.

    Whole options get the nodes of whole patterns: first those whose pods are somewhere now or share a place,
    on nodes that have little left beside them, then all others. For the choosers and the room that are left
    the relaxation is solved again, and so on; where none is whole, the option of which most is taken goes
    beside the others by best fit. That is the first plan. For the second, the choosers on some nodes are
    placed anew in this way, as long as that pays: their relaxation says before whether it can; a plan within
    the relative `gap` of the relaxation is good enough. Where pods are somewhere now, it begins
    with everybody there if that is worth more, and ends with a plan in which they do not stay first of all. A
    plan that does not keep what `keeps` says of options and nodes is taken where none does; where the first
    one does not, it goes on from what `begin` returns, by option the nodes of its pods.
    """
    left, runs, begun = math.inf if seconds is None else seconds, bool(menus.now), time.perf_counter()
    enough = found.worth / (1.0 + gap) - _CLOSE * found.worth
    end, most = begun + (_OTHERS if runs else 1.0) * left, (True, 0, enough)
    best = _Plan(menus, keeps)
    _complete(best, found, end)
    if runs and best.rank < most:
        present, other = _Plan(menus, keeps).staying(), _Plan(replace(menus, now={}), keeps)
        _complete(present, present.relaxed(end), end)
        _complete(other, found, end)
        best = max(present, best, key=_rank)
        yield max(best, other, key=_rank).staying_most(menus.now, begun + left)
        if other.rank < most:
            best = _improved(best, enough, begun + _STAYING * left)
            other = other if best.rank >= most else _improved(other, enough, end)
        best = max(best, other, key=_rank)
    else:
        yield best.staying_most(menus.now, begun + left)
        if best.rank[1] < 0:
            best = _improved(_above_floors(best, end), -math.inf, begun + _OTHERS * left)
            best = max(best, _Plan(replace(menus, now=begin()), keeps).staying(), key=_rank)
        best = _improved(best, enough, end)
    yield best.staying_most(menus.now, begun + left)


def _above_floors(plan: _Plan, end: float) -> _Plan:
    """Return the best of a plan and others that were to leave more and more of limits that waiting takes."""
    best, rank = plan, plan.rank
    margin = -rank[1]
    for _ in range(_AGAIN):
        trial = best.anew(margin)
        part = trial.relaxed(end)
        if part is None or not part.within:  # too much to leave
            margin = 3 * margin // 4
            continue
        _complete(trial, part, end)
        now = trial.rank
        if now > rank:
            best, rank = trial, now
        if now[0]:
            break
        margin = max(3 * margin // 2, margin - now[1])
    return best


def _rank(plan: _Plan) -> tuple[bool, int, float]:
    return plan.rank


def _improved(plan: _Plan, enough: float, end: float) -> _Plan:
    """Return a plan after its choosers, those on some nodes, were placed anew as long as that pays."""
    best, rank, in_vain, random = plan, plan.rank, 0, np.random.default_rng(0)
    tries, margin = min(_IN_VAIN, plan.options.size // 2), 0
    while in_vain < tries and rank < (True, 0, enough) and time.perf_counter() < end:
        trial = best.without(random, margin)
        part = trial.relaxed(end)
        in_vain += 1
        margin //= 2
        least = best.worth + _CLOSE * abs(best.worth) if rank[0] else -math.inf
        if part is None or not part.within or trial.worth + part.worth <= least:
            continue
        _complete(trial, part, end)
        now = trial.rank
        margin = max(margin, -now[1])  # the next one has to leave what this one goes beyond limits
        if now > rank:
            best, rank, in_vain = trial, now, 0
    return best


def _complete(plan: _Plan, found: Relaxation | None, end: float) -> None:
    """Place the choosers that are open, whose relaxation was found."""
    now = found
    while now is not None:
        plan.adds(now)
        now = plan.relaxed(end, now)


class _Plan:
    """Options whose pods lie on nodes, what they leave, and choosers that are open."""

    def __init__(self, menus: PodMenus, keeps: Keeps | None = None) -> None:
        self._menus, self._keeps, choosers = menus, keeps, menus.offsets.size - 1
        self.options = np.full(choosers, -1, dtype=np.int64)
        self.nodes: list[tuple[int, ...]] = [()] * choosers
        self._is_open = np.ones(choosers, dtype=np.bool_)
        self._is_allowed = np.ones(menus.values.size, dtype=np.bool_)
        self._left = menus.usable.T.copy()
        self._owner = menus.owner
        self._first = np.searchsorted(menus.option, np.arange(menus.values.size + 1))
        self._size = np.bincount(menus.option, menus.count, menus.values.size)
        without = np.flatnonzero(self._size == 0)
        self._waits = np.full(choosers, -1, dtype=np.int64)
        self._waits[self._owner[without]] = without
        self._is_floor = np.asarray(menus.rows[without].sum(axis=0)).ravel() > 0
        self._margin = np.zeros_like(menus.rooms)
        self._weights = 1.0 / np.maximum(1, menus.free.sum(axis=0))
        self._asked, self._options = menus, np.arange(menus.values.size)

    @property
    def worth(self) -> float:
        """What the options are worth."""
        return float(self._menus.values[self.options[self.options >= 0]].sum())

    @property
    def rank(self) -> tuple[bool, int, float]:
        """Whether it is kept; how much it lacks of further limits, as less than 0; what it is worth."""
        kept = self._keeps is None or self._keeps(self.options, self.nodes)
        return kept, int(np.minimum(self._rooms(np.ones_like(self._is_open)), 0).sum()), self.worth

    def _rooms(self, decided: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return what some choosers leave of further limits; who has nothing takes what waiting takes."""
        having = np.where(self.options < 0, self._waits, self.options)[decided]
        taken = self._menus.rows[having[having >= 0]].sum(axis=0)
        return self._menus.rooms - np.asarray(taken).ravel().astype(np.int64)

    def without(self, random: np.random.Generator, margin: int) -> _Plan:
        """Return the same, the choosers on some nodes being open: on nodes with much left, and on any.

        They are to leave a margin of limits that waiting takes.
        """
        other, nodes, half = copy(self), self._left.shape[1], int(random.integers(_FEWEST, _MOST)) // 2
        emptiest = np.argsort(-(self._weights @ self._left) * random.random(nodes), kind="stable")
        some = np.zeros(nodes, dtype=np.bool_)
        some[emptiest[:half]] = some[random.integers(0, nodes, half)] = True
        other.opens([at for at, own in enumerate(self.nodes) if own and some[list(own)].any()], margin)
        return other

    def anew(self, margin: int) -> _Plan:
        """Return the same with nothing placed, which is to leave a margin of limits that waiting takes."""
        other = copy(self)
        other.opens(np.flatnonzero(self.options >= 0).tolist(), margin)
        return other

    def staying(self) -> _Plan:
        """Return the same with everybody who is somewhere now there, in the option of most pods of these."""
        there = [option for option, nodes in self._menus.now.items() if min(nodes) >= 0]
        lying = defaultdict[int, Counter[int]](Counter)
        for option in sorted(there, key=lambda one: -self._size[one]):
            if self._is_open[self._owner[option]]:
                self._puts(option, lying)
        return self

    def opens(self, gone: Sequence[int], margin: int) -> None:
        """Take away what some choosers have, and let everybody who has nothing have any option."""
        self._margin = margin * self._is_floor
        self._left, self.options, self.nodes = self._left.copy(), self.options.copy(), list(self.nodes)
        for chooser in gone:
            needs = self._menus.needs[self._kinds(int(self.options[chooser]))]
            np.add.at(self._left.T, list(self.nodes[chooser]), needs)
            self.nodes[chooser] = ()
        self.options[gone] = -1
        self._is_open, self._is_allowed = self.options < 0, np.ones_like(self._is_allowed)

    def relaxed(self, end: float, near: Relaxation | None = None) -> Relaxation | None:
        """Return the relaxation of the choosers that are open on what is left; ``None`` for none."""
        menus = self._menus
        self._is_open &= np.bincount(self._owner[self._is_allowed], minlength=self._is_open.size) > 0
        some = self._is_open[self._owner] & self._is_allowed
        left = end - time.perf_counter()
        if not some.any() or left <= 0.0:
            return None
        options, entries = np.flatnonzero(some), some[menus.option]
        sizes = np.bincount(self._owner[options], minlength=self._is_open.size)[self._is_open]
        self._options = options
        self._asked = replace(
            menus,
            values=menus.values[options],
            offsets=np.concatenate(([0], np.cumsum(sizes))),
            option=(np.cumsum(some) - 1)[menus.option[entries]],
            kind=menus.kind[entries],
            count=menus.count[entries],
            free=self._left.T,
            narrowed=None,
            rows=menus.rows[options],
            rooms=self._rooms(~self._is_open) - self._margin,
            share=menus.share[options],
        )
        return relaxed(self._asked, None if math.isinf(left) else left, near)

    def adds(self, found: Relaxation) -> None:
        """Place what is whole of the relaxation that was asked last, or else one option.

        Where pods of one option are divided that are several, it is decided alone, and all others again.
        """
        taken = np.flatnonzero(found.taken > _WHOLE)
        taken = taken[np.lexsort((-self._size[self._options[taken]], -found.taken[taken].round(6)))]
        order, much = self._options[taken], found.taken[taken]
        whole, divided = order[much >= 1.0 - _WHOLE], (much < 1.0 - _WHOLE) & (self._size[order] > 1)
        lying, before = defaultdict[int, Counter[int]](Counter), int(self._is_open.sum())
        if divided.any():
            at = np.flatnonzero(divided)[np.argmax(self._size[order[divided]])]
            if much[at] < 0.5 or not self._puts(int(order[at]), lying):
                self._is_allowed[order[at]] = False
            return
        first = (self._menus.share[whole] >= 0) | np.isin(whole, [*self._menus.now])
        for option in whole[first].tolist():
            self._puts(option, lying)
        slots = self._slots(found.patterns, lying)
        for option in whole[~first].tolist():
            self._takes(option, slots)
        if int(self._is_open.sum()) == before and not (order.size and self._puts(int(order[0]), lying)):
            self._is_open[self._owner[order[:1]] if order.size else slice(None)] = False

    def _kinds(self, option: int) -> list[int]:
        """Return the kinds of an option's pods."""
        own = slice(self._first[option], self._first[option + 1])
        kinds: list[int] = np.repeat(self._menus.kind[own], self._menus.count[own]).tolist()
        return kinds

    def _set(self, option: int, nodes: Sequence[int]) -> None:
        """Give a chooser an option; one without pods counts as none, which may be filled up in the end."""
        chooser = self._owner[option]
        self._is_open[chooser] = False
        if nodes:
            self.options[chooser], self.nodes[chooser] = option, tuple(nodes)

    def _puts(self, option: int, lying: defaultdict[int, Counter[int]]) -> bool:
        """Put an option's pods on the nodes that have least left beside them; say whether that went."""
        menus, kinds, left = self._menus, self._kinds(option), self._left.copy()
        place = menus.places[menus.share[option]] if menus.share[option] >= 0 else None
        nodes, now = (
            list[int](),
            [menus.position[node] if node >= 0 else -1 for node in menus.now.get(option, ())],
        )
        for at, own in groupby(kinds, lambda kind: int(menus.kind_bundle[kind])):
            members, needs = menus.members[at][1], menus.needs[list(own)].tolist()
            there = left[:, members]
            here = now[len(nodes) : len(nodes) + len(needs)]
            barred: list[int] | None = [] if menus.anti_affinity else None
            found = beside_others(there, needs, self._weights, place, here, barred)
            if found is None:
                return False
            left[:, members] = there
            nodes += members[found].tolist()
        for kind, node in zip(kinds, nodes, strict=True):
            lying[node][kind] += 1
        self._left = left
        self._set(option, nodes)
        return True

    def staying_most(
        self, now: Mapping[int, tuple[int, ...]], until: float
    ) -> tuple[NDArray[np.int64], list[tuple[int, ...]]]:
        """Return the options and the nodes of their pods, others of which more of them are there now."""
        menus, placed = self._menus, list(self.nodes)
        seconds = until - time.perf_counter() if math.isfinite(until) else None
        for at, (_, members) in enumerate(menus.members if now else ()):
            jobs, pods, places, was, here = [], [], [], [], []
            for chooser, option in enumerate(self.options.tolist()):
                kinds = self._kinds(option) if option >= 0 else []
                own = [pod for pod, kind in enumerate(kinds) if menus.kind_bundle[kind] == at]
                if own:
                    jobs.append((chooser, own))
                    pods.append(tuple(tuple(menus.needs[kinds[pod]].tolist()) for pod in own))
                    places.append(menus.places[menus.share[option]] if menus.share[option] >= 0 else None)
                    there = now.get(option, (-1,) * len(kinds))
                    was.append(tuple(menus.position[there[pod]] if there[pod] >= 0 else -1 for pod in own))
                    here.append(tuple(menus.position[self.nodes[chooser][pod]] for pod in own))
            rooms = tuple(map(tuple, menus.usable[members].tolist()))
            packing = PodPacking(rooms, (), tuple(pods), None, tuple(places), tuple(was), menus.anti_affinity)
            for (chooser, own), nodes in zip(jobs, most_staying(packing, here, seconds), strict=True):
                found = list(placed[chooser])
                for pod, node in zip(own, nodes, strict=True):
                    found[pod] = int(members[node])
                placed[chooser] = tuple(found)
        return self.options, placed

    def _slots(
        self, patterns: list[tuple[int, int, tuple[int, ...], float]], lying: Mapping[int, Counter[int]]
    ) -> list[list[int]]:
        """Return by kind the nodes that whole patterns have for it, beside what now lies there."""
        by_sort: defaultdict[tuple[int, int], list[tuple[Counter[int], list[int]]]] = defaultdict(list)
        for at, sort, own, times in patterns:
            if times >= 1.0 - _WHOLE:
                kinds = self._menus.members[at][0][list(own)]
                by_sort[at, sort].append((Counter(kinds.tolist()), [int(times + _WHOLE)]))
        found: list[list[int]] = [[] for _ in self._menus.needs]
        for at, contents in enumerate(self._asked.contents):
            sorts = zip(self._menus.members[at][1].tolist(), contents.sort.tolist(), strict=True)
            for node, sort in sorted(sorts, key=lambda one: one[0] not in lying):
                here = lying.get(node, Counter())
                for pattern, left in by_sort.get((at, sort), ()):
                    if left[0] and here <= pattern:
                        left[0] -= 1
                        for kind, count in (pattern - here).items():
                            found[kind] += [node] * count
                        break
        return found

    def _takes(self, option: int, slots: list[list[int]]) -> None:
        """Give an option's pods nodes that patterns have for them, if there are enough and they fit there."""
        kinds = self._kinds(option)
        nodes = _distinct(kinds, slots) if self._menus.anti_affinity else _last(kinds, slots)
        if nodes is not None:
            left = self._left.copy()
            np.subtract.at(left.T, nodes, self._menus.needs[kinds])
            if (left[:, nodes] >= 0).all():
                self._left = left
                self._set(option, nodes)


def _last(kinds: Sequence[int], slots: Sequence[list[int]]) -> list[int] | None:
    """Take a slot for every pod, the last of its kind; ``None`` where there are too few."""
    if any(len(slots[kind]) < count for kind, count in Counter(kinds).items()):
        return None
    return [slots[kind].pop() for kind in kinds]


def _distinct(kinds: Sequence[int], slots: Sequence[list[int]]) -> list[int] | None:
    """Take a slot for every pod on a node of its own, where most are left; ``None`` where too few are."""
    found = list[int]()
    for kind in kinds:
        free = Counter(node for node in slots[kind] if node not in found)
        if not free:
            return None
        found.append(max(free, key=lambda node: (free[node], -node)))
    for kind, node in zip(kinds, found, strict=True):
        slots[kind].remove(node)
    return found
