"""Relative speeds from models alike: exact on twins, better than guessing on measured tables."""

from __future__ import annotations

import csv
import importlib.util
import io
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import apportion
from apportion.cli.predict import command
from apportion.cli.running import run
from apportion.cluster.estimation.model_similarity import held_out, read_reference
from apportion.cluster.estimation.similarity import ModelSignature, SimilarityPredictor, family_of


def zoo(seed: int, size: int) -> tuple[list[ModelSignature], np.ndarray]:
    """Models whose speed follows their family and their arithmetic intensity."""
    rng = np.random.default_rng(seed)
    families = ["resnet", "vgg", "vit", "mobilenet"]
    signatures, speeds = [], []
    for number in range(size):
        family = int(rng.integers(4))
        gmacs, acts, params = (float(value) for value in rng.lognormal([1.0, 2.0, 3.0], 0.5))
        signatures.append(
            ModelSignature(f"{families[family]}{number}", families[family], gmacs, acts, params)
        )
        noise = float(rng.normal(0.0, 0.01))
        speeds.append([1.0, 1.2 + 0.3 * family + 0.1 * np.log(gmacs / acts) + noise])
    return signatures, np.array(speeds)


def test_a_known_model_is_its_own_nearest_neighbour() -> None:
    signatures, speeds = zoo(1, 40)
    predictor = SimilarityPredictor(neighbours=1).fit(signatures, speeds)
    for signature, speed, told in zip(signatures, speeds, predictor.predict(signatures), strict=True):
        assert told.neighbours == (signature.name,)
        assert told.speed == pytest.approx(speed)
        assert told.distances[0] == 0.0


@pytest.mark.parametrize("size", [40, 200])
def test_similarity_beats_guessing(size: int) -> None:
    signatures, speeds = zoo(2, size)
    text = "model,infer_gmacs,infer_macts,param_count,base,target\n" + "\n".join(
        f"{s.name},{s.gmacs},{s.mactivations},{s.mparams},1.0,{v[1]}"
        for s, v in zip(signatures, speeds, strict=True)
    )
    table = read_reference(text, "base", "target")
    error = held_out(table)
    assert error.models == size
    assert error.mape < 0.5 * error.mape_median_guess


def test_lacking_attributes_do_not_count() -> None:
    signatures, speeds = zoo(3, 30)
    bare = [ModelSignature(s.name, s.family) for s in signatures]
    told = SimilarityPredictor(neighbours=3).fit(bare, speeds).predict([ModelSignature("new", "vgg")])[0]
    assert np.isfinite(told.speed).all()
    assert all(name.startswith("vgg") for name in told.neighbours)


def test_scaling_a_feature_changes_nothing_but_its_unit() -> None:
    signatures, speeds = zoo(4, 50)
    in_mega = [
        ModelSignature(s.name, s.family, 1e6 * (s.gmacs or 0), s.mactivations, s.mparams) for s in signatures
    ]
    one = SimilarityPredictor().fit(signatures[1:], speeds[1:]).predict(signatures[:1])[0]
    two = SimilarityPredictor().fit(in_mega[1:], speeds[1:]).predict(in_mega[:1])[0]
    assert one.speed == pytest.approx(two.speed, rel=1e-2)


def test_the_family_is_the_leading_letters() -> None:
    assert family_of("ResNet50d") == "resnet"
    assert family_of("7net") == "7net"


@pytest.mark.parametrize(
    ("kwargs", "field"), [({"neighbours": 0}, "neighbours"), ({"family_weight": -1.0}, "family_weight")]
)
def test_bad_options_are_named(kwargs: dict[str, Any], field: str) -> None:
    with pytest.raises(apportion.InvalidOption, match=field):
        SimilarityPredictor(**kwargs)


