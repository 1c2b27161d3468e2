"""Exact columns of whatever a proof may be about: an instance of any kind, or a bare model.

A bare assignment's capacity bounds the uses of all jobs of a machine, however many units it has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.instances import kind_of
from apportion.instances.columns import Columns, Goal, PoolUse, columns_of, listed
from apportion.instances.options import Pool
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.uses import dense

__all__ = ["columns"]


def columns(subject: Any, *, one_by_one: bool = False, largest: int | None = None) -> Columns:
    """Return the columns of an instance or a bare model; ``TypeError`` for anything else.

    Parameters
    ----------
    subject
        What a proof is about.
    one_by_one
        Whether every option is asked for, its uses sparse or not: not the quicker columns that its kind
        may have.
    largest
        Options times capacities up to which an array is made of sparse uses; 4 GiB by default.

    Raises
    ------
    InvalidInstance
        If the array would be larger.
    """
    if isinstance(subject, MultipleChoiceKnapsack):
        found = _of_menus(subject)
    elif isinstance(subject, Assignment):
        found = _of_assignment(subject)
    else:
        made = listed if one_by_one and not relaxes(subject) else columns_of
        found = made(kind_of(subject), subject)
    as_it_is = one_by_one or isinstance(found.uses, np.ndarray)
    return found if as_it_is else replace(found, uses=dense(found.uses, largest))


def relaxes(subject: Any) -> bool:
    """Return whether what jobs have is not yet a choice of columns, as of an instance of places."""
    if isinstance(subject, MultipleChoiceKnapsack | Assignment):
        return False
    option_set = kind_of(subject).option_set
    return option_set is not None and option_set.relaxes


def _of_menus(model: MultipleChoiceKnapsack) -> Columns:
    return Columns(
        model.sense,
        [f"{job}" for job in range(model.num_jobs)],
        model.offsets,
        model.values,
        model.matrix,
        list(model.capacity_names),
        model.capacities.tolist(),
        ~model.required,
        names=lambda: [str(row) for row in range(model.num_options)],
    )


def _of_assignment(model: Assignment) -> Columns:
    timed = model.goal == "makespan"
    goals: dict[str, Goal] = {"value": "maximize", "cost": "minimize", "makespan": "makespan"}
    limited = np.flatnonzero(model.limited)
    uses = np.zeros((model.num_options, limited.size), dtype=np.int64)
    column = np.full(model.num_machines, -1, dtype=np.int64)
    column[limited] = np.arange(limited.size)
    bounded = np.flatnonzero(column[model.machine] >= 0)
    uses[bounded, column[model.machine[bounded]]] = model.uses[bounded]
    names = [model.pool_names[pool] for pool in model.pool.tolist()]
    pools = [Pool(name, count, None) for name, count in zip(names, model.counts.tolist(), strict=True)]
    nothing = np.zeros(model.num_options)
    return Columns(
        "shares" if model.divisible else goals[model.goal],
        model.job_names or [f"{job}" for job in range(model.num_jobs)],
        model.offsets,
        nothing if timed else model.values,
        uses,
        [names[machine] for machine in limited.tolist()],
        model.capacities[limited].tolist(),
        ~model.required,
        PoolUse(
            pools,
            model.machine,
            model.gpus,
            np.zeros(model.num_options, dtype=np.int64),
            model.values if timed else nothing,
        ),
        sections=("capacities", "pools"),
        names=lambda: [str(row) for row in range(model.num_options)],
        alike=lambda by_time: _alike(model, by_time),
    )


def _alike(model: Assignment, timed: bool) -> tuple[tuple[int, ...], ...]:
    """Return groups of machines that no job tells apart, as capacities; one row a machine only."""
    if bool(model.limited.any()) == timed:
        return ()  # no rows, or two a machine that would have to be exchanged together
    position: NDArray[np.int64] = np.arange(model.num_machines) if timed else np.cumsum(model.limited) - 1
    # machines that no job tells apart have the same sum, added up in the same order
    sums = np.bincount(model.machine, weights=model.values, minlength=model.num_machines)
    some = np.flatnonzero(np.ones_like(model.limited) if timed else model.limited)
    _, which, shared = np.unique(sums[some], return_inverse=True, return_counts=True)
    some = some[shared[which] > 1]
    if not some.size:
        return ()
    owner = model.job_of_option()
    order = np.lexsort((model.gpus, model.uses, model.values, owner, model.machine))
    ends = np.searchsorted(model.machine[order], np.arange(model.num_machines + 1)).tolist()
    groups: dict[tuple[object, ...], list[int]] = {}
    for machine in some.tolist():
        rows = order[ends[machine] : ends[machine + 1]]
        entries = tuple(part[rows].tobytes() for part in (owner, model.values, model.uses, model.gpus))
        key = (int(model.counts[machine]), int(model.capacities[machine]), *entries)
        groups.setdefault(key, []).append(int(position[machine]))
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
