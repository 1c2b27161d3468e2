"""From a fitted model to a solved round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import apportion
from apportion.cluster.estimation.fitting import fit
from apportion.cluster.estimation.layer_throughput import LayerThroughput
from apportion.cluster.estimation.measured_steps import read_layers, read_steps
from apportion.cluster.estimation.menu_reference import menu_rows
from apportion.core.errors import InvalidOption

MODEL = LayerThroughput(0.02, 0.006, 0.1, 0.004, 0.1, 0.2, 0.12, 0.2, 0.8, 1.9)


def test_rows_hold_what_the_models_say() -> None:
    rows = menu_rows(MODEL, "v100", [1, 8], 4, 16, [0, 5], [1.0, 0.5], [1.0, 0.7], [0.0, 0.1], [1.0, 0.5])
    assert [row["gpus"] for row in rows] == [1, 8]
    assert all(row["depths"] == [0, 5] and row["penalty_millionths"] == [0, 100_000] for row in rows)
    expected = float(MODEL.throughput(8, 2, 16, 0.5, 0.7)) * 0.5 * 0.9
    assert rows[1]["effective_progress"][1] == pytest.approx(expected)
    with pytest.raises(InvalidOption, match="per depth"):
        menu_rows(MODEL, "v100", [1], 4, 16, [0, 5], [1.0], [1.0], [0.0])


@pytest.mark.slow
def test_bert_is_frozen_where_it_is_alone_and_the_penalty_is_mild(data: Path) -> None:
    folder = data / "layer_freezing"
    layers = read_layers((folder / "layer_stats" / "bert_wikitext2_app_info.csv").read_text())
    fitted = fit(
        read_steps((folder / "frozen_throughput" / "bert_wikitext2_placements.csv").read_text()), layers
    )
    depths = np.arange(0, 80, 8)
    rows = menu_rows(
        fitted.fit.model,
        "v100",
        [1, 4, 16],
        4,
        64,
        depths.tolist(),
        layers.at(fitted.work_share, depths),
        layers.at(fitted.parameter_share, depths),
        0.5 * (depths / layers.layers) ** 1.5,
    )
    gain = [max(row["effective_progress"]) / row["effective_progress"][0] for row in rows]
    assert gain[0] > gain[1] > gain[2] >= 1.0  # freezing is worth most on few GPUs
    best = [int(np.argmax(row["effective_progress"])) for row in rows]
    assert 0 < best[0] < len(depths) - 1
    assert best[0] >= best[1] >= best[2]
    instance = {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": {"v100": 1},
        "round_s": 60.0,
        "jobs": [{"id": "bert", "layers": layers.layers, "menu": rows}],
    }
    chosen = apportion.solve(apportion.read(instance)).require()["configuration"]["bert"]
    assert chosen == {"gpu_type": "v100", "gpus": 1, "depth": int(depths[best[0]])}
