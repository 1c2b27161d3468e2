"""Linear assignment and transportation: exact matching or a flow, and prices by shortest paths.

Where every use of a machine is alike, a machine has slots and the problem is totally unimodular: the prices
of the machines prove the optimum. They are the shortest distances, over chains of jobs that each move one
machine on, to a machine with a free slot (Ahuja, Magnanti, Orlin 1993, chapter 9).

Transportation as a minimum cost flow, jobs of equal costs being one node: OR-Tools' cost scaling.

Integers only (Goldberg's algorithm scales them): costs that no power of two up to 2**20 makes whole take the
other road. Ahuja, Magnanti, Orlin (1993), chapter 10.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.solvers.general.guard import check_engines, usable

__all__ = [
    "classes_of",
    "flow_slots",
    "is_transportation",
    "matching",
    "potentials",
    "solve_slots",
    "whole_costs",
]


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


_LARGEST_MATRIX = 9_000_000
_DENSE = 0.2
_WORTH_A_FLOW = 400_000
"""Jobs times slots from which loading OR-Tools' flow (a tenth of a second) may pay."""
_ALIKE = 4
"""Jobs per class of alike ones from which a flow is the shorter way."""


def is_transportation(model: Assignment) -> bool:
    """Return whether every machine's uses are alike and slots make a matrix or flow that can be held."""
    if model.num_jobs * max(model.num_machines, 1) > _LARGEST_MATRIX:
        return False
    if int(_slots(model).sum()) * model.num_jobs > _LARGEST_MATRIX and not _flows(model):
        return False
    if _one_use(model) is not None:
        return True
    alike = model.uses == _largest_use(model)[model.machine]
    return bool((alike | ~model.limited[model.machine]).all())


def _flows(model: Assignment) -> bool:
    """Return whether a flow can be written in integers exactly."""
    return usable("ortools") and whole_costs(model.values, model.num_jobs) is not None


def _one_use(model: Assignment) -> int | None:
    """Return the use of every entry if all are alike."""
    first = int(model.uses[0]) if model.num_options else 0
    return first if bool((model.uses == first).all()) else None


def _largest_use(model: Assignment) -> NDArray[np.int64]:
    if (one := _one_use(model)) is not None:
        return np.full(model.num_machines, one, dtype=np.int64)
    largest = np.zeros(model.num_machines, dtype=np.int64)
    np.maximum.at(largest, model.machine, model.uses)
    return largest


