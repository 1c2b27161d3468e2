"""Put jobs onto nodes: nobody moves without need, and of what is left the nodes in use are few.

All who can stay do if the others find room beside them. If not, few jobs are searched exactly and many by
CP-SAT; where nothing at all fits, weights or a completed search prove it.

Weights by which jobs are too many for their nodes: dual feasible functions, then the pattern LP.

Give a piece of g GPUs the weight w(g) >= 0; with W(n) the heaviest set of pieces that fits into n GPUs, what
weighs more than the sum of W over all nodes cannot be packed. W is computed exactly for whatever weights, so
every answer is a proof. The families are those of Martello and Toth, of Fekete and Schepers (*Mathematical
Programming* 91, 2001) and of Carlier, Clautiaux and Moukrim (*C&OR* 34, 2007); the LP is the dual of Gilmore
and Gomory's, whose optimum is the best bound of this form.

Few jobs are packed exactly: sets of jobs that move in rising size, and depth-first search for the rest. Best
fit places jobs around those who stay, largest first, where least room is left over. Where every size divides
the next larger one, as powers of two do, this is exact whatever the rooms are: wherever pieces of one size go
they leave equally many slots to the next smaller one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, islice, pairwise
from typing import Any

import numpy as np

from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models.linear import Block, LinearModel
from apportion.models.packing import NodePacking, heaviest
from apportion.solvers.general.cp_sat_call import Limits, call, new_model
from apportion.solvers.general.guard import usable

__all__ = [
    "Nodes",
    "Placement",
    "Search",
    "best_fit",
    "fewest_moves",
    "fewest_moves_by_cp_sat",
    "is_chain",
    "pack",
    "violated_weights",
]


Nodes = list[tuple[int, ...]]


def is_chain(packing: NodePacking) -> bool:
    """Return whether every size divides the next larger one."""
    sizes = sorted(packing.sizes())
    return all(large % small == 0 for small, large in pairwise(sizes))


def rooms_beside(packing: NodePacking, staying: Iterable[int]) -> dict[int, int] | None:
    """Return what is left of the nodes that jobs stay on; ``None`` if they exceed one."""
    room: dict[int, int] = {}
    for job in staying:
        for node in packing.current[job] or ():
            left = room.get(node, packing.room(node)) - packing.share(job)
            if left < 0:
                return None
            room[node] = left
    return room


def nodes_that_matter(packing: NodePacking) -> list[int]:
    """Return the nodes that jobs hold, the smaller one, and as many others as could be needed."""
    held = {node for nodes in packing.current for node in nodes or () if packing.room(node)}
    if packing.rest:
        held.add(packing.whole)
    others = (node for node in range(packing.whole) if node not in held)
    return sorted(held.union(islice(others, packing.sizes().total())))


def best_fit(packing: NodePacking, staying: Iterable[int]) -> Nodes | None:
    """Return the nodes of every job, those in `staying` unmoved; ``None`` if some found no room.

    Nodes in use are filled before an empty one is begun, so whole nodes stay free.
    """
    kept = list(staying)
    room = rooms_beside(packing, kept)
    if room is None:
        return None
    placed: dict[int, tuple[int, ...]] = {job: packing.current[job] or () for job in kept}
    waiting = sorted(set(range(len(packing.gpus))) - placed.keys(), key=lambda job: (-packing.gpus[job], job))
    fresh = (node for node in range(packing.whole) if node not in room)
    if packing.rest:
        room.setdefault(packing.whole, packing.rest)
    by_room: dict[int, list[int]] = {}
    for node, left in sorted(room.items()):
        by_room.setdefault(left, []).append(node)  # ascending, hence a heap
    for job in waiting:
        need, share = packing.needed(job), packing.share(job)
        nodes = []
        for _ in range(need):
            fits = min((left for left, heap in by_room.items() if heap and left >= share), default=None)
            found = next(fresh, None) if fits is None else heappop(by_room[fits])
            if found is None:
                return None
            nodes.append(found)
            heappush(by_room.setdefault((packing.size if fits is None else fits) - share, []), found)
        placed[job] = tuple(nodes)
    return [placed[job] for job in range(len(packing.gpus))]


_MOST_STEPS = 20_000


@dataclass(slots=True)
class Search:
    """What a search found.

    Attributes
    ----------
    nodes
        Per job, ``None`` if nothing was found.
    complete
        Whether it went through everything: nothing better exists, or nothing at all.
    """

    nodes: Nodes | None
    complete: bool


def fewest_moves(packing: NodePacking, stayers: list[int]) -> Search:
    """Return a packing in which as few of the stayers move as possible, on few nodes."""
    steps, complete = [_MOST_STEPS], True
    for size in range(len(stayers) + 1):
        best: Search | None = None
        for moving in combinations(stayers, size):
            if steps[0] <= 0:
                return Search(None if best is None else best.nodes, False)
            steps[0] -= 1 + len(packing.gpus)
            leaving = set(moving)
            found = _completed(packing, [job for job in stayers if job not in leaving], steps)
            complete &= found.complete or found.nodes is not None
            if found.nodes is not None and (best is None or _used(found.nodes) < _used(best.nodes or [])):
                best = found
        if best is not None:
            return Search(best.nodes, complete)
    return Search(None, complete)


def _used(nodes: Iterable[tuple[int, ...]]) -> int:
    return len({node for held in nodes for node in held})


def _completed(packing: NodePacking, staying: list[int], steps: list[int]) -> Search:
    """Pack all others on as few nodes as the steps allow, by branch and bound from the best fit."""
    room = rooms_beside(packing, staying)
    if room is None:
        return Search(None, True)
    first = best_fit(packing, staying)
    others = sorted(set(range(len(packing.gpus))) - set(staying), key=lambda job: -packing.gpus[job])
    pieces = [(packing.share(job), job) for job in others for _ in range(packing.needed(job))]
    nodes_at = nodes_that_matter(packing)
    left = [room.get(node, packing.room(node)) for node in nodes_at]
    used = [node in room for node in nodes_at]
    best = None if first is None else (_used(first), first)
    at: list[int] = []

    def search(opened: int) -> bool:
        """Go on with the next piece; ``False`` when the steps are used up."""
        nonlocal best
        if best is not None and opened >= best[0]:
            return True
        if len(at) == len(pieces):
            nodes: dict[int, tuple[int, ...]] = {job: packing.current[job] or () for job in staying}
            for (_, job), node in zip(pieces, at, strict=True):
                nodes[job] = (*nodes.get(job, ()), nodes_at[node])
            best = opened, [nodes[job] for job in range(len(packing.gpus))]
            return True
        steps[0] -= 1
        if steps[0] <= 0:
            return False
        share, job = pieces[len(at)]
        tried: set[tuple[int, bool]] = set()
        for node in sorted(range(len(left)), key=lambda node: (left[node], node)):
            alike = (left[node], used[node])
            if left[node] < share or alike in tried:
                continue
            tried.add(alike)  # nodes with equal room are alike
            fresh = not used[node]
            left[node] -= share
            used[node] = True
            at.append(node)
            enough = search(opened + fresh)
            at.pop()
            left[node] += share
            used[node] = not fresh
            if not enough:
                return False
        return True

    complete = search(sum(used))
    return Search(None if best is None else best[1], complete)


_LARGEST_LP = 20
"""Node size up to which patterns are enumerated: a partition of 20 is one of 627."""
_LARGEST_DENOMINATOR = 60
_WORK = 4.0
"""CP-SAT's deterministic time: a few seconds."""
_LARGEST_SIZE = 64
"""Node size beyond which there are no weights; a node of more GPUs has not been built."""


