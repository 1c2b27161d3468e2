"""Builders make the instances that files would hold, from numbers, arrays and tables alike."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import apportion
from apportion.core.errors import InvalidInstance, NoPlan

MENU = {("v100", 1): {0: 10.0, 4: 14.0}, ("v100", 2): {0: 19.0}}
BUILT: dict[str, Any] = {
    "gap_filling": lambda: (
        apportion.GapFilling(nodes=np.int64(4), horizon_s=60)
        .add_job("a", np.array([10.0, 19.0, 27.0]), rescale_up_s=np.float32(2), current_nodes=["n0"])
        .add_job("b", {2: 20, 4: 33}, min_nodes=2, weight=2)
    ),
    "knapsack": lambda: (
        apportion.Knapsack({"gpu": np.int32(4)}, name="menus")
        .add_job("a", np.array([3.0, 4.0]), {"gpu": np.array([2, 4])}, options=["half", "all"])
        .add_job("b", [2], {"gpu": [2]}, required=False)
    ),
    "matching": lambda: (
        apportion.Matching({"v100": 1, "k80": 2})
        .add_job("a", {"v100": 2, "k80": np.float64(6)})
        .add_job("b", {"v100": {"time_s": 3.0, "gpus": 1}})
    ),
    "freezing": lambda: (
        apportion.Freezing({"v100": 2}, gpus_per_node={"v100": 2})
        .add_job("a", 8, MENU, age_s=30)
        .add_job("b", np.int64(8), MENU)
    ),
}
TABLES: dict[str, dict[str, list[Any]]] = {
    "gap_filling": {
        "job": ["a", "a", "a", "b", "b"],
        "nodes": [1, 2, 3, 2, 4],
        "rate": [10.0, 19.0, 27.0, 20.0, 33.0],
        "min_nodes": [1, 1, 1, 2, 2],
        "weight": [1.0, 1.0, 1.0, 2.0, 2.0],
        "rescale_up_s": [2.0, 2.0, 2.0, 0.0, 0.0],
    },
    "knapsack": {
        "job": ["a", "a", "b"],
        "option": ["half", "all", "0"],
        "value": [3.0, 4.0, 2.0],
        "gpu": [2, 4, 2],
        "required": [True, True, False],
    },
    "matching": {"job": ["a", "a", "b"], "machine": ["v100", "k80", "v100"], "time_s": [2.0, 6.0, 3.0]},
    "freezing": {
        "job": ["a", "a", "a", "b", "b", "b"],
        "layers": [8] * 6,
        "gpu_type": ["v100"] * 6,
        "gpus": [1, 1, 2] * 2,
        "depth": [0, 4, 0] * 2,
        "effective_progress": [10.0, 14.0, 19.0] * 2,
        "age_s": [30.0, 30.0, 30.0, None, None, None],
    },
}
BEGUN: dict[str, Any] = {
    "gap_filling": lambda: apportion.GapFilling(4, 60),
    "knapsack": lambda: apportion.Knapsack({"gpu": 4}, name="menus"),
    "matching": lambda: apportion.Matching({"v100": 1, "k80": 2}),
    "freezing": lambda: apportion.Freezing({"v100": 2}, gpus_per_node={"v100": 2}),
}


class Exchanged:
    """Nothing but the dataframe interchange protocol."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self._frame.__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize("kind", BUILT)
def test_what_is_built_is_what_a_file_would_hold(kind: str) -> None:
    instance = BUILT[kind]().instance()
    assert apportion.read(msgspec.json.encode(instance)) == instance
    assert apportion.solve(instance).termination.value == "optimal"


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("form", ["mapping", "pandas", "polars"])
def test_tables_of_any_kind_give_the_same_jobs(kind: str, form: str) -> None:
    table: Any = TABLES[kind]
    if form != "mapping":
        if importlib.util.find_spec(form) is None:
            pytest.skip(f"{form} is not installed")
        table = importlib.import_module(form).DataFrame(table)
    expected = BUILT[kind]()
    if kind == "gap_filling":
        expected = apportion.GapFilling(4, 60).add_job("a", [10, 19, 27], rescale_up_s=2)
        expected.add_job("b", {2: 20, 4: 33}, min_nodes=2, weight=2)
    assert BEGUN[kind]().add_jobs(table).instance() == expected.instance()