def _slots(model: Assignment) -> NDArray[np.int64]:
    """Return int64 [machines]: how many jobs fit, at most all that can run there."""
    able = np.bincount(model.machine, minlength=model.num_machines)
    use = _largest_use(model)
    fits = np.where(model.limited & (use > 0), model.capacities // np.maximum(use, 1), able)
    return np.asarray(np.minimum(fits, able), dtype=np.int64)


def solve_slots(model: Assignment) -> NDArray[np.int64] | None:
    """Return an optimal choice, or ``None`` if no choice places all required jobs."""
    slots = _slots(model)
    column_machine = np.repeat(np.arange(model.num_machines), slots)
    optional = np.flatnonzero(~model.required)
    if model.num_jobs > column_machine.size + optional.size:
        return None
    wide = model.num_jobs * column_machine.size
    if wide > _WORTH_A_FLOW and _flows(model):
        matrix = _matrix(model)
        classes = classes_of(model, matrix)
        if wide > _LARGEST_MATRIX or classes[0].size * _ALIKE <= model.num_jobs:
            written, choice = flow_slots(model, matrix, slots, classes)
            if written:
                return choice
    density = model.num_options / max(model.num_jobs * model.num_machines, 1)
    if density < _DENSE and (slots <= 1).all() and model.num_jobs * model.num_machines > 250_000:
        return _sparse(model, optional)
    return _dense(model, column_machine, optional)


def _complete(model: Assignment) -> bool:
    """Return whether every job names every machine, in order: the entries then are a matrix as they stand."""
    if model.num_options != model.num_jobs * model.num_machines:
        return False
    on = model.machine.reshape(model.num_jobs, model.num_machines)
    return bool((on == np.arange(model.num_machines)).all())


def _matrix(model: Assignment) -> NDArray[np.float64]:
    """Return the cost of every pair, infinite where there is no entry."""
    if _complete(model):
        return _cost(model).reshape(model.num_jobs, model.num_machines)
    matrix = np.full((model.num_jobs, model.num_machines), np.inf)
    matrix[model.job_of_option(), model.machine] = _cost(model)
    return matrix


def _cost(model: Assignment) -> NDArray[np.float64]:
    return -model.values if model.goal == "value" else model.values


def _dense(
    model: Assignment, column_machine: NDArray[np.int64], optional: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    matrix = _matrix(model)
    wide = (
        matrix if np.array_equal(column_machine, np.arange(model.num_machines)) else matrix[:, column_machine]
    )
    if optional.size:
        out = np.full((model.num_jobs, optional.size), np.inf)
        out[optional, np.arange(optional.size)] = 0.0
        wide = np.concatenate((wide, out), axis=1)
    try:
        job, column = matching(wide)
    except ValueError:
        return None
    return _chosen(model, job, np.append(column_machine, np.full(optional.size, -1))[column])


def _sparse(model: Assignment, optional: NDArray[np.int64]) -> NDArray[np.int64] | None:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    cost = _cost(model)
    job = np.concatenate((model.job_of_option(), optional))
    column = np.concatenate((model.machine, model.num_machines + np.arange(optional.size)))
    weight = np.concatenate((cost, np.zeros(optional.size)))
    # stored zeros would vanish: shift all weights, which moves every full matching alike
    weight = weight - weight.min() + 1.0
    graph = csr_array((weight, (job, column)), shape=(model.num_jobs, model.num_machines + optional.size))
    try:
        row, matched = min_weight_full_bipartite_matching(graph)
    except ValueError:
        return None
    on = np.where(matched < model.num_machines, matched, -1).astype(np.int64)
    return _chosen(model, row.astype(np.int64), on)


def _chosen(model: Assignment, job: NDArray[np.int64], machine: NDArray[np.int64]) -> NDArray[np.int64]:
    on = np.full(model.num_jobs, -1, dtype=np.int64)
    on[job] = machine
    if _complete(model):
        return np.where(on >= 0, model.offsets[:-1] + on, -1)
    owner = model.job_of_option()
    hit = np.flatnonzero(on[owner] == model.machine)
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    choice[owner[hit]] = hit
    return choice


def potentials(model: Assignment, choice: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return float64 [machines] prices >= 0 per unit of capacity that prove a choice optimal, if it is.

    Bellman-Ford over the machines: a price may not exceed what moving one of its jobs on costs plus the
    price there; machines with a free slot, and being left out, cost nothing.
    """
    machines, cost = model.num_machines, _cost(model)
    held = np.where(choice >= 0, model.machine[np.maximum(choice, 0)], machines)
    paid = np.where(choice >= 0, cost[np.maximum(choice, 0)], 0.0)
    step = np.full((machines + 1, machines + 1), np.inf)
    if model.num_options >= _DENSE * model.num_jobs * machines:
        order = np.argsort(held, kind="stable")
        holder, first = np.unique(held[order], return_index=True)
        if holder.size:
            moved = (_matrix(model) - paid[:, None])[order]
            step[holder, :machines] = np.minimum.reduceat(moved, first, axis=0)
    else:
        owner = model.job_of_option()
        np.minimum.at(step, (held[owner], model.machine), cost - paid[owner])
    optional = np.flatnonzero(~model.required)
    np.minimum.at(step[:, machines], held[optional], -paid[optional])
    taken = np.bincount(held, minlength=machines + 1)[:machines]
    able = np.bincount(model.machine, minlength=machines)
    slots = _slots(model)
    free = (taken < slots) | (slots >= able) | ~model.limited  # room for all that can run there costs nothing
    idle = np.append(free, True)
    finite = step[np.isfinite(step)]
    reach = float(finite.max() - finite.min()) if finite.size else 0.0
    price = np.where(idle, 0.0, max(reach, 1.0))
    for _ in range(machines + 2):
        shorter = np.minimum(price, (step + price).min(axis=1))
        if (shorter >= price).all():
            break
        price = shorter
    own = price[:machines]
    if not idle[:machines].any() and not optional.size and own.size:
        own = own - own.min()  # all machines full: prices are free up to a constant
    use = _largest_use(model)
    return np.asarray(np.maximum(own, 0.0) / np.maximum(use, 1) * model.limited, dtype=np.float64)


_Routine = Callable[[NDArray[np.float64]], tuple[NDArray[np.int64], NDArray[np.int64]]]


def matching(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns of a cheapest matching of a dense matrix; infinity forbids a pair.

    SciPy's shortest augmenting paths (Crouse, *IEEE TAES* 52, 2016), loaded alone: `scipy.optimize` takes a
    third of a second to import, the one routine 5 ms.

    Raises
    ------
    ValueError
        If no matching covers the shorter side.
    """
    return _routine()(cost)


@cache
def _routine() -> _Routine:
    if "scipy.optimize" not in sys.modules and (alone := _alone()) is not None:
        return alone
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment


def _alone() -> _Routine | None:
    """Load the extension by its file, where SciPy keeps it today; ``None`` where it is not."""
    package = find_spec("scipy")  # its own import would cost another 30 ms
    folders = (
        [] if package is None else [Path(at) / "optimize" for at in package.submodule_search_locations or ()]
    )
    found = [path for at in folders for end in EXTENSION_SUFFIXES if (path := at / f"_lsap{end}").exists()]
    if not found:
        return None
    spec = spec_from_file_location("_lsap", found[0])
    if spec is None or spec.loader is None:
        return None
    module: Any = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:
        return None
    routine: _Routine | None = getattr(module, "linear_sum_assignment", None)
    return routine
