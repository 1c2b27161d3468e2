"""Relative speeds from models alike: exact on twins, better than guessing on measured tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import apportion
from apportion.cli.predict import command
from apportion.estimation.reference_table import held_out, read_reference
from apportion.estimation.similarity import ModelSignature, SimilarityPredictor, family_of


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
    run = CliRunner()
    error = json.loads(run.invoke(command, [*base, "--leave-one-out"]).output)
    assert error["models"] == 8
    assert error["mape"] < 1e-9
    told = json.loads(run.invoke(command, [*base, "--model", "net99"]).output)
    assert told["relative_speed"] == pytest.approx(1.2)
    assert told["measured"] is None
    assert len(told["neighbours"]) == 3


def test_a_missing_column_is_named() -> None:
    with pytest.raises(apportion.InvalidInstance, match="v100"):
        read_reference("model,k80\na,1\n", "k80", "v100")
    with pytest.raises(apportion.InvalidInstance, match="line 2, k80"):
        read_reference("model,k80,v100\na,fast,1\n", "k80", "v100")
