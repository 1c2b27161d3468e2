"""POP (Narayanan et al., SOSP 2021): split jobs and capacities into k parts, solve each, join the plans.

POP is made for many small jobs; k is 4, or less where a part would have fewer than 8 jobs, but at least 2.
Jobs are dealt out at random with a seed and every capacity is cut into k nearly equal whole parts; each part
goes to ``scipy.optimize.milp``, one after the other on one thread. There is no bound on what it loses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from benchmarks.peers.matrices import matrices_of
from benchmarks.peers.scipy_milp import milp_of
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["PARTS", "solve"]

PARTS = 4


def solve(task: Task, limits: Limits) -> Answer:
    """Solve the parts and join what they choose."""
    watch = Watch()
    model = task.model
    if isinstance(model, Assignment) and not model.divisible:
        raise CannotTake("machines of an assignment cannot be cut; POP splits capacities and shares")
    parts = max(2, min(PARTS, model.num_jobs // 8))
    dealt = np.random.default_rng(limits.seed).permutation(model.num_jobs) % parts
    x = np.zeros(model.values.size)
    proven = True
    watch.lap("build")
    for part in range(parts):
        jobs = np.flatnonzero(dealt == part)
        if not jobs.size:
            continue
        options = np.concatenate([np.arange(model.offsets[j], model.offsets[j + 1]) for j in jobs])
        own = _part(model, jobs, options, part, parts)
        share = Limits(watch.left(limits.seconds) / (parts - part), limits.gap, limits.threads, limits.seed)
        inner = Watch()
        answer = milp_of(matrices_of(own), share, inner)
        watch.lap("solve")
        if answer.x is None:
            status = f"part {part}: {answer.raw_status}"
            # a part may be infeasible though the whole is not: POP then has no answer
            return Answer(termination=Termination.SOLUTION_LIMIT, raw_status=status, watch=watch)
        proven &= answer.termination is Termination.OPTIMAL
        x[options] = answer.x
    objective = float(model.values @ x) if isinstance(model, MultipleChoiceKnapsack) else None
    watch.saw(objective, None)
    ended = Termination.SOLUTION_LIMIT if proven else Termination.TIME_LIMIT
    return Answer(termination=ended, raw_status=f"{parts} parts", x=x, objective=objective, watch=watch)


def _part(
    model: MultipleChoiceKnapsack | Assignment,
    jobs: NDArray[np.int64],
    options: NDArray[np.int64],
    part: int,
    parts: int,
) -> MultipleChoiceKnapsack | Assignment:
    sizes = np.diff(model.offsets)[jobs]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    if isinstance(model, MultipleChoiceKnapsack):
        return MultipleChoiceKnapsack.from_arrays(
            model.values[options],
            model.uses[options],
            offsets,
            _cut(model.capacities, part, parts),
            required=model.required[jobs],
            sense=model.sense,
            capacity_names=model.capacity_names,
        )
    counts = _cut(model.counts, part, parts)
    return Assignment.from_arrays(
        model.goal,
        # a type that is left with no machine in this part takes no job of it
        np.where(counts[model.machine[options]] > 0, model.values[options], 1e12),
        model.machine[options],
        offsets,
        model.num_machines,
        gpus=model.gpus[options],
        counts=np.maximum(counts, 1),
        divisible=True,
    )


def _cut(whole: NDArray[np.int64], part: int, parts: int) -> NDArray[np.int64]:
    return whole // parts + (part < whole % parts)
