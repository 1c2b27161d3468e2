"""A placement as a multiple-choice knapsack: its choosers are the jobs, its rows the capacities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.of_options import OptionMenus
from apportion.formulations.protocol import Plan
from apportion.instances.placement import PlacementInstance
from apportion.instances.placement.choosers import MOST_SHAPES, program
from apportion.instances.placement.goals import is_much, names_of
from apportion.instances.placement.kind import maximizes
from apportion.instances.placement.program import MOST_CELLS, Form, PodsAt, Program
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import Goal, MultipleChoiceKnapsack, Sense

__all__ = ["PlacementByShape", "PlacementMenus"]


class PlacementMenus(OptionMenus):
    """The menus of the jobs under what all nodes have together: in these words placements are explained.

    Attributes
    ----------
    relaxes
        True: whether what was chosen fits on the nodes, and keeps the rules, is another question.
    """

    relaxes = True


class PlacementByShape:
    """The choosers of an instance; see `apportion.formulations.protocol.KnapsackFormulation`.

    Parameters
    ----------
    instance
        The instance.
    most_shapes
        How many placed shapes a job has at most that is one chooser; others are split into their pods.
    """

    def __init__(self, instance: PlacementInstance, most_shapes: int = MOST_SHAPES) -> None:
        self.compiled(instance, *program(instance, most_shapes))

    def compiled(self, instance: PlacementInstance, made: Program, forms: Sequence[Form]) -> None:
        """Make the model of choosers and goals."""
        self.instance, self.program = instance, made
        self.asked = self.program.question(forms)
        self._exact = self.asked.objective()
        numbers = {id(one): one for one in self._exact}
        as_float = {key: float(one) for key, one in numbers.items()}
        values = np.array([as_float[id(one)] for one in self._exact], dtype=np.float64)
        rounded = any(Fraction(as_float[key]) != one for key, one in numbers.items())
        self.value_error = float(np.finfo(np.float64).eps) * float(np.abs(values).sum()) if rounded else 0.0
        names = names_of(instance.wanted)
        self.model = MultipleChoiceKnapsack.from_arrays(
            values,
            self.asked.table(MOST_CELLS),
            self.asked.offsets,
            self.asked.rooms,
            sense="maximize" if maximizes(instance) else "minimize",
            capacity_names=self.asked.names,
            goals=[
                _goal(name, *asked, "maximize" if is_much(goal) else "minimize")
                for name, asked, goal in [*zip(names, self.asked.goals, instance.wanted, strict=True)][1:]
            ],
        )

    def exact_values(self) -> list[Fraction]:
        """Return what every column is worth."""
        return self._exact

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return where the pods of a choice are."""
        made, taken = self.program, set(self.asked.columns[choice[choice >= 0]].tolist())
        on: dict[str, dict[str, dict[str, int]]] = {}
        for column, of, node, count in made.entries:
            if column in taken:
                one = made.classes[of]
                at = on.setdefault(one.job.id, {}).setdefault(one.pods.name, {})
                at[made.site.nodes[node]] = count
        got = {job: option for (job, option), columns in made.chosen.items() if not taken.isdisjoint(columns)}
        for one in made.classes:
            if one.job.id in on:
                got.setdefault(one.job.id, one.option.id)  # a job of one option that no column names
        placed = ((job.id, got.get(job.id)) for job in self.instance.jobs)
        return {
            "placement": {
                job: {"option": option, "on": on.get(job, {})} for job, option in placed if option is not None
            }
        }

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits; ``None`` if it is no plan."""
        given = plan.get("placement") if isinstance(plan, Mapping) else None
        if not isinstance(given, Mapping):
            return None
        taken = np.zeros(len(self.program.labels), dtype=np.int64)
        try:
            for job in self.instance.jobs:
                taken[self._columns(job.id, given.get(job.id))] = 1
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        starts = self.program.starts
        for chooser, settle in self.program.settled.items():
            taken[starts[chooser] + settle(taken)] = 1
        row = np.full(taken.size, -1, dtype=np.int64)
        row[self.asked.columns] = np.arange(self.asked.columns.size)
        found = np.full(len(starts), -1, dtype=np.int64)
        columns = np.flatnonzero(taken)
        found[np.searchsorted(starts, columns, side="right") - 1] = row[columns]
        return found

    def _columns(self, job: str, got: Any) -> list[int]:
        """Return the columns that a job takes, of those that place pods or choose an option."""
        made = self.program
        if got is None:
            return [*made.waiting[job], *(made.starts[at.chooser] for at in self._pods_at.get(job, ()))]
        number, on = made.site.number, dict[tuple[str, int], int]()
        for name, nodes in got["on"].items():
            for node, count in nodes.items():
                if node in number and count:
                    on[name, number[node]] = on.get((name, number[node]), 0) + count
        chosen = made.chosen.get((job, got["option"]), [])
        if job in made.whole:
            return [column for column in chosen if self._shapes.get(column, {}) == on][:1]
        nodes = [node for _, node in on]
        found = [column for column in chosen if made.scopes[column][nodes].all()][:1]
        for at in self._pods_at.get(job, ()):
            one, start = made.classes[at.of], made.starts[at.chooser]
            mine = {node: n for (name, node), n in on.items() if name == one.pods.name}
            if one.option.id != got["option"] or not mine:
                found.append(start)
            elif at.node is not None:
                found += [start + mine.get(at.node, 0)]
            else:
                last = at.chooser + 1 == len(made.starts)
                end = len(made.labels) if last else made.starts[at.chooser + 1]
                name, those = made.site.nodes[next(iter(mine))], made.labels[start:end]
                found.append(start + (those.index(name) if name in those else 0))
        return found

    @cached_property
    def _pods_at(self) -> dict[str, list[PodsAt]]:
        found: dict[str, list[PodsAt]] = {}
        for at in self.program.pods_at:
            found.setdefault(self.program.classes[at.of].job.id, []).append(at)
        return found

    @cached_property
    def _shapes(self) -> dict[int, dict[tuple[str, int], int]]:
        found: dict[int, dict[tuple[str, int], int]] = {}
        for column, of, node, count in self.program.entries:
            found.setdefault(column, {})[self.program.classes[of].pods.name, node] = count
        return found

    def present(self) -> None:
        """Return ``None``: what is kept of the present is among the goals."""
        return

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[chooser,column]``."""
        labels = [self.program.labels[column] for column in self.asked.columns.tolist()]
        names = self.program.choosers
        return lower(self.model, OptionLabels(self.model.offsets, names, labels), names)

    def job_names(self) -> Sequence[str]:
        """Return the choosers' names."""
        return self.program.choosers

    def option_name(self, row: int) -> str:
        """Return the column's name."""
        return self.program.labels[int(self.asked.columns[row])]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the choosers themselves: rules do not depend on amounts alone."""
        return self.model


def _goal(name: str, worths: Sequence[Any], constant: Any, sense: Sense) -> Goal:
    made = Goal.of(name, np.array([float(one) for one in worths]), len(worths), sense)
    return Goal(made.name, made.worth, made.sense, int(constant))
