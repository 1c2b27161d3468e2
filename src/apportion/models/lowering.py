"""Lower a multiple-choice knapsack to a mixed-integer linear model, and carry points both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.builder import LinearModelBuilder
from apportion.models.linear import LinearModel
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Lowered", "OptionLabels", "lower"]


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
    m.at_most("capacity", knapsack.uses.T @ x, knapsack.capacities, (knapsack.capacity_names,))
    m.objective(x * knapsack.values)
    return Lowered(knapsack, m.build())