def test_the_command_prints_its_error_and_one_model(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [f"net{n},{n}.0,2.0,3.0,{10 * n},{12 * n}" for n in range(1, 9)] + ["net99,9.0,2.0,3.0,,"]
    head = "model,infer_gmacs,infer_macts,param_count,k80,v100\n"
    table.write_text(head + "\n".join([*rows, rows[0]]), encoding="utf-8")
    base = ["--reference", str(table), "--target-column", "v100", "--base-column", "k80", "--json"]
    runner = CliRunner()
    error = json.loads(runner.invoke(command, [*base, "--leave-one-out"]).output)
    assert error["models"] == 8
    assert error["mape"] < 1e-9
    told = json.loads(runner.invoke(command, [*base, "--model", "net99"]).output)
    assert told["relative_speed"] == pytest.approx(1.2)
    assert told["measured"] is None
    assert len(told["neighbours"]) == 3


def test_a_missing_column_is_named() -> None:
    with pytest.raises(apportion.InvalidInstance, match="v100"):
        read_reference("model,k80\na,1\n", "k80", "v100")
    with pytest.raises(apportion.InvalidInstance, match="line 2, k80"):
        read_reference("model,k80,v100\na,fast,1\n", "k80", "v100")


HEAD = "model,infer_gmacs,infer_macts,param_count,a,b"


def table_of(*rows: str, head: str = HEAD) -> str:
    return "\n".join((head, *rows)) + "\n"


ODD = {
    "two rows": table_of("x1,1,2,3,10,20", "y1,4,5,6,10,30"),
    "one family": table_of(*(f"net{n},{n},2,3,10,{10 + n}" for n in range(1, 6))),
    "constant columns": table_of(*(f"f{'abc'[n % 3]}{n},1,1,1,10,20" for n in range(6))),
    "nothing known": table_of(*(f"{'abc'[n % 3]}{n},,,,10,{11 + n}" for n in range(6))),
    "missing speeds": table_of(
        "x1,1,2,3,10,20", "x2,1,2,3,,20", "x3,1,2,3,0,20", "x4,1,2,3,9,nan", "y1,,,,7,9"
    ),
    "huge scales": table_of(*(f"x{n},1e30{n},1e-200,{n}e18,1e-20{n},3e-20{n}" for n in range(1, 6))),
    "duplicates": table_of("x1,1,2,3,,20", "x1,1,2,3,10,20", "x1,9,9,9,1,1", "y1,1,2,3,5,20", ",1,1,1,1,1"),
    "windows": "\ufeff" + table_of("x1,1,2,3,10,20", "y1,4,5,6,10,30").replace("\n", "\r\n"),
    "quoted": table_of('"x 1, half",1,2,3,10,20', "y1,4,5,6,10,30,,", "z1,4"),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("by_family", [False, True])
def test_odd_tables_are_read_and_predicted(
    name: str, by_family: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(ODD[name], encoding="utf-8", newline="")
    arguments = ["--reference", str(path), "--target-column", "b", "--base-column", "a", "--json"]
    code = run(command, "predict", [*arguments, "--leave-one-family-out"] if by_family else arguments)
    told = capfd.readouterr()
    if by_family and name in ("one family", "huge scales"):
        assert code == 3
        assert "family" in told.err
        return
    assert code == 0, told.err
    error = json.loads(told.out)
    assert error["models"] >= 2
    assert 0.0 <= error["mape"] < 1e6
    table = read_reference(ODD[name], "a", "b")
    for signature in (*table.signatures, *table.unmeasured):
        assert run(command, "predict", [*arguments, "--model", signature.name]) == 0
        one = json.loads(capfd.readouterr().out)
        low, high = min(table.ratio), max(table.ratio)
        assert low * (1 - 1e-9) <= one["relative_speed"] <= high * (1 + 1e-9)
        assert one["spread"] >= 0.0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "line 1: is empty"),
        (
            table_of("x,1,2,3,4"),
            "b: needs at least two|a, b: needs at least two models with both speeds, has 0",
        ),
        (table_of("x,1,2,3,-4,5", "y,1,2,3,4,5"), "line 2, a: must be a number of at least 0, not '-4'"),
        (table_of("x,1,2,3,4,5", "y,1,2,3,4,inf"), "line 3, b"),
        (table_of("x,-1,2,3,4,5", "y,1,2,3,4,5"), "line 2, infer_gmacs"),
        (table_of("x,1,2,3,1e-300,1e300", "y,1,2,3,4,5"), "line 2, b: is 1e\\+300 where a is 1e-300"),
        (table_of("x,1,2,3,4,5", head=HEAD + ",b"), "line 1: the header has b more than once"),
        (table_of("x,1,2,3,4,5,9", head=HEAD + ",infer_gmacs"), "the header has infer_gmacs more than once"),
        (table_of('x,"1', "y,1,2,3,4,5"), "is no CSV table"),
        (table_of("x,1,2,3,fast,5", "y,one,2,3,4,5"), "line 2, a: .*line 3, infer_gmacs"),
    ],
)
def test_a_wrong_table_is_one_clear_error(text: str, named: str) -> None:
    with pytest.raises(apportion.InvalidInstance, match=named) as caught:
        read_reference(text, "a", "b")
    assert caught.value.exit_code == 3


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(apportion.InvalidInstance, match=r"net\.gmacs"):
        ModelSignature("net", "net", gmacs=-1.0)


