"""Repair an earlier choice into a new instance: jobs that left, options that went, capacity that shrank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["repaired"]


def repaired(model: MultipleChoiceKnapsack, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return a feasible choice close to the given rows, or ``None`` if the repair does not succeed.

    Required jobs without a row get their option of least relative use. Then, while a capacity is
    exceeded, the job moves whose change loses least value per relieved relative use.

    Parameters
    ----------
    model
        The new instance's menus.
    rows
        int64 [jobs]: the earlier choice as far as it exists here, -1 elsewhere.
    """
    choice = rows.copy()
    room = np.maximum(model.capacities, 1).astype(np.float64)
    missing = np.flatnonzero(model.required & (choice < 0))
    if missing.size:
        if (np.diff(model.offsets)[missing] == 0).any():
            return None
        load = (model.uses / room).sum(axis=1)
        for job in missing:
            start, stop = model.offsets[job], model.offsets[job + 1]
            choice[job] = start + int(np.argmin(load[start:stop]))
    if (model.used(choice) <= model.capacities).all():
        return choice
    return _relieved(model, choice, room)


def _relieved(
    model: MultipleChoiceKnapsack, choice: NDArray[np.int64], room: NDArray[np.float64]
) -> NDArray[np.int64] | None:
    sign = 1.0 if model.sense == "maximize" else -1.0
    job_of = model.job_of_option()
    optional = np.flatnonzero(~model.required)
    for _ in range(4 * model.num_jobs + 4):
        excess = np.maximum(model.used(choice) - model.capacities, 0) / room
        if not excess.any():
            return choice
        tight = excess > 0
        held_value = np.where(choice >= 0, model.values[choice], 0.0)
        held_use = np.where((choice >= 0)[:, None], model.uses[choice], 0)
        relief = ((held_use[job_of] - model.uses)[:, tight] / room[tight]) @ excess[tight]
        loss = sign * (held_value[job_of] - model.values)
        leave_relief = (held_use[optional][:, tight] / room[tight]) @ excess[tight]
        relief = np.concatenate((relief, leave_relief))
        loss = np.concatenate((loss, sign * held_value[optional]))
        useful = relief > 0
        if not useful.any():
            return None
        score = np.full(relief.size, np.inf)
        score[useful] = np.maximum(loss[useful], 0.0) / relief[useful]
        move = int(np.argmin(score))
        if move < job_of.size:
            choice[job_of[move]] = move
        else:
            choice[optional[move - job_of.size]] = -1
    return None
