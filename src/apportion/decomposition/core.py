"""A plan from a price: settled jobs take their best option, and the open jobs share what is left, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.decomposition.answering import Question
from apportion.decomposition.level import Level
from apportion.interruption import uninterrupted
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import SolveOptions, Start
from apportion.outcome import Termination

__all__ = ["Candidate", "candidate"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A plan in short: the price that decides for all jobs except some, whose choices are listed.

    Attributes
    ----------
    question
        The price, and how it is spread.
    numbers, positions
        Per shard int64 [jobs]: jobs decided apart, and their positions in the menu (-1: left out).
    value
        About the sum of the chosen values, to be maximised.
    used
        Exact.
    """

    question: Question
    numbers: tuple[NDArray[np.int64], ...]
    positions: tuple[NDArray[np.int64], ...]
    value: float
    used: tuple[int, ...]


def candidate(
    level: Level,
    question: Question,
    price: NDArray[np.float64],
    capacities: Sequence[int],
    gap: float,
    time_limit: float | None,
    seed: int,
) -> Candidate | None:
    """Return a feasible plan in which all but the open jobs take their best option, or ``None``.

    Parameters
    ----------
    level
        Answers of all jobs to `question`.
    question
        What they answer: its price decides for the settled jobs.
    price
        float64 [capacities]: the best one for the open jobs, where their plan begins.
    capacities
        How much there is of each capacity in the whole instance.
    gap
        The relative gap wanted of the whole plan; the open jobs take their share of a tenth of it, or half.
    time_limit, seed
        Seconds and random seed for the solver that shares out what is left among the open jobs.
    """
    from apportion.solvers import exact

    found = level.open
    room = [capacity - used for capacity, used in zip(capacities, level.fixed_use, strict=True)]
    if min(room) < 0:
        level.infeasible = True
        return None
    chosen = np.zeros(0, dtype=np.int64)
    if found.number.size:
        offsets = np.concatenate(([0], np.cumsum(found.counts)))
        # A room larger than all uses together is no different from one that just suffices.
        most = np.maximum.reduceat(found.use, offsets[:-1]).sum(axis=0)
        model = MultipleChoiceKnapsack.from_arrays(
            found.value, found.use, offsets, np.minimum(np.array(room, dtype=object), most).astype(np.int64)
        )
        best = float(found.value[found.best].sum())
        share = 0.1 if len(room) == 1 else 0.5
        wanted = share * gap * max(abs(level.fixed_value + best), 1e-9) / max(abs(best), 1e-9)
        options = SolveOptions(gap=min(wanted, 1e-2), time_limit=time_limit, seed=seed)
        start, _ = level.best_rows(price, question.reference)
        outcome = uninterrupted(exact.solve(model, options, Start(start)))
        level.infeasible = outcome.termination is Termination.INFEASIBLE
        if outcome.point is None or not model.check(outcome.point).feasible:
            return None
        chosen = outcome.point.astype(np.int64)
    used = [
        fixed + int(more)
        for fixed, more in zip(level.fixed_use, found.use[chosen].sum(axis=0, dtype=np.int64), strict=True)
    ]
    shards = range(len(level.answers))
    return Candidate(
        question,
        tuple(found.number[level.shard == shard] for shard in shards),
        tuple(found.position[chosen][level.shard == shard] for shard in shards),
        level.fixed_value + float(found.value[chosen].sum()),
        tuple(used),
    )
