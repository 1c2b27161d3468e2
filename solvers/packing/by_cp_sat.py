"""Packing of many jobs on CP-SAT: who stays, and how many pieces of each size go to each node.

Jobs that move are interchangeable within a size, so there is a count per node and size, not a variable per
node and job.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from apportion.core.outcome import Termination
from apportion.models.packing import NodePacking
from apportion.solvers.general.cp_sat_call import Limits, call, new_model
from apportion.solvers.packing.search import Nodes, Search, nodes_that_matter

__all__ = ["fewest_moves"]

_WORK = 4.0
"""CP-SAT's deterministic time: a few seconds."""


def fewest_moves(packing: NodePacking, stayers: list[int], seconds: float | None) -> Search:
    """Return a packing with few moves and, of equally few, on few nodes; see `Search`."""
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
