"""Menus as rectangles that one numpy call can price, and the small changes of price that break ties.

A job that may be left out has one more column, worth 0 and using nothing; short menus are padded with
columns worth minus infinity, in one rectangle per power of two of their length.

Where thousands of jobs are alike, all change their mind at one price, and no price uses just the capacity.
Every job j therefore pays ``lambda_k + reference_k xi_jk`` with ``xi_jk`` in 0..1 from Weyl's sequence in
the job's number and a reference of about 1e-6 of the price: alike jobs change one after the other.

The blocks of `apportion.solvers.knapsack.menu_blocks` take one multiplier of one capacity, in cached chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Block", "NoOption", "blocks", "spread"]


class NoOption(ValueError):
    """A job that must get an option has none: nothing is feasible."""


@dataclass(slots=True, eq=False)
class Block:
    """Jobs with menus of about one length.

    Attributes
    ----------
    value
        float64 [jobs, columns], to be maximised; ``-inf`` where there is no option.
    use
        int64 [jobs, columns, capacities].
    jobs
        int64 [jobs]: positions in the part; ``None`` for all of it.
    number
        int64 [jobs]: positions in the whole instance.
    out
        The column that leaves a job out, or ``None``.
    """

    value: NDArray[np.float64]
    use: NDArray[np.int64]
    jobs: NDArray[np.int64] | None
    number: NDArray[np.int64]
    out: int | None

    def scores(
        self, price: NDArray[np.float64], xi: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return float64 [jobs, columns]: value less what the uses cost at a price."""
        score = self.value.copy()
        cost = np.empty(score.shape)
        for k in range(price.size):
            each = price[k] + reference[k] * xi[:, k]
            np.multiply(self.use[:, :, k], each[:, None], out=cost)
            score -= cost
        return score

    def positions(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chosen positions in the menus, -1 for left out."""
        return columns if self.out is None else np.where(columns == self.out, -1, columns)


def spread(numbers: NDArray[np.int64], num_capacities: int) -> NDArray[np.float64]:
    """Return float64 [jobs, capacities] in 0..1, evenly spread over the jobs, by their number alone.

    Weyl's sequence with the ratios of Roberts' R_d sequence, in 64-bit integers: exact for any number.
    """
    ratio = 2.0
    for _ in range(60):  # the root of x ** (d + 1) = x + 1
        ratio = (1.0 + ratio) ** (1.0 / (num_capacities + 1.0))
    found = np.empty((numbers.size, num_capacities))
    for k in range(num_capacities):
        factor = np.uint64(int(2.0**64 * ratio ** -(k + 1.0)) | 1)
        found[:, k] = (numbers.astype(np.uint64) + np.uint64(1)) * factor * 2.0**-64
    return found


def blocks(model: MultipleChoiceKnapsack, first: int, sign: float) -> list[Block]:
    """Return the menus of a part as rectangles.

    Parameters
    ----------
    model
        The part.
    first
        The number of its first job in the whole instance.
    sign
        1 to maximise, -1 to minimise.

    Raises
    ------
    NoOption
        If a required job has no option.
    """
    counts = np.diff(model.offsets)
    if bool((model.required & (counts == 0)).any()):
        job = first + int(np.argmax(model.required & (counts == 0)))
        raise NoOption(f"job {job} is required and has no option")
    value = model.values if sign > 0 else -model.values
    if not counts.size:
        return []
    width, everyone = int(counts[0]), bool(model.required.all())
    if everyone and int(counts.min()) == width == int(counts.max()):
        rectangle = model.uses.reshape(counts.size, width, model.num_capacities)
        numbers = np.arange(first, first + counts.size, dtype=np.int64)
        return [Block(value.reshape(-1, width), rectangle, None, numbers, None)]
    made = []
    for jobs in model.jobs_by_length():
        width = int(counts[jobs].max())
        columns = width if everyone else width + 1
        values = np.full((jobs.size, columns), -np.inf)
        uses = np.zeros((jobs.size, columns, model.num_capacities), dtype=np.int64)
        inside, rows = model.cells(jobs, columns)
        values[inside], uses[inside] = value[rows], model.uses[rows]
        if not everyone:
            values[~model.required[jobs], width] = 0.0
        made.append(Block(values, uses, jobs, first + jobs, None if everyone else width))
    return made
