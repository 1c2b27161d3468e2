"""What a person prints is one short, telling line, whatever the size of what it stands for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import apportion
from apportion.cluster.policies.names import policy
from apportion.core.display import MOST_ROWS
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES
from apportion.instances.tables import menu_table
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from tests.strategies import (
    freezing_instances,
    gap_filling_instances,
    knapsack_instances,
    knapsacks,
    matchings,
)

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
    malformed = apportion.check(apportion.MultipleChoiceKnapsackInstance("1", "maximize", {}, ()), {})
    assert repr(malformed).startswith("<Report: 1 violations, no objective; first ")
    assert repr(solution.outcome).endswith(", no point>")
    chosen = apportion.solve(MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1]))
    assert repr(chosen.outcome).endswith(", a point of 1 numbers>")


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


def results(root: Path) -> dict[str, Any]:
    """One of everything that a notebook is asked to show, by its name."""
    from apportion.cluster.simulation import (
        Replay,
        generated_jobs,
        generated_trace,
        node_changes,
        summarise,
        workload,
    )

    instance = apportion.read(root / "examples" / "gap_filling_small.json")
    session = apportion.Session(instance)
    trace = generated_trace(seed=1, nodes=8, days=0.1)
    jobs = workload(generated_jobs(seed=1, count=2), PUBLISHED_CURVES)
    replay = Replay(node_changes(trace), jobs, policy("greedy"), trainers=2)
    replay.run()
    return {
        "instance": instance,
        "builder": apportion.Knapsack({"gpu": 4}).add_job("a", [3.0, 4.0], {"gpu": [2, 4]}),
        "solution": apportion.solve(instance),
        "report": apportion.check(instance, {"allocation": {}}),
        "decision": session.decide(),
        "explanation": apportion.explain(instance),
        "comparison": apportion.what_if(instance, capacity={"idle_nodes": -2}),
        "trace": trace,
        "changes": node_changes(trace),
        "jobs": jobs,
        "summary": summarise(replay, "greedy"),
    }


def test_everything_a_person_prints_is_short_and_everything_with_figures_shows_in_a_notebook(
    root: Path, tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas", reason="the frames to be printed are made with pandas")
    for name, thing in results(root).items():
        assert len(repr(thing)) <= 200 and "\n" not in repr(thing), repr(thing)
        if name in ("trace", "changes", "jobs"):
            continue
        assert thing._repr_html_().startswith(("<table>", "<pre>")), name
        if name != "builder":
            thing.write(tmp_path / "thing.json")
            told = json.loads((tmp_path / "thing.json").read_bytes())
            assert set(told) == set(thing.to_dict()), name
            table = thing.to_pandas()
            assert isinstance(table, pandas.DataFrame) and list(table) == list(thing.table()), name


def test_a_notebook_shows_the_first_rows_of_a_long_table_only(root: Path) -> None:
    instance = apportion.read(root / "examples" / "gap_filling_summit_like.json")
    page = instance._repr_html_()
    assert page.count("<tr>") == 1 + 1 + MOST_ROWS + 1 and "and more" in page
    assert "30 jobs" in page and "j000-AlexNet" in page


BUILDERS: dict[type, Callable[[Any], Any]] = {
    apportion.GapFillingInstance: lambda told: apportion.GapFilling(told.nodes, told.horizon_s),
    apportion.MultipleChoiceKnapsackInstance: lambda told: apportion.Knapsack(told.capacities, told.sense),
    apportion.MatchingInstance: lambda told: apportion.Matching(
        told.machines, told.objective, divisible=told.divisible
    ),
    apportion.FreezingInstance: lambda told: apportion.Freezing(
        told.gpus, told.round_s, gpus_per_node=told.gpus_per_node
    ),
}


def told(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The rows of a table without cells that say nothing: an option takes 0 of a capacity, for instance."""
    rows = zip(*table.values(), strict=True)
    return [{name: cell for name, cell in zip(table, row, strict=True) if cell} for row in rows]


@given(st.one_of(gap_filling_instances(), knapsack_instances(), matchings(), freezing_instances()))
@settings(deadline=None)
def test_the_table_of_an_instance_builds_its_jobs_again(instance: Any) -> None:
    table = instance.table()
    rows = len(table["job"])
    assert all(len(column) == rows for column in table.values())
    assert list(dict.fromkeys(table["job"])) == [job.id for job in instance.jobs]
    short = menu_table(instance, 3)
    assert {name: column[:3] for name, column in table.items() if name in short} == short
    builder = BUILDERS[type(instance)](instance)
    needed = [table.get(name, [None]) for name in builder._row_columns()]
    assume(all(cell is not None for column in needed for cell in column))  # no job without an option
    taken = {name: [cell if cell is not None else math.nan for cell in table[name]] for name in table}
    again = builder.add_jobs(taken).instance()
    assert [job.id for job in again.jobs] == [job.id for job in instance.jobs]
    assert told(menu_table(again)) == told(table)
