"""What a person prints is one short, telling line, whatever the size of what it stands for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import apportion
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from tests.strategies import knapsacks

EXAMPLES = (
    "gap_filling_summit_like",
    "freezing_small",
    "matching_assignment",
    "matching_shares",
    "sia_round",
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_and_its_answer_print_as_one_line_each(name: str, root: Path) -> None:
    instance = apportion.read(root / "examples" / f"{name}.json")
    solution = apportion.solve(instance)
    printed = [repr(part) for part in (instance, solution, solution.report, solution.certificate)]
    printed.append(repr(solution.outcome))
    assert all(len(line) <= 200 and "\n" not in line for line in printed), printed
    assert f"{len(instance.jobs)} jobs" in printed[0] and type(instance).__name__ in printed[0]
    assert solution.termination.value in printed[1] and f"{solution.objective:.10g}" in printed[1]
    assert "feasible" in printed[2]
    assert str(solution) == printed[1]


def test_what_is_absent_or_broken_is_said() -> None:
    model = MultipleChoiceKnapsack.from_arrays([1.0], [2], [0, 1], [1])
    solution = apportion.solve(model)
    assert repr(solution).startswith("<Solution: infeasible, no plan, bound ")
    broken = apportion.check(model, np.array([0]))
    assert repr(broken).startswith("<Report: 1 violations, objective 1; first capacity[")


@given(knapsacks(max_jobs=4, max_capacities=3))
def test_a_model_says_its_size(model: MultipleChoiceKnapsack) -> None:
    size = f"{model.num_jobs} jobs, {model.num_options} options, {model.num_capacities} capacities"
    assert size in repr(model)
    lowered = lower(model).model
    assert f"{lowered.num_columns} columns" in repr(lowered) and f"{lowered.num_rows} rows" in repr(lowered)


def test_a_notebook_shows_a_table_and_no_markup_of_names() -> None:
    instance = apportion.MultipleChoiceKnapsackInstance("1", "maximize", {"c": 1}, (), "<b>")
    page = apportion.solve(instance)._repr_html_()
    assert page.startswith("<table>") and "optimal" in page
    assert "<b>" not in page and "&lt;b&gt;" in page
