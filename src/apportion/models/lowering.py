"""Lower a multiple-choice knapsack or an assignment to a linear model, and carry points both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment, in_turn
from apportion.models.assignment_bounds import counting_bound
from apportion.models.linear import LinearModel, LinearModelBuilder
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Lowered", "LoweredAssignment", "OptionLabels", "lower", "lower_assignment"]


@dataclass(frozen=True, slots=True)
class OptionLabels(Sequence[str]):
    """Names of the options of ragged menus, made on demand: ``j0,2gpu``.

    Attributes
    ----------
    offsets
        int64 [jobs + 1], as in the knapsack.
    jobs
        One name per job.
    options
        One name per option within its job.
    """

    offsets: NDArray[np.int64]
    jobs: Sequence[str]
    options: Sequence[str]

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def __getitem__(self, position: int) -> str:  # type: ignore[override]
        job = int(np.searchsorted(self.offsets, position, side="right")) - 1
        return f"{self.jobs[job]},{self.options[position]}"

    def __iter__(self) -> Iterator[str]:
        owners = np.arange(len(self.jobs)).repeat(np.diff(self.offsets)).tolist()
        return (f"{self.jobs[job]},{option}" for job, option in zip(owners, self.options, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A knapsack as a linear model, with the way back.

    Attributes
    ----------
    knapsack
        The knapsack it came from.
    model
        Columns are options; rows are ``one_option`` per job and ``capacity`` per capacity.
    """

    knapsack: MultipleChoiceKnapsack
    model: LinearModel

    def point(self, choice: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the 0-1 point of a choice, float64 [options]."""
        x = np.zeros(self.knapsack.num_options)
        x[choice[choice >= 0]] = 1.0
        return x

    def choice(self, point: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the choice of a point: the largest entry of each menu if it is over one half, else -1."""
        chosen = np.full(self.knapsack.num_jobs, -1, dtype=np.int64)
        taken = np.flatnonzero(np.asarray(point) > 0.5)
        job = np.searchsorted(self.knapsack.offsets, taken, side="right") - 1
        chosen[job] = taken
        return chosen


def lower(
    knapsack: MultipleChoiceKnapsack,
    labels: OptionLabels | None = None,
    job_labels: Sequence[str] | None = None,
) -> Lowered:
    """Lower a knapsack to the model ``sum_i x_ji <= 1 (or = 1),  sum_ji u_jik x_ji <= C_k,  x binary``.

    Parameters
    ----------
    knapsack
        The menus.
    labels
        Names of the columns; plain indices by default.
    job_labels
        Names of the ``one_option`` rows; plain indices by default.

    Examples
    --------
    >>> knapsack = MultipleChoiceKnapsack.from_arrays([3.0, 4.0, 2.0], [2, 4, 2], [0, 2, 3], [4])
    >>> lowered = lower(knapsack)
    >>> lowered.model.row_names()
    ['one_option[0]', 'one_option[1]', 'capacity[capacity_0]']
    >>> lowered.choice(lowered.point(np.array([0, 2]))).tolist()
    [0, 2]
    """
    m = LinearModelBuilder(knapsack.sense)
    x = m.binary("x", (knapsack.num_options,), None if labels is None else (labels,))
    one_option = x.segment_sum(knapsack.offsets)
    m.between(
        "one_option",
        np.where(knapsack.required, 1.0, -np.inf),
        one_option,
        1.0,
        None if job_labels is None else (job_labels,),
    )
    m.at_most("capacity", knapsack.matrix.T @ x, knapsack.capacities, (knapsack.capacity_names,))
    m.objective(x * knapsack.values)
    return Lowered(knapsack, m.build())


@dataclass(frozen=True, slots=True, eq=False)
class LoweredAssignment:
    """An assignment as a linear model, with the way back.

    Attributes
    ----------
    assignment
        The assignment it came from.
    model
        Columns are the entries, then the makespan if that is minimised. Pools of several machines are
        aggregated: the model then is a relaxation, its bound holds and its points are packed.
    """

    assignment: Assignment
    model: LinearModel

    def point(self, point: NDArray[Any]) -> NDArray[np.float64]:
        """Return the columns of a choice (or of shares)."""
        own = self.assignment
        if own.divisible:
            x = np.asarray(point, dtype=np.float64)
        else:
            x = np.zeros(own.num_options)
            choice, _ = in_turn(point)
            x[choice[choice >= 0]] = 1.0
        return x if own.goal != "makespan" else np.append(x, own.objective(point))

    def choice(self, point: NDArray[np.float64]) -> NDArray[Any]:
        """Return the choice of a point, or the shares of a divisible one, each job's made to add up to 1."""
        own = self.assignment
        x = np.asarray(point, dtype=np.float64)[: own.num_options]
        job = own.job_of_option()
        if own.divisible:
            x = np.maximum(x, 0.0)
            done = np.bincount(job, weights=x, minlength=own.num_jobs)
            return np.asarray(x / np.where(done > 0, done, 1.0)[job], dtype=np.float64)
        return own.chosen(np.flatnonzero(x > 0.5))


def lower_assignment(
    model: Assignment, labels: OptionLabels | None = None, job_labels: Sequence[str] | None = None
) -> LoweredAssignment:
    """Lower to ``sum_i x_ji = 1``, and ``sum_j u_ji x_ji <= C_i`` or ``sum_j g_ji p_ji x_ji <= c_i T``.

    Parameters
    ----------
    model
        The assignment.
    labels, job_labels
        Names of the columns and of the ``one_machine`` rows; plain indices by default.
    """
    m = LinearModelBuilder(model.sense)
    size = (model.num_options,)
    names = None if labels is None else (labels,)
    of_job = None if job_labels is None else (job_labels,)
    # what no machine holds is in no plan; its value may be so large that solvers see no other
    free = model.divisible | ~model.limited[model.machine]
    possible = free | (model.uses <= model.capacities[model.machine])
    values = np.where(possible, model.values, 0.0)
    kind = m.continuous if model.divisible else m.integer
    x = kind("x", size, 0.0, possible.astype(np.float64), names)
    total = x.segment_sum(model.offsets)
    m.between("one_machine", model.required.astype(np.float64), total, 1.0, of_job)
    order = np.argsort(model.machine, kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(model.machine, minlength=model.num_machines))))
    by_machine = ends.astype(np.int64)
    limited = np.flatnonzero(model.limited)
    if limited.size:
        used = (x[order] * model.uses[order]).segment_sum(by_machine)[limited]
        m.at_most("capacity", used, model.capacities[limited])
    if model.goal != "makespan":
        m.objective(x * values)
        return LoweredAssignment(model, m.build())
    least = 0.0 if model.divisible else counting_bound(model.of_jobs(model.required))
    # all jobs one after another, each where it is quickest, is a schedule; under capacities perhaps none,
    # but no job takes longer than where it is slowest
    longest = np.maximum if model.limited.any() else np.minimum
    placed = model.offsets[:-1][np.diff(model.offsets) > 0]
    most = float(longest.reduceat(values, placed).sum()) if placed.size else 0.0
    alone = not model.divisible and bool((model.counts == 1).all())
    if alone and bool((values == np.rint(values)).all()) and most < 2**40:
        makespan = m.integer("makespan", (), least, most)
    else:
        # sums of at most n numbers >= 0 are off by less than n eps
        slack = (model.num_jobs + 64) * float(np.finfo(np.float64).eps)
        makespan = m.continuous("makespan", (), least * (1 - slack), most * (1 + slack))
    seconds = x * values
    busy = (seconds * model.gpus)[order].segment_sum(by_machine)
    m.at_most("load", busy - makespan * model.counts, 0.0)
    if model.divisible:
        m.at_most("one_at_a_time", seconds.segment_sum(model.offsets) - makespan, 0.0, of_job)
    m.objective(makespan)
    return LoweredAssignment(model, m.build())
