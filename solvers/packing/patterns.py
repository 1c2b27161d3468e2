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

import time
from collections import Counter, defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.models.pods import PodMenus, beside_others
from apportion.solvers.general.guard import usable
from apportion.solvers.general.highs_columns import GrowingProgramme

__all__ = ["Relaxation", "relaxed", "rounded"]

_MOST_OPTIONS = 50_000
"""Options up to which all are columns from the start."""
_AT_ONCE = 300
"""Patterns that are added at a time, about, as long as there are not more sorts of nodes."""
_CLOSE = 1e-9
"""Relative difference between the bound and the optimum of some columns that counts as none."""
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
    """

    weights: NDArray[np.float64]
    prices: NDArray[np.float64]
    taken: NDArray[np.float64]
    patterns: list[tuple[int, int, tuple[int, ...], float]]


def relaxed(menus: PodMenus, seconds: float | None) -> Relaxation | None:
    """Solve the relaxation, as far as that goes in the time.

    Returns
    -------
    Relaxation or None
        With the prices of the best bound found; ``None`` where nothing was found in the time, where there are
        too many options or amounts to list them, or where a chooser has no option.
    """
    if menus.values.size > _MOST_OPTIONS or not usable("highspy"):
        return None
    if not (np.diff(menus.offsets) > 0).all() or not all(each.is_listed for each in menus.contents):
        return None
    end = None if seconds is None else time.perf_counter() + seconds
    master, found, best = _Master(menus), None, np.inf
    while True:
        left = None if end is None else end - time.perf_counter()
        if left is not None and left <= 0.0:
            return found
        now = master.solved(left)
        if now is None:
            return found
        objective, (weights, prices, of_sorts, taken, times) = now
        bound, added = master.priced(weights, prices, of_sorts)
        if bound < best:
            best, kept = bound, (weights, prices)
        patterns = [(*one, much) for one, much in zip(master.patterns, times.tolist(), strict=False) if much]
        found = Relaxation(*kept, taken, patterns)
        if not added or best - objective <= _CLOSE * abs(best):
            return found


class _Master:
    """The programme over the patterns so far.

    Rows: choosers, kinds, sorts of all bundles, limits. A column of a pattern counts all nodes of its sort.
    """

    def __init__(self, menus: PodMenus) -> None:
        from scipy.sparse import csr_array, hstack

        self._menus = menus
        self.patterns = list[tuple[int, int, tuple[int, ...]]]()
        self._known = set[tuple[int, int, tuple[int, ...]]]()
        self._numbers = np.concatenate([each.number for each in menus.contents]).astype(np.float64)
        self._sorts = np.cumsum([0, *(each.number.size for each in menus.contents)])
        choosers, kinds, options = menus.offsets.size - 1, len(menus.needs), menus.values.size
        self._kinds, self._first_sort = choosers, choosers + kinds
        self._limits = self._first_sort + self._numbers.size
        self._options, self._owner = options, np.repeat(np.arange(choosers), np.diff(menus.offsets))
        ones, none = np.ones(choosers), np.full(self._limits + menus.rooms.size, -np.inf)
        none[:choosers] = 1.0
        rooms = menus.rooms.astype(np.float64)
        upper = np.concatenate((ones, np.zeros(kinds), np.ones(self._numbers.size), rooms))
        self._programme = GrowingProgramme(none, upper, menus.values)
        self._pods = csr_array((menus.count, (menus.option, menus.kind)), shape=(options, kinds))
        one = csr_array((np.ones(options), (np.arange(options), self._owner)), shape=(options, choosers))
        no_sort = csr_array((options, self._numbers.size))
        columns = hstack([one, self._pods, no_sort, menus.rows], format="csr")
        self._programme.add(menus.values, columns.indptr, columns.indices, columns.data)
        for each in (*menus.needs.T, menus.needs.sum(axis=1)):
            self.priced(
                each.astype(np.float64), np.zeros(menus.rooms.size), np.full(self._numbers.size, -1.0)
            )

    def solved(self, seconds: float | None) -> tuple[float, list[NDArray[np.float64]]] | None:
        """Return the optimum: its value; prices of kinds, limits and sorts, what is taken of each column."""
        said = self._programme.solved(seconds)
        if said is None:
            return None
        _, kinds, sorts, limits = np.split(
            np.maximum(said.duals, 0.0), [self._kinds, self._first_sort, self._limits]
        )
        number = np.array([self._numbers[self._sorts[at] + sort] for at, sort, _ in self.patterns])
        taken, times = said.point[: self._options], said.point[self._options :] * number
        return said.objective, [kinds, limits, sorts / self._numbers, taken, times]

    def priced(
        self, weights: NDArray[np.float64], prices: NDArray[np.float64], of_sorts: NDArray[np.float64]
    ) -> tuple[float, int]:
        """Add the patterns that weigh more than sorts' prices; return the bound, and how many they are."""
        menus, found, bound = (
            self._menus,
            list[tuple[int, int, tuple[int, ...]]](),
            float(prices @ self._menus.rooms),
        )
        others = max(0, _AT_ONCE // max(1, self._numbers.size) - 1)
        slack = _CLOSE * (1.0 + of_sorts)
        for at, each in enumerate(menus.contents):
            own = slice(self._sorts[at], self._sorts[at + 1])
            most, heavier = each.heavier(weights[menus.kind_bundle == at], (of_sorts + slack)[own], others)
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
        position = [np.flatnonzero(self._menus.kind_bundle == at) for at in range(len(self._menus.contents))]
        for at, sort, kinds in new:
            own = self._sorts[at] + sort
            each = Counter(kinds)
            rows += [self._kinds + int(position[at][kind]) for kind in each] + [self._first_sort + int(own)]
            data += [-count * float(self._numbers[own]) for count in each.values()] + [1.0]
            ends.append(len(rows))
        if new:
            self._programme.add(np.zeros(len(new)), np.array(ends), np.array(rows), np.array(data))


def rounded(
    menus: PodMenus, found: Relaxation, seconds: float | None
) -> tuple[NDArray[np.int64], list[tuple[int, ...]]]:
    """Return a plan near the relaxation: the options of choosers, -1 for none, and the nodes of their pods.

    Whole options get the nodes of whole patterns: first those whose pods share a place, on nodes that have
    little left beside them, then all others. For the choosers and the room that are left the relaxation is
    solved again, and so on; where none is whole, the option of which most is taken goes beside the others by
    best fit.
    """
    end = None if seconds is None else time.perf_counter() + seconds
    plan, asked, options = _Rounded(menus), menus, np.arange(menus.values.size)
    now: Relaxation | None = found
    while now is not None:
        plan.adds(asked, now, options)
        asked, options = plan.rest()
        left = None if end is None else end - time.perf_counter()
        now = relaxed(asked, left) if options.size and (left is None or left > 0.0) else None
    return plan.options, plan.nodes


class _Rounded:
    """Pods that lie on nodes, and what they leave, bundle by bundle."""

    def __init__(self, menus: PodMenus) -> None:
        self._menus, choosers = menus, menus.offsets.size - 1
        self.options = np.full(choosers, -1, dtype=np.int64)
        self.nodes: list[tuple[int, ...]] = [()] * choosers
        self._is_open = np.ones(choosers, dtype=np.bool_)
        self._is_allowed = np.ones(menus.values.size, dtype=np.bool_)
        self._owner = np.repeat(np.arange(choosers), np.diff(menus.offsets))
        self._first = np.searchsorted(menus.option, np.arange(menus.values.size + 1))
        self._size = np.bincount(menus.option, menus.count, menus.values.size)
        self._members = [np.flatnonzero(menus.node_bundle == at) for at in range(len(menus.contents))]
        self._left = [menus.free[own].T.copy() for own in self._members]
        self._weights = 1.0 / np.maximum(1, menus.free.sum(axis=0))
        self._kinds = [np.flatnonzero(menus.kind_bundle == at) for at in range(len(menus.contents))]
        self._position = np.argsort(np.argsort(menus.kind_bundle, kind="stable"), kind="stable")
        self._position -= np.searchsorted(np.sort(menus.kind_bundle), menus.kind_bundle)

    def adds(self, asked: PodMenus, found: Relaxation, options: NDArray[np.int64]) -> None:
        """Place what is whole of a relaxation of the choosers that are open, or else one option."""
        taken = np.flatnonzero(found.taken > _WHOLE)
        order = taken[np.lexsort((-self._size[options[taken]], -found.taken[taken].round(6)))]
        whole = [int(options[at]) for at in order.tolist() if found.taken[at] >= 1.0 - _WHOLE]
        share, lying = self._menus.share, defaultdict[tuple[int, int], Counter[int]](Counter)
        before = int(self._is_open.sum())
        divided = options[order[found.taken[order] < 1.0 - _WHOLE]]
        divided = divided[self._size[divided] > 1]
        if divided.size:
            option = int(divided[np.argmax(self._size[divided])])
            if found.taken[np.searchsorted(options, option)] < 0.5 or not self._puts(option, lying):
                self._is_allowed[option] = False
            return
        for option in whole:
            if share[option] >= 0:
                self._puts(option, lying)
        slots = self._slots(asked, found.patterns, lying)
        for option in whole:
            if share[option] < 0:
                self._takes(option, slots)
        if int(self._is_open.sum()) == before:
            option = int(options[order[0]]) if order.size else -1
            if option < 0 or not self._puts(option, lying):
                self._is_open[self._owner[options[order[:1]]] if order.size else slice(None)] = False

    def rest(self) -> tuple[PodMenus, NDArray[np.int64]]:
        """Return the menus of the choosers that are open on what is left, and which options these are."""
        menus = self._menus
        self._is_open &= np.bincount(self._owner[self._is_allowed], minlength=self._is_open.size) > 0
        some = self._is_open[self._owner] & self._is_allowed
        options, position = np.flatnonzero(some), np.cumsum(some) - 1
        entries = some[menus.option]
        taken = self.options[self.options >= 0]
        free = menus.free.copy()
        for own, left in zip(self._members, self._left, strict=True):
            free[own] = left.T
        sizes = np.bincount(self._owner[options], minlength=self._is_open.size)[self._is_open]
        rest = replace(
            menus,
            values=menus.values[options],
            offsets=np.concatenate(([0], np.cumsum(sizes))),
            option=position[menus.option[entries]],
            kind=menus.kind[entries],
            count=menus.count[entries],
            free=free,
            rows=menus.rows[options],
            rooms=menus.rooms - np.asarray(menus.rows[taken].sum(axis=0)).ravel().astype(np.int64),
            share=menus.share[options],
        )
        return rest, options

    def _pods(self, option: int) -> dict[int, list[int]]:
        """Return the kinds of an option's pods by bundle."""
        menus, found = self._menus, dict[int, list[int]]()
        for at in range(int(self._first[option]), int(self._first[option + 1])):
            kind = int(menus.kind[at])
            found.setdefault(int(menus.kind_bundle[kind]), []).extend([kind] * int(menus.count[at]))
        return found

    def _set(self, option: int, nodes: dict[int, list[int]]) -> None:
        chooser = int(self._owner[option])
        self._is_open[chooser] = False
        if nodes:  # who has nothing may still get something in the end
            self.options[chooser] = option
            own = ((at, node) for at, each in nodes.items() for node in each)
            self.nodes[chooser] = tuple(int(self._members[at][node]) for at, node in own)

    def _puts(self, option: int, lying: defaultdict[tuple[int, int], Counter[int]]) -> bool:
        """Put an option's pods on the nodes that have least left beside them; say whether that went."""
        menus, pods, nodes = self._menus, self._pods(option), dict[int, list[int]]()
        place = menus.places[menus.share[option]] if menus.share[option] >= 0 else None
        for at, kinds in pods.items():
            needs = menus.needs[kinds].tolist()
            found = beside_others(self._left[at], needs, self._weights, place)
            if found is None:
                for one, own in nodes.items():
                    np.add.at(self._left[one].T, own, menus.needs[pods[one]])
                return False
            nodes[at] = found
        for at, kinds in pods.items():
            for kind, node in zip(kinds, nodes[at], strict=True):
                lying[at, node][int(self._position[kind])] += 1
        self._set(option, nodes)
        return True

    def _slots(
        self,
        asked: PodMenus,
        patterns: list[tuple[int, int, tuple[int, ...], float]],
        lying: defaultdict[tuple[int, int], Counter[int]],
    ) -> list[list[int]]:
        """Return by kind the nodes that whole patterns have for it, beside what now lies there."""
        found: list[list[int]] = [[] for _ in self._menus.needs]
        by_sort: defaultdict[tuple[int, int], list[tuple[Counter[int], list[int]]]] = defaultdict(list)
        for at, sort, own, times in patterns:
            if times >= 1.0 - _WHOLE:
                by_sort[at, sort].append((Counter(own), [int(times + _WHOLE)]))
        for at, contents in enumerate(asked.contents):
            nodes = sorted(range(self._members[at].size), key=lambda node: (at, node) not in lying)
            for node in nodes:
                here = lying.get((at, node), Counter())
                for pattern, left in by_sort.get((at, int(contents.sort[node])), ()):
                    if left[0] and here <= pattern:
                        left[0] -= 1
                        for kind, count in (pattern - here).items():
                            found[int(self._kinds[at][kind])] += [node] * count
                        break
        return found

    def _takes(self, option: int, slots: list[list[int]]) -> bool:
        """Give an option's pods nodes that patterns have for them, if there are enough."""
        pods, menus = self._pods(option), self._menus
        wanted = Counter(kind for kinds in pods.values() for kind in kinds)
        if any(len(slots[kind]) < count for kind, count in wanted.items()):
            return False
        nodes = {at: [slots[kind].pop() for kind in kinds] for at, kinds in pods.items()}
        for at, own in nodes.items():
            np.subtract.at(self._left[at].T, own, menus.needs[pods[at]])
        self._set(option, nodes)
        return True
