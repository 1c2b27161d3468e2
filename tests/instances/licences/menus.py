"""Licences as a multiple-choice knapsack: every job runs on what it needs, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from tests.instances.licences.schema import LicenceInstance

__all__ = ["LicenceMenus"]


class LicenceMenus:
    """One option per job; see `apportion.formulations.protocol.KnapsackFormulation`."""

    value_error = 0.0

    def __init__(self, instance: LicenceInstance) -> None:
        self.instance = instance
        self.model = MultipleChoiceKnapsack.from_arrays(
            [job.worth for job in instance.jobs],
            [job.needs for job in instance.jobs],
            np.arange(len(instance.jobs) + 1),
            [instance.licences],
            required=[job.held is not None for job in instance.jobs],
            capacity_names=["licences"],
        )

    def exact_values(self) -> list[Fraction]:
        """Return the values themselves."""
        return list(map(Fraction, self.model.values.tolist()))

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return ``{"licensed": {job: number of licences}}``."""
        chosen = zip(self.instance.jobs, choice.tolist(), strict=True)
        return {"licensed": {job.id: job.needs for job, row in chosen if row >= 0}}

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the row of every job that runs, -1 for the others."""
        licensed = plan.get("licensed") if isinstance(plan, Mapping) else None
        if not isinstance(licensed, Mapping):
            return None
        return np.array([k if job.id in licensed else -1 for k, job in enumerate(self.instance.jobs)])

    def preferred(self) -> None:
        """Return ``None``: nothing runs yet."""
        return

    def lowered(self) -> Lowered:
        """Return the MILP."""
        names = [self.option_name(row) for row in range(self.model.num_options)]
        jobs = self.job_names()
        return lower(self.model, OptionLabels(self.model.offsets, jobs, names), jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' ids."""
        return [job.id for job in self.instance.jobs]

    def option_name(self, row: int) -> str:
        """Return the number of licences."""
        return str(self.instance.jobs[row].needs)

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the licences there are."""
        return self.model
