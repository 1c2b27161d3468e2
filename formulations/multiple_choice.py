"""A multiple-choice knapsack instance as ragged arrays: the menus as they are, pins and bans applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.instances.multiple_choice_knapsack import MultipleChoiceKnapsackInstance
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["MenuFormulation"]


class MenuFormulation:
    """The arrays of an instance, and the way back to option names.

    Attributes
    ----------
    instance
        What was compiled.
    model
        The admissible options; a pinned job is required and has one.
    value_error
        0: values are taken as they are.
    """

    __slots__ = ("_job_index", "_options", "_row", "instance", "model", "value_error")

    def __init__(self, instance: MultipleChoiceKnapsackInstance) -> None:
        self.instance = instance
        self.value_error = 0.0
        menus = [
            [
                option
                for option in job.options
                if option.id not in job.forbidden and job.pinned in (None, option.id)
            ]
            for job in instance.jobs
        ]
        flat = [option for menu in menus for option in menu]
        column = {name: k for k, name in enumerate(instance.capacities)}
        uses = np.zeros((len(flat), len(column)), dtype=np.int64)
        for row, option in enumerate(flat):
            for name, use in option.uses.items():
                uses[row, column[name]] = use
        self._options = tuple(option.id for option in flat)
        self._job_index = {job.id: index for index, job in enumerate(instance.jobs)}
        owners = [job.id for job, menu in zip(instance.jobs, menus, strict=True) for _ in menu]
        self._row = {pair: row for row, pair in enumerate(zip(owners, self._options, strict=True))}
        self.model = MultipleChoiceKnapsack.from_arrays(
            np.array([option.value for option in flat], dtype=np.float64),
            uses,
            np.concatenate(([0], np.cumsum([len(menu) for menu in menus]))).astype(np.int64),
            np.array(list(instance.capacities.values()), dtype=np.int64),
            required=np.array(
                [job.required or job.pinned is not None for job in instance.jobs], dtype=np.bool_
            ),
            sense=instance.sense,
            capacity_names=tuple(instance.capacities),
        )

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return ``{"choice": {job: option}}``; a job that is left out does not stand there."""
        return {
            "choice": {
                job.id: self._options[row]
                for job, row in zip(self.instance.jobs, choice.tolist(), strict=True)
                if row >= 0
            }
        }

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the rows of a plan's options; -1 where a job or its option is not in this instance."""
        named = plan.get("choice") if isinstance(plan, Mapping) else None
        if not isinstance(named, Mapping):
            return None
        return self._rows({job: option for job, option in named.items() if isinstance(option, str)})

    def preferred(self) -> NDArray[np.int64] | None:
        """Return the rows of the jobs' current options, ``None`` if no job has one."""
        current = {job.id: job.current for job in self.instance.jobs if job.current is not None}
        return self._rows(current) if current else None

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[job,option]``."""
        jobs = [job.id for job in self.instance.jobs]
        return lower(self.model, OptionLabels(self.model.offsets, jobs, self._options), jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' ids."""
        return tuple(job.id for job in self.instance.jobs)

    def option_name(self, row: int) -> str:
        """Return the option's id."""
        return self._options[row]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model

    def _rows(self, named: Mapping[str, str]) -> NDArray[np.int64]:
        rows = np.full(len(self.instance.jobs), -1, dtype=np.int64)
        for pair in named.items():
            if pair[0] in self._job_index:
                rows[self._job_index[pair[0]]] = self._row.get(pair, -1)
        return rows