def test_a_table_that_only_speaks_the_interchange_protocol_is_read() -> None:
    pandas = pytest.importorskip("pandas", reason="the frame to be read is made with pandas")
    frame = pandas.DataFrame(TABLES["knapsack"])
    if not hasattr(frame, "__dataframe__"):
        pytest.skip("this pandas has no interchange protocol")
    assert BEGUN["knapsack"]().add_jobs(Exchanged(frame)).instance() == BUILT["knapsack"]().instance()


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"job": ["a"], "option": ["x"]}, "no column 'value'"),
        ({"job": ["a"], "option": ["x", "y"], "value": [1]}, "not equally long"),
        ({"job": ["a"], "option": ["x"], "value": [1], "gpus": [2]}, "unknown field"),
        ({"job": ["a", "b"], "option": ["x", "y"], "value": [1, 2], "gpu": [1, -1]}, "at least 0|from 0"),
        ({"job": ["a", "b"], "option": ["x", None], "value": [1, 2]}, "'option' has an empty cell"),
        (7, "no table"),
    ],
)
def test_a_wrong_table_is_one_clear_error_and_adds_nothing(table: Any, told: str) -> None:
    menus = apportion.Knapsack({"gpu": 4})
    with pytest.raises(InvalidInstance, match=told):
        menus.add_jobs(table)
    assert menus.instance().jobs == ()


def test_a_wrong_job_names_its_field() -> None:
    with pytest.raises(InvalidInstance, match=r"\$\.jobs\[1\]\.min_nodes: 5 exceeds max_nodes 1"):
        apportion.GapFilling(4).add_job("a", [1]).add_job("b", [1], min_nodes=5)
    with pytest.raises(InvalidInstance, match="gpu has 1 entries, values has 2"):
        apportion.Knapsack({"gpu": 4}).add_job("a", [1, 2], {"gpu": [1]})
    with pytest.raises(InvalidInstance, match=r"horizon_s"):
        apportion.GapFilling(4, horizon_s=-1)


def test_results_come_back_as_tables(tmp_path: Path) -> None:
    solution = apportion.solve(BUILT["freezing"]().instance())
    table = solution.table()
    assert table["job"] == ["a", "b"]
    assert table["gpu_type"] == ["v100", "v100"]
    assert table["depth"] == [4, 4]
    gap = apportion.solve(BUILT["gap_filling"]().instance()).table()
    assert [len(nodes or ()) for nodes in gap["allocation"]] == [0, 4]
    assert apportion.solve(BUILT["knapsack"]().instance()).table() == {
        "job": ["a", "b"],
        "choice": ["half", "0"],
    }
    model = apportion.MultipleChoiceKnapsack.from_arrays([3.0], [2], [0, 1], [4])
    assert apportion.solve(model).table() == {"job": [0], "row": [0]}
    if importlib.util.find_spec("pandas"):
        assert solution.to_pandas().shape == (2, len(table))
    solution.write(tmp_path / "solution.json")
    assert json.loads((tmp_path / "solution.json").read_text())["plan"] == solution.plan
    solution.plot(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")
    hopeless = apportion.Knapsack({"gpu": 1}).add_job("a", [1], {"gpu": [2]})
    with pytest.raises(NoPlan):
        apportion.solve(hopeless.instance()).table()


def test_what_is_no_instance_is_told_how_one_is_had() -> None:
    """`solve("file.json")` and `solve(builder)` said only what they are not."""
    builder = apportion.GapFilling(nodes=4).add_job("a", [1.0, 2.0])
    for given, words in (
        ("round.json", r"apportion.read\('round.json'\) reads one"),
        (Path("round.json"), r"apportion.read\('round.json'\) reads one"),
        ({"kind": "gap_filling"}, "apportion.read"),
        (builder, r"its method instance\(\) returns one"),
        (apportion.Session(builder.instance()), "its instance is one"),
    ):
        for ask in (apportion.solve, apportion.explain, lambda given: apportion.check(given, {})):
            with pytest.raises(TypeError, match=words):
                ask(given)  # type: ignore[arg-type]
        with pytest.raises(InvalidInstance, match=words):
            apportion.Session(given)  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="give one of the two"):
        apportion.Session(builder.instance()).add_job({"id": "b"}, min_nodes=1)


