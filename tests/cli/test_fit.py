"""``apportion fit``: a fitted model from a CSV, its errors, its file and its drawing."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from apportion.cli.main import main
from apportion.estimation.layer_throughput import LayerThroughput
from tests.cli.calling import call

MODEL = LayerThroughput(0.02, 0.006, 0.1, 0.004, 0.12, 0.05, 0.2, 0.3, 0.6, 2.0)


@pytest.fixture
def measurements(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = ["placement,local_bsz,step_time,sync_time,frozen_layer"]
    for placement in ("1", "2", "4", "22", "44", "444"):
        gpus = sum(map(int, placement))
        for batch in (4, 16, 64):
            for depth in (0, 3, 6, 9):
                share = 1.0 - depth / 10
                seconds = MODEL.step_time(gpus, len(placement), batch, share, share) * rng.normal(1, 0.01)
                lines.append(f"{placement},{batch},{float(seconds)!r},0.0,{depth}")
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_json_states_errors_and_parameters(measurements: Path) -> None:
    told = call(main, "fit", measurements, "--hold-out", "depth=3", "--json")
    assert told.code == 0, told.err
    document = json.loads(told.out)
    assert document["mape_train"] < 2 and document["mape_held_out"] < 2
    assert document["rows_train"] == 54 and document["rows_held_out"] == 18
    assert document["parameters"]["backward_s"] == pytest.approx(0.1, rel=0.2)
    assert set(document["standard_errors"]) <= set(document["parameters"])


def test_the_model_file_and_the_drawing_are_written(measurements: Path, tmp_path: Path) -> None:
    model, drawing = tmp_path / "model.json", tmp_path / "fit.svg"
    told = call(main, "fit", measurements, "--hold-out", "gpus>6", "-o", model, "--plot", drawing)
    assert told.code == 0, told.err
    assert "held out" in told.out and "+-" in told.out
    assert json.loads(model.read_text())["kind"] == "layer_throughput"
    assert ElementTree.fromstring(drawing.read_text()).tag.endswith("svg")


def test_layer_shares_come_from_their_file(measurements: Path, tmp_path: Path) -> None:
    layers = tmp_path / "layers.csv"
    rows = [f"{k},{1 - k / 10},{1.5 - k},{1 - k / 20}" for k in range(10)]
    header = "frozen_layers,param_frac_unfrozen,flop_frac_unfrozen,activation_frac_unfrozen"
    layers.write_text("\n".join([header, *rows, "TOTAL,100,200,300"]) + "\n")
    told = call(main, "fit", measurements, "--layers", layers)
    assert told.code == 0, told.err
    assert "backward work by layers, parameters by param_frac_unfrozen, 10 layers" in told.out
    assert "not used, values outside 0..1: flop_frac_unfrozen" in told.out


@pytest.mark.parametrize(
    ("arguments", "text", "code", "message"),
    [
        ([], "placement,local_bsz\n1,8\n", 3, "step_time: is no column"),
        ([], "placement,local_bsz,step_time,frozen_layer\n1,8,nan,0\n", 3, "line 2, step_time: must be"),
        ([], "\xff", 3, "is no UTF-8 text"),
        (
            ["--hold-out", "colour=3"],
            "placement,local_bsz,step_time,frozen_layer\n1,8,1,0\n",
            2,
            "hold out as",
        ),
        ([], "placement,local_bsz,step_time,frozen_layer\n1,8,1,0\n", 2, "cannot determine"),
        (["-o", "/nowhere/at/all/model.json"], "", 2, "its folder does not exist"),
    ],
)
def test_a_wrong_input_is_one_clear_error(arguments: list[str], text: str, code: int, message: str) -> None:
    told = call(main, "fit", "-", *arguments, stdin=text.encode("latin-1"))
    assert told.code == code
    assert message in told.err
    assert "Traceback" not in told.err
    assert not told.out


def test_bert_from_its_files(data: Path) -> None:
    folder = data / "layer_freezing"
    told = call(
        main,
        "fit",
        folder / "frozen_throughput" / "bert_wikitext2_placements.csv",
        "--layers",
        folder / "layer_stats" / "bert_wikitext2_app_info.csv",
        "--hold-out",
        "gpus>6",
        "--json",
    )
    assert json.loads(told.out)["mape_held_out"] < 3
