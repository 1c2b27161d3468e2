"""Menus that refer to fitted models: read as rows, wrong ones named by their field, stored as rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import numpy as np
import pytest

import apportion
from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from apportion.cluster.estimation.layer_throughput import LayerThroughput
from apportion.core.errors import InvalidInstance
from apportion.io.schemas import committed
from apportion.io.stored import document, verify
from tests.cli.calling import call

MODEL = LayerThroughput(0.02, 0.006, 0.1, 0.004, 0.1, 0.2, 0.12, 0.2, 0.8, 1.9)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    told = {
        "kind": "layer_throughput",
        "schema_version": "1",
        "parameters": MODEL.as_json(),
        "work_share": "layers",
        "parameter_share": "param_frac_unfrozen",
        "layers": 10,
    }
    (tmp_path / "model.json").write_text(json.dumps(told))
    rows = "\n".join(f"{k},{1.0 - (k / 10) ** 2}" for k in range(10))
    (tmp_path / "layers.csv").write_text(f"frozen_layers,param_frac_unfrozen\n{rows}\n")
    return tmp_path


def _round(**fit: Any) -> dict[str, Any]:
    told = {
        "gpu_type": "v100",
        "model": "model.json",
        "layers": "layers.csv",
        "gpus": [1, 8],
        "local_batch": 16,
    }
    menu = {"depths": [0, 5], "penalty": [0.0, 0.1], "fits": [{**told, **fit}]}
    return {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": {"v100": 8},
        "gpus_per_node": {"v100": 4},
        "round_s": 60.0,
        "jobs": [{"id": "a", "layers": 10, "menu": menu}],
    }


def _written(folder: Path, tree: dict[str, Any]) -> Path:
    path = folder / "round.json"
    path.write_text(json.dumps(tree))
    return path


def test_a_reference_is_read_as_the_rows_of_its_model(folder: Path) -> None:
    path = _written(folder, _round(efficiency=[1.0, 0.5]))
    instance = apportion.read(path)
    rows = instance.jobs[0].menu
    assert [(row.gpu_type, row.gpus, row.depths) for row in rows] == [
        ("v100", 1, (0, 5)),
        ("v100", 8, (0, 5)),
    ]
    rate = MODEL.throughput(8, 2, 16, [1.0, 0.5], [1.0, 0.75])
    assert rows[1].effective_progress == pytest.approx(tuple(0.5 * rate * np.array([1.0, 0.9])))
    assert rows[1].penalty_millionths == (0, 100_000)
    jsonschema_rs.Draft202012Validator(committed("freezing")).validate(json.loads(path.read_text()))


def test_what_is_stored_needs_no_model(folder: Path) -> None:
    path = _written(folder, _round())
    instance = apportion.read(path)
    told = document(apportion.solve(instance))
    plain = msgspec.json.encode(instance)
    (folder / "model.json").unlink()
    assert b"fits" not in plain
    assert verify(apportion.read(plain), told).ok


def test_paths_are_relative_to_the_file_or_to_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _written(folder, _round())
    monkeypatch.chdir(folder.parent)
    from_file = apportion.read(path)
    with pytest.raises(InvalidInstance, match=r"cannot read 'model\.json'"):
        apportion.read(path.read_bytes())
    monkeypatch.chdir(folder)
    assert apportion.read(path.read_bytes()) == apportion.read(_round()) == from_file
    told = call(solve, "-", "--json", stdin=path.read_bytes())
    assert told.code == 0 and json.loads(told.out)["solution"] == "optimal"


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        ({"model": "none.json"}, r"\$.jobs\[0\].menu.fits\[0\].model: cannot read 'none.json'"),
        ({"model": "layers.csv"}, r"fits\[0\].model: 'layers.csv' is no model file of apportion fit"),
        ({"model": "round.json"}, 'must be "layer_throughput"'),
        ({"layers": "model.json"}, r"fits\[0\].layers: 'model.json' is no layer file"),
        (
            {"layers": None},
            r"fits\[0\].layers: is needed: the model goes by its column 'param_frac_unfrozen'",
        ),
        ({"gpu_type": "k80"}, r"fits\[0\].gpus_per_node: is missing"),
        ({"gpu_type": "k80", "gpus_per_node": 4}, r"menu\[0\].gpu_type: 'k80' is not one of"),
        ({"efficiency": [1.0]}, r"fits\[0\].efficiency: must be a number, or one for each of the 2"),
        ({"local_batch": 0}, r"fits\[0\].local_batch: expected `int` >= 1"),
        ({"batch": 1}, r"fits\[0\]: object contains unknown field `batch`"),
    ],
)
def test_a_wrong_reference_names_its_field(folder: Path, fit: dict[str, Any], message: str) -> None:
    path = _written(folder, _round(**fit))
    with pytest.raises(InvalidInstance, match=message):
        apportion.read(path)
    told = call(main, "validate", path)
    assert told.code == 3 and "Traceback" not in told.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {"forward_s": 1.0}}, "parameters: Object missing required field"),
        ({"parameters": {**MODEL.as_json(), "magic": 1.0}}, "parameters"),
        ({"parameters": {**MODEL.as_json(), "overlap": -1.0}}, "must be finite and not negative"),
        ({"layers": 9}, "was fitted to 9 layers, the job has 10"),
        ({"layers": "ten"}, "layers, work_share or parameter_share is wrong"),
        ({"parameters": {**MODEL.as_json(), "network_s": None}}, "no step on several nodes was measured"),
    ],
)
def test_a_wrong_model_names_the_reference(folder: Path, change: dict[str, Any], message: str) -> None:
    model = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**model, **change}))
    with pytest.raises(InvalidInstance, match=message):
        apportion.read(_written(folder, _round()))


def test_what_else_is_wrong_is_still_told(folder: Path) -> None:
    tree = _round()
    tree["jobs"].append({"id": "b", "layers": 10, "menu": [{"gpu_type": "v100", "gpus": 1, "depths": [0]}]})
    tree["round_s"] = -1.0
    with pytest.raises(InvalidInstance) as raised:
        apportion.read(_written(folder, tree))
    told = "\n".join(map(str, raised.value.problems))
    assert "$.round_s" in told and "$.jobs[1].menu[0].effective_progress: is missing" in told


def test_the_example_is_solved(root: Path) -> None:
    told = call(solve, root / "examples" / "freezing_fitted" / "round.json", "--json")
    plan = json.loads(told.out)["plan"]["configuration"]
    assert plan["early"]["depth"] < plan["late"]["depth"]
    assert sorted(one["nodes"][0] for one in plan.values()) == ["n0", "n1"]