def violated_weights(packing: NodePacking) -> tuple[int, ...] | None:
    """Return weights w(1), .., w(size) that the jobs exceed the most, ``None`` if none were found."""
    if packing.size > _LARGEST_SIZE:
        return None
    pieces = packing.sizes()
    best: tuple[float, tuple[int, ...]] | None = None
    for weights in _families(packing.size):
        excess = _excess(packing, pieces, weights)
        if excess > 1.0 and (best is None or excess > best[0]):
            best = excess, weights
    found = None if best is None else best[1]
    if found is None and packing.size <= _LARGEST_LP:
        found = _by_lp(packing, pieces)
    return None if found is None else _lifted(found, packing)


def _excess(packing: NodePacking, pieces: Counter[int], weights: Sequence[int]) -> float:
    """Return what the pieces weigh over what the nodes can carry."""
    most = heaviest(weights)
    carried = packing.whole * most[-1] + most[packing.rest]
    weight = sum(
        count * (weights[size - 1] if size < packing.size else most[-1]) for size, count in pieces.items()
    )
    return weight / carried if carried else float(weight > 0) * 2.0


def _families(size: int) -> Iterator[tuple[int, ...]]:
    every = range(1, size + 1)
    for k in range(1, size):
        yield tuple(k * g if (k + 1) * g % size == 0 else size * ((k + 1) * g // size) for g in every)
    for least in range(1, size // 2 + 1):
        yield tuple(size if g > size - least else g if g >= least else 0 for g in every)
        yield tuple(
            2 * (size // least - (size - g) // least)
            if 2 * g > size
            else size // least
            if 2 * g == size
            else 2 * (g // least)
            for g in every
        )


def _by_lp(packing: NodePacking, pieces: Counter[int]) -> tuple[int, ...] | None:
    """Return the pattern LP's weights as whole numbers, if they still show that nothing fits."""
    from apportion.solvers.general.guard import usable
    from apportion.solvers.general.highs import solve

    if not usable("highspy"):
        return None
    size = packing.size
    patterns = [(pattern, 1.0, 0.0) for pattern in _patterns(size)]
    patterns += [(pattern, 0.0, -1.0) for pattern in _patterns(packing.rest)] if packing.rest else []
    rows = np.array(
        [(*(pattern.count(g) for g in range(1, size + 1)), last) for pattern, _, last in patterns]
    )
    cost = np.array([*(float(pieces[g]) for g in range(1, size + 1)), -1.0])
    at = np.nonzero(rows)
    model = LinearModel(
        sense="maximize",
        cost=cost,
        offset=0.0,
        lower=np.zeros(size + 1),
        upper=np.ones(size + 1),
        integer=np.zeros(size + 1, dtype=np.bool_),
        row_lower=np.full(len(patterns), -np.inf),
        row_upper=np.array([upper for _, upper, _ in patterns]),
        indptr=np.concatenate(([0], np.cumsum((rows != 0).sum(axis=1)))).astype(np.int32),
        indices=at[1].astype(np.int32),
        data=rows[at].astype(np.float64),
        variables=(Block("weight", 0, (size + 1,)),),
        rows=(Block("pattern", 0, (len(patterns),)),),
    )
    point = solve(model, SolveOptions(time_limit=10.0)).point
    if point is None:
        return None
    for denominator in range(1, _LARGEST_DENOMINATOR + 1):
        weights = tuple(np.rint(denominator * np.asarray(point[:size])).astype(np.int64).tolist())
        if _excess(packing, pieces, weights) > 1.0:
            return weights
    return None


def _patterns(size: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of sizes that fills a node: the partitions of `size`."""

    def parts(left: int, largest: int) -> Iterator[tuple[int, ...]]:
        if not left:
            yield ()
        for part in range(min(left, largest), 0, -1):
            yield from ((part, *others) for others in parts(left - part, part))

    yield from parts(size, size)


def _lifted(weights: tuple[int, ...], packing: NodePacking) -> tuple[int, ...]:
    """Raise weights while the heaviest sets weigh the same: the bound then holds for more sets of jobs."""
    raised, most = list(weights), heaviest(weights)
    for g in range(packing.size, 0, -1):
        for higher in range(most[-1] - most[packing.size - g], raised[g - 1], -1):
            trial = [*raised[: g - 1], higher, *raised[g:]]
            after = heaviest(trial)
            if after[-1] == most[-1] and after[packing.rest] == most[packing.rest]:
                raised = trial
                break
    return tuple(raised)


_FEW = 24
"""Jobs up to which the exact search is tried before CP-SAT."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where jobs lie, or why they cannot.

    Attributes
    ----------
    nodes
        Per job, in its order; ``None`` if nothing was found.
    proven
        With nodes: no packing moves fewer jobs. Without: there is none.
    weights
        Weights w(1), .., w(size) that prove that there is none; see `violated_weights`.
    core
        Jobs, as a `MachinePacking` calls them, that are shown not to fit together, or, where nothing is
        proven, that found no room; all of them where absent.
    """

    nodes: Nodes | None
    proven: bool
    weights: tuple[int, ...] | None = None
    core: tuple[int, ...] | None = None


def pack(packing: NodePacking, seconds: float | None = None) -> Placement:
    """Place the jobs of one GPU type.

    Parameters
    ----------
    packing
        What has to be packed.
    seconds
        Wall-clock limit of CP-SAT, beside a limit on its deterministic work.
    """
    stayers = [job for job in range(len(packing.gpus)) if packing.may_stay(job)]
    nodes = best_fit(packing, stayers)
    chain, few = is_chain(packing), len(packing.gpus) <= _FEW
    if nodes is not None:
        if few and not chain:
            better = fewest_moves(packing, stayers).nodes
            nodes = nodes if better is None else better
        return Placement(nodes, proven=True)
    anywhere = best_fit(packing, ())
    if anywhere is None:
        weights = violated_weights(packing)
        if weights is not None:
            return Placement(None, proven=True, weights=weights)
        if chain:
            return Placement(None, proven=True)
    if few:
        found = fewest_moves(packing, stayers)
        if found.complete:
            return Placement(found.nodes, proven=True)
    found = fewest_moves_by_cp_sat(packing, stayers, seconds)
    if found.nodes is None and not found.complete:
        return Placement(None if anywhere is None else _falling(packing, stayers), proven=False)
    return Placement(found.nodes, proven=found.complete)


def _falling(packing: NodePacking, stayers: list[int]) -> Nodes | None:
    """Let growing shares of the stayers move, the smallest first."""
    stayers = sorted(stayers, key=lambda job: (packing.gpus[job], job))
    for part in (8, 4, 2, 1):
        found = best_fit(packing, stayers[-(-len(stayers) // part) :])
        if found is not None:
            return found
    return None


def fewest_moves_by_cp_sat(packing: NodePacking, stayers: list[int], seconds: float | None) -> Search:
    """Return a packing with few moves and, of equally few, on few nodes; see `Search`.

    Jobs that move are interchangeable within a size, so there is a count per node and size, not a variable
    per node and job.
    """
    if not usable("ortools"):
        return Search(None, False)
    model = new_model()
    sizes = packing.sizes()
    keep = {job: model.new_bool_var("") for job in stayers}
    taken: dict[int, list[Any]] = defaultdict(list)
    for job, stays in keep.items():
        for node in packing.current[job] or ():
            taken[node].append(packing.share(job) * stays)
    counts: dict[tuple[int, int], Any] = {}
    opened = []
    for node in nodes_that_matter(packing):
        room = packing.room(node)
        for size in sizes:
            if size <= room:
                counts[node, size] = model.new_int_var(0, room // size, "")
        load = sum(size * counts[node, size] for size in sizes if size <= room) + sum(taken[node])
        in_use = model.new_bool_var("")
        opened.append(in_use)
        model.add(load <= room * in_use)
    for size, pieces in sizes.items():
        kept = sum(packing.needed(job) * stays for job, stays in keep.items() if packing.share(job) == size)
        free = sum(count for (_, of), count in counts.items() if of == size)
        model.add(free + kept == pieces)
    model.minimize(sum(opened) - (len(opened) + 1) * sum(keep.values()))
    said = call(model, Limits(seconds=seconds, work=_WORK))
    if said.value is None:
        return Search(None, said.termination is Termination.INFEASIBLE)
    staying = {job for job, stays in keep.items() if said.value(stays)}
    slots = {key: said.value(count) for key, count in counts.items()}
    return Search(_nodes_of(packing, staying, slots), said.termination is Termination.OPTIMAL)


def _nodes_of(packing: NodePacking, staying: set[int], slots: dict[tuple[int, int], int]) -> Nodes:
    free: dict[int, list[int]] = defaultdict(list)
    for (node, size), count in sorted(slots.items(), reverse=True):
        free[size].extend([node] * count)
    nodes: Nodes = []
    for job in range(len(packing.gpus)):
        if job in staying:
            nodes.append(packing.current[job] or ())
        else:
            pool = free[packing.share(job)]
            nodes.append(tuple(pool.pop() for _ in range(packing.needed(job))))
    assert not Counter(node for pool in free.values() for node in pool)
    return nodes
