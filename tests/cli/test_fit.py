"""``apportion fit``: a fitted model from a CSV, its errors, its file and its drawing."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from apportion.cli.main import main
from apportion.cluster.estimation.layer_throughput import LayerThroughput
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


def test_a_column_of_cached_activations_is_fitted(tmp_path: Path) -> None:
    truth = LayerThroughput(0.02, 0.006, 0.05, 0.004, cache_s_per_sample=0.0005)
    lines = ["placement,local_bsz,step_time,frozen_layer,cached_forward"]
    for batch, depth, cached in product((4, 16, 64), (0, 3, 6), (False, True)):
        share, saved = 1.0 - depth / 10, depth / 10 if cached else 0.0
        seconds = truth.step_time(1, 1, batch, share, share, cached_forward=saved)
        lines.append(f"1,{batch},{float(seconds)!r},{depth},{saved or ''}")
    path, layers = tmp_path / "steps.csv", tmp_path / "layers.csv"
    path.write_text("\n".join(lines))
    rows = [f"{depth},{1 - depth / 10}" for depth in range(10)]
    layers.write_text("\n".join(["frozen_layers,param_frac_unfrozen", *rows]))
    done = call(main, "fit", path, "--layers", layers, "--json")
    assert done.code == 0, done.err
    parameters = json.loads(done.out)["parameters"]
    assert parameters["cache_s_per_sample"] == pytest.approx(0.0005, rel=0.1)
    path.write_text(lines[0] + "\n1,4,0.1,0,1.5\n")
    refused = call(main, "fit", path)
    assert refused.code == 3 and "line 2, cached_forward: must be a number from 0 to 1" in refused.err


def test_the_model_file_and_the_drawing_are_written(measurements: Path, tmp_path: Path) -> None:
    model, drawing = tmp_path / "model.json", tmp_path / "fit.svg"
    told = call(main, "fit", measurements, "--hold-out", "gpus>6", "-o", model, "--plot", drawing)
    assert told.code == 0, told.err
    assert "held out" in told.out and "+-" in told.out
    assert json.loads(model.read_text())["kind"] == "layer_throughput"
    assert ElementTree.fromstring(drawing.read_text()).tag.endswith("svg")


def test_the_drawing_is_a_page_or_refused_by_its_name(measurements: Path, tmp_path: Path) -> None:
    assert call(main, "fit", measurements, "--plot", tmp_path / "fit.html").code == 0
    assert (tmp_path / "fit.html").read_text().startswith("<!doctype html>")
    told = call(main, "fit", measurements, "--plot", tmp_path / "fit.gif")
    assert told.code == 2 and "FILE.svg, .html, .png or .pdf" in told.err


def test_layer_shares_come_from_their_file(measurements: Path, tmp_path: Path) -> None:
    layers = tmp_path / "layers.csv"
    rows = [f"{k},{1 - k / 10},{1.5 - k},{1 - k / 20}" for k in range(10)]
    header = "frozen_layers,param_frac_unfrozen,flop_frac_unfrozen,activation_frac_unfrozen"
    layers.write_text("\n".join([header, *rows, "TOTAL,100,200,300"]) + "\n")
    told = call(main, "fit", measurements, "--layers", layers)
    assert told.code == 0, told.err
    assert "backward work by layers, parameters by param_frac_unfrozen, 10 layers" in told.out
    assert "not used, not falling from 1 towards 0: flop_frac_unfrozen" in told.out


HEADER = "placement,local_bsz,step_time,frozen_layer\n"
ROWS = "".join(
    f"{place},{batch},{batch / 10},{depth}\n"
    for place, batch, depth in product((1, 2), (4, 8, 16), (0, 2, 4))
    if (place, batch) != (2, 4)
)


@pytest.mark.parametrize(
    ("arguments", "text", "code", "message"),
    [
        (
            [],
            "placement,local_bsz\n1,8\n",
            3,
            "line 1: the header lacks step_time, frozen_layer; it reads placement,local_bsz",
        ),
        ([], "placement,local_bsz,step_time,frozen_layer\n1,8,nan,0\n", 3, "line 2, step_time: must be"),
        ([], "\xff", 3, "is no UTF-8 text"),
        (
            ["--hold-out", "colour=3"],
            "placement,local_bsz,step_time,frozen_layer\n1,8,1,0\n",
            2,
            "hold out as",
        ),
        ([], HEADER + "1,8,1,0\n", 3, "cannot determine"),
        ([], HEADER + "1,8,1,0,9\n", 3, "line 2: has 5 cells, the header 4"),
        ([], HEADER + "1,8\n", 3, "line 2, step_time: must be a number above 0, not ''"),
        ([], HEADER + "1,8,-1,0\n", 3, "line 2, step_time: must be a number above 0, not '-1'"),
        ([], HEADER + "1,8,1e300,0\n", 3, "line 2, step_time: must be from 1e-9 to 1e9"),
        ([], HEADER + "1,8,1,1e30\n", 3, "line 2, frozen_layer: must be a whole number from 0 to"),
        ([], HEADER + "1,1_0,1,0\n", 3, "line 2, local_bsz: must be a number above 0"),
        ([], HEADER + '"999999999,1",8,1,0\n', 3, "line 2, placement: must be GPUs on each node"),
        ([], HEADER + f"1,{'8' * 200_000},1,0\n", 3, "line 2: is no CSV"),
        ([], HEADER.replace(",", ";"), 3, "cells must be separated by commas"),
        ([], HEADER.replace("local_bsz", "step_time"), 3, "the header lacks local_bsz"),
        ([], "sync_time," + HEADER + "-3,1,8,1,0\n", 3, "line 2, sync_time: must be a number from 0 on"),
        ([], "step_time," + HEADER + "1,1,8,1,0\n", 3, "line 1: the header has step_time more than once"),
        ([], HEADER, 3, "holds no row"),
        (["--hold-out", "depth=3"], HEADER + ROWS, 2, "'depth=3' holds out no row"),
        (["--hold-out", "depth<9"], HEADER + ROWS, 2, "'depth<9' holds out every row"),
        (["--hold-out", "gpus>1"], HEADER + ROWS, 2, "'gpus>1' cannot be judged: among the other rows, no"),
        (["--hold-out", "batch>4"], HEADER + ROWS, 2, "without the rows of 'batch>4': 3 row(s) cannot"),
        (["-o", "/nowhere/at/all/model.json"], "", 2, "its folder does not exist"),
    ],
)
def test_a_wrong_input_is_one_clear_error(arguments: list[str], text: str, code: int, message: str) -> None:
    told = call(main, "fit", "-", *arguments, stdin=text.encode("latin-1"))
    assert told.code == code
    assert message in told.err
    assert "Traceback" not in told.err
    assert not told.out


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n\n"])
def test_foreign_line_ends_marks_and_columns_are_read(measurements: Path, ending: str) -> None:
    plain = measurements.read_text()
    foreign = "\ufeff" + plain.replace(",frozen_layer", ", frozen_layer ,größe").replace(
        "\n", ",ü\n"
    ).replace("größe,ü", "größe").replace("\n", ending)
    told = call(main, "fit", "-", "--json", stdin=foreign.encode())
    assert told.code == 0, told.err
    assert json.loads(told.out) == json.loads(call(main, "fit", measurements, "--json").out)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            "frozen_layers,param_frac_unfrozen\n0,1\n4,.5\n",
            "measurement 4, frozen_layer: 9 exceeds the 5 layers",
        ),
        (
            "frozen_layers,param_frac_unfrozen\n0,1\n9,\n",
            "line 3, param_frac_unfrozen: must be a number, not ''",
        ),
        ("frozen_layers\n9\n", "frozen_layers: must rise from 0"),
    ],
)
def test_a_wrong_layer_file_is_one_clear_error(
    measurements: Path, tmp_path: Path, layers: str, message: str
) -> None:
    path = tmp_path / "layers.csv"
    path.write_text(layers)
    told = call(main, "fit", measurements, "--layers", path)
    assert told.code == 3
    assert message in told.err


def test_shares_that_rise_with_the_depth_are_not_used(measurements: Path, tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text("frozen_layers,activation_frac_unfrozen,param_frac_unfrozen\n0,1,1\n5,.2,.6\n9,.3,.1\n")
    document = json.loads(call(main, "fit", measurements, "--layers", path, "--json").out)
    assert document["unusable_columns"] == ["activation_frac_unfrozen"]
    assert document["work_share"] == "layers" and document["parameter_share"] == "param_frac_unfrozen"


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