@pytest.mark.parametrize("size", [1, 2, 9, 30, 150])
def test_the_order_of_the_table_decides_nothing(size: int) -> None:
    signatures, speeds = zoo(5, size)
    asked = [ModelSignature("new", "alien", 1.0, 2.0, 3.0), ModelSignature("bare", "vgg"), *signatures]
    order = np.random.default_rng(1).permutation(size)
    one = SimilarityPredictor().fit(signatures, speeds).predict(asked)
    two = SimilarityPredictor().fit([signatures[i] for i in order], speeds[order]).predict(asked)
    for first, second in zip(one, two, strict=True):
        assert first.neighbours == second.neighbours
        assert first.speed == pytest.approx(second.speed, rel=1e-9)
        assert first.spread == pytest.approx(second.spread, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("size", [12, 150])
def test_scaling_speeds_scales_predictions(size: int) -> None:
    signatures, speeds = zoo(6, size)
    one = SimilarityPredictor().fit(signatures[2:], speeds[2:]).predict(signatures[:2])
    two = SimilarityPredictor().fit(signatures[2:], 1e6 * speeds[2:]).predict(signatures[:2])
    for first, second in zip(one, two, strict=True):
        assert 1e6 * first.speed == pytest.approx(second.speed, rel=1e-9)
        assert first.spread == pytest.approx(second.spread, rel=1e-6, abs=1e-9)


def test_strangers_are_told_to_be_uncertain() -> None:
    rng = np.random.default_rng(7)
    signatures, ratio = [], []
    for number in range(40):
        gmacs, acts, params = (float(value) for value in rng.lognormal(0.0, 1.0, 3))
        signatures.append(ModelSignature(f"n{number}", f"family{number // 4}", gmacs, acts, params))
        ratio.append([1.0 + 0.5 * (number // 4 % 2)])
    fitted = SimilarityPredictor().fit(signatures, ratio)
    alien = fitted.predict([ModelSignature("new", "alien", 1.0, 1.0, 1.0)])[0]
    friend = fitted.predict([ModelSignature("new", "family1", 1.0, 1.0, 1.0)])[0]
    assert friend.speed == pytest.approx([1.5])
    assert alien.spread[0] > 5 * friend.spread[0]
    assert len(alien.neighbours) == 3 * len(friend.neighbours)


def test_the_spread_covers_what_it_says() -> None:
    signatures, speeds = zoo(8, 90)
    inside = []
    for held in range(90):
        rest = [i for i in range(90) if i != held]
        fitted = SimilarityPredictor().fit([signatures[i] for i in rest], speeds[rest])
        told = fitted.predict([signatures[held]])[0]
        inside.append(abs(np.log(speeds[held, 1] / told.speed[1])) <= told.spread[1])
    assert 0.55 <= np.mean(inside) <= 0.95


def test_any_two_timm_files_can_be_joined(data: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        "join_timm", Path(__file__).parents[2] / "examples" / "join_timm.py"
    )
    assert spec is not None
    assert spec.loader is not None
    join = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(join)
    files = sorted((data / "timm").glob("benchmark-*.csv"))
    for target, base in itertools.permutations(files, 2):
        written = io.StringIO()
        writer = csv.DictWriter(written, join.COLUMNS)
        writer.writeheader()
        writer.writerows(join.joined(target, base))
        table = read_reference(written.getvalue(), "base_speed", "target_speed")
        assert len(table.signatures) > 500


@pytest.mark.slow
def test_error_on_timm_is_below_the_published_one(data: Path) -> None:
    files = [f"benchmark-infer-amp-nchw-pt240-cu124-rtx{gpu}.csv" for gpu in (4090, 3090)]
    script = Path(__file__).parents[2] / "examples" / "join_timm.py"
    paths = [str(data / "timm" / name) for name in files]
    joined = subprocess.run(
        [sys.executable, str(script), *paths], capture_output=True, text=True, check=True
    ).stdout
    table = read_reference(joined, "base_speed", "target_speed")
    one, family = held_out(table), held_out(table, by_family=True)
    assert one.models == 1127
    assert one.mape < 3.0
    assert family.mape < 7.0
    assert one.mape_median_guess == pytest.approx(9.23, abs=0.01)
