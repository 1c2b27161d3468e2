"""HyperQueue's model of tasks on workers: alike tasks are one batch, whole numbers of it go to every worker.

Tasks of one request and priority are one row and one integer column per worker and variant, as HyperQueue's
scheduler hands them to HiGHS, which has 5 s there. Jobs are alike whose options are worth and use the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from benchmarks.peers.matrices import Matrices, matrices_of
from benchmarks.peers.scipy_milp import milp_of
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["solve"]


def solve(task: Task, limits: Limits) -> Answer:
    """Write the batches and call HiGHS by ``scipy.optimize.milp``."""
    menus = task.menus
    if menus is None or menus.required.any():
        raise CannotTake("is a model of tasks that may wait")
    watch = Watch()
    form = matrices_of(menus)
    batches = _batches(menus, form)
    if len(batches) == menus.num_jobs:
        raise CannotTake("is a model of alike tasks, here no two are")
    first = np.array([jobs[0] for jobs in batches])
    columns = np.concatenate([np.arange(menus.offsets[job], menus.offsets[job + 1]) for job in first])
    of_batches = replace(
        form,
        one_option=form.one_option[first][:, columns],
        one_option_lower=form.one_option_lower[first],
        coupling=form.coupling[:, columns],
        values=form.values[columns],
    )
    answer = milp_of(of_batches, limits, watch, [len(jobs) for jobs in batches])
    if answer.x is None:
        return answer
    return replace(answer, x=_one_by_one(menus, batches, np.rint(answer.x).astype(np.int64)))


def _batches(menus: MultipleChoiceKnapsack, form: Matrices) -> list[list[int]]:
    """Return the jobs of every batch."""
    uses, found = form.coupling.tocsc(), dict[bytes, list[int]]()
    for job in range(menus.num_jobs):
        own = slice(menus.offsets[job], menus.offsets[job + 1])
        part = slice(uses.indptr[own.start], uses.indptr[own.stop])
        lengths = np.diff(uses.indptr[own.start : own.stop + 1])
        parts = form.values[own], lengths, uses.indices[part], uses.data[part]
        found.setdefault(b"|".join(one.tobytes() for one in parts), []).append(job)
    return list(found.values())


def _one_by_one(
    menus: MultipleChoiceKnapsack, batches: list[list[int]], numbers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the 0-1 point in which the first tasks of a batch go where so many of it are."""
    x, begin = np.zeros(menus.num_options), 0
    for jobs in batches:
        size = menus.offsets[jobs[0] + 1] - menus.offsets[jobs[0]]
        own = np.repeat(np.arange(size), numbers[begin : begin + size])
        x[menus.offsets[jobs][: own.size] + own] = 1.0
        begin += size
    return x
