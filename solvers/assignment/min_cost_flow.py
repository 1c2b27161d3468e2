"""Transportation as a minimum cost flow, jobs of equal costs being one node: OR-Tools' cost scaling.

Integers only (Goldberg's algorithm scales them): costs that no power of two up to 2**20 makes whole take the
other road. Ahuja, Magnanti, Orlin (1993), chapter 10.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.solvers.general.guard import check_engines

__all__ = ["classes_of", "flow_slots", "whole_costs"]

_FINEST = 20
_LARGEST_COST = 2.0**52
"""Beyond this a float is no longer every integer; OR-Tools multiplies costs by the number of nodes."""


def classes_of(model: Assignment, cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return one job of every class of alike jobs, and the class of every job.

    Parameters
    ----------
    model
        The assignment.
    cost
        float64 [jobs, machines], infinite where there is no entry.
    """
    keyed = np.concatenate((cost, model.required[:, None].astype(np.float64)), axis=1)
    _, first, of = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), of.reshape(-1).astype(np.int64)


def whole_costs(cost: NDArray[np.float64], nodes: int) -> NDArray[np.int64] | None:
    """Return finite costs times a power of two, exactly; ``None`` where that cannot be or is too large."""
    for power in range(_FINEST + 1):
        scaled = cost * 2.0**power
        if np.abs(scaled).max(initial=0.0) * (nodes + 1) > _LARGEST_COST:
            return None
        if (scaled == np.rint(scaled)).all():
            return scaled.astype(np.int64)
    return None


def flow_slots(
    model: Assignment,
    cost: NDArray[np.float64],
    slots: NDArray[np.int64],
    classes: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[bool, NDArray[np.int64] | None]:
    """Return whether the flow could be written in integers, and an optimal choice if there is one.

    Parameters
    ----------
    model
        An assignment whose machines have slots.
    cost
        float64 [jobs, machines], minimised, infinite where there is no entry.
    slots
        int64 [machines]: how many jobs fit on each.
    classes
        What `classes_of` returned.
    """
    first, of = classes
    size = np.bincount(of, minlength=first.size).astype(np.int64)
    table = cost[first]
    kind, machine = np.nonzero(np.isfinite(table))
    optional = np.flatnonzero(~model.required[first])
    sink = first.size + model.num_machines
    whole = whole_costs(table[kind, machine], sink + 1)
    if whole is None:
        return False, None
    check_engines("ortools")
    from ortools.graph.python import min_cost_flow

    flow = min_cost_flow.SimpleMinCostFlow()
    on = np.arange(model.num_machines)
    arcs = (
        np.concatenate((kind, first.size + on, optional)).astype(np.int32),
        np.concatenate((first.size + machine, np.full(on.size + optional.size, sink))).astype(np.int32),
        np.concatenate((size[kind], slots, size[optional])),
        np.concatenate((whole, np.zeros(on.size + optional.size, dtype=np.int64))),
    )
    numbers = flow.add_arcs_with_capacity_and_unit_cost(*arcs)
    flow.set_nodes_supplies(
        np.append(np.arange(first.size), sink).astype(np.int32), np.append(size, -model.num_jobs)
    )
    status = flow.solve()
    if status in (flow.INFEASIBLE, flow.UNBALANCED):
        return True, None
    if status != flow.OPTIMAL:
        return False, None  # BAD_COST_RANGE and the like: the other road
    sent = flow.flows(numbers)[: kind.size]
    taken = np.repeat(machine, sent)
    of_kind = np.repeat(kind, sent)
    # jobs of a class take its machines in order; the optional rest of it is left out
    members = np.argsort(of, kind="stable")
    begin = np.concatenate(([0], np.cumsum(size)))[of_kind]
    placed = np.concatenate(([0], np.cumsum(np.bincount(of_kind, minlength=first.size))))[of_kind]
    job = members[begin + np.arange(taken.size) - placed]
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    choice[job] = model.rows()[job, taken]
    return True, choice