def test_whole_floats_of_a_table_are_integers_and_one_in_a_call_says_what_to_write() -> None:
    """pandas makes floats of integers beside an empty cell: an error, or a ValueError."""
    table = {"job": ["a", "a", "b"], "option": ["x", "y", "x"], "value": [1.0, 2.5, 3.0]}
    built = apportion.Knapsack({"gpu": 4, "cpu": 9}).add_jobs(
        {**table, "gpu": [2.0, 4.0, 1.0], "cpu": [3.0, float("nan"), 2.0]}
    )
    same = apportion.Knapsack({"gpu": 4, "cpu": 9})
    same.add_job("a", [1.0, 2.5], {"gpu": [2, 4], "cpu": [3, 0]}, options=["x", "y"])
    assert built.instance() == same.add_job("b", [3.0], {"gpu": [1], "cpu": [2]}, options=["x"]).instance()
    curve = apportion.GapFilling(nodes=4).add_jobs(
        {"job": ["a"] * 2, "nodes": [1.0, 2.0], "rate": [1.0, 2.0]}
    )
    assert curve.instance().jobs[0].scaling.nodes == (0, 1, 2)
    with pytest.raises(InvalidInstance, match=r"must be an integer, not 2.0; write 2 \(in Python: int"):
        apportion.Knapsack({"gpu": 4}).add_job("a", [1.0], {"gpu": [2.0]})


def test_a_plan_is_drawn_in_a_notebook_without_a_file() -> None:
    """`plot()` asked for a path, and a notebook showed nothing."""
    solution = apportion.solve(apportion.GapFilling(nodes=4).add_job("a", [1.0, 2.0]).instance())
    drawn = solution.plot()
    assert drawn is not None
    assert drawn._repr_svg_().startswith("<svg") and drawn == drawn._repr_svg_()


def test_uses_of_machines_that_are_counts_are_refused() -> None:
    """They were dropped without a word: a count has no capacity that could be used."""
    pools = apportion.Matching({"v100": 1, "k80": 1})
    with pytest.raises(InvalidInstance, match="so v100 has no capacity: uses"):
        pools.add_job("a", {"v100": {"time_s": 2.0, "uses": 3}, "k80": 6})
    rooms = apportion.Matching([{"id": "v100", "count": 1, "capacity": 4}])
    assert rooms.add_job("a", {"v100": {"time_s": 2.0, "uses": 3}}).instance().jobs[0].on["v100"].uses == 3


def test_a_malleable_job_may_have_some_counts_alone() -> None:
    """As people ask for most: powers of two, multiples, a list."""
    nodes = [f"n{index}" for index in range(13)]
    rates = [float(count) for count in range(1, 14)]
    powers = apportion.GapFilling(nodes, 60.0).add_job("a", rates, allowed_counts="powers_of_two")
    assert powers.instance().jobs[0].allowed_counts == (1, 2, 4, 8)
    fours = apportion.GapFilling(nodes, 60.0).add_job("a", rates, allowed_counts=range(4, 13, 4))
    for built, most in ((powers, 8), (fours, 12)):
        solution = apportion.solve(built.instance(), proof=True)
        assert len(solution.require()["allocation"]["a"]) == most and solution.proof is not None
    refused = {"allocation": {"a": nodes[:5]}}
    assert [one.rule for one in apportion.check(powers.instance(), refused).violations] == ["allowed_counts"]
    with pytest.raises(InvalidInstance, match=r"allowed_counts\[0\]: must be from 2 to 13, not 1"):
        apportion.GapFilling(nodes, 60.0).add_job("a", rates, min_nodes=2, allowed_counts=[1])


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: apportion.GapFilling(10**30), r"\$\.nodes: must be from 0 to 10,000,000 nodes"),
        (lambda: apportion.GapFilling(4).add_job("a", {"two": 1.0}), r"\$\.jobs\.a\.rates: .* not by 'two'"),
        (lambda: apportion.Knapsack({"gpu": 1}).add_job("a", 3, {}), r"\$\.jobs\.a\.values: .* not 3"),
        (
            lambda: apportion.Knapsack({"gpu": 1}).add_job("a", [3], [1]),
            r"\$\.jobs\.a\.uses: must be a mapping",
        ),
        (lambda: apportion.Knapsack({"gpu": 1}).add_job("a", [3], {"gpu": 1}), r"\$\.jobs\.a\.uses\.gpu: "),
        (lambda: apportion.Matching({"m": 1}).add_job("a", [1]), r"\$\.jobs\.a\.on: must be a mapping"),
        (
            lambda: apportion.Freezing({"g": 1}).add_job("a", 4, [MENU]),
            r"\$\.jobs\.a\.menu: must be by \(GPU",
        ),
    ],
)
def test_other_types_than_a_builder_takes_are_one_clear_error(build: Any, said: str) -> None:
    with pytest.raises(InvalidInstance, match=said):
        build()
