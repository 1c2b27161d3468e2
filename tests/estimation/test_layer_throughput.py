"""Layer-aware throughput: its shape, what a fit recovers, and how well it tells measured steps."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster.estimation.fitting import FittedModel, fit, parse_hold_out
from apportion.cluster.estimation.layer_throughput import LayerThroughput, SynchronisationLaw
from apportion.cluster.estimation.measured_steps import MeasuredSteps, read_layers, read_steps
from apportion.cluster.estimation.throughput_fit import Steps, _terms, fit_throughput
from apportion.core.errors import InvalidInstance, InvalidOption
from tests.budgets import examples

TRUE = LayerThroughput(
    forward_s=0.02,
    forward_s_per_sample=0.006,
    backward_s=0.1,
    backward_s_per_sample=0.004,
    node_s=0.12,
    node_growth_s=0.05,
    network_s=0.2,
    network_growth_s=0.3,
    fixed_sync_share=0.6,
    overlap=2.0,
)
PARAMETERS = st.floats(1e-4, 2.0)


def _grid(noise: float, seed: int = 0) -> Steps:
    g, n, m, k = (
        axis.ravel() for axis in np.meshgrid([1, 2, 4, 8], [1, 2], [4, 16, 64], np.linspace(0, 0.9, 5))
    )
    kept = g >= n
    g, n, m, k = g[kept].astype(float), n[kept].astype(float), m[kept].astype(float), k[kept]
    u, rho = 1.0 - k, 1.0 - k**2
    rng = np.random.default_rng(seed)
    seconds = TRUE.step_time(g, n, m, u, rho) * np.exp(rng.normal(0.0, noise, g.size))
    return Steps(g, n, m, seconds, u, rho)


def test_a_fit_recovers_what_made_the_steps() -> None:
    found = fit_throughput(_grid(0.0))
    assert found.train.mape < 0.01
    for name, value in found.model.as_json().items():
        if isinstance(value, float):
            assert value == pytest.approx(getattr(TRUE, name), rel=0.02)


def test_standard_errors_cover_the_truth_and_shrink_with_the_noise() -> None:
    loud, quiet = fit_throughput(_grid(0.05)), fit_throughput(_grid(0.005))
    for name, error in quiet.standard_error.items():
        louder = loud.standard_error[name]
        assert error is not None and louder is not None
        assert error < louder
        assert abs(getattr(quiet.model, name) - getattr(TRUE, name)) < 5 * error


def test_a_few_wild_rows_do_not_move_the_fit() -> None:
    steps = _grid(0.01)
    steps.seconds[::17] *= 3.0
    found = fit_throughput(steps)
    clean = np.delete(np.arange(steps.seconds.size), np.s_[::17])
    error = np.abs(steps.predicted(found.model) / steps.seconds - 1.0)[clean]
    assert np.median(error) < 0.015
    assert found.train.outliers >= steps.seconds[::17].size - 1


def test_what_no_row_tells_is_absent_and_refused() -> None:
    steps = _grid(0.0)
    found = fit_throughput(steps.where(steps.gpus == 1))
    assert found.model.network_s is None and found.model.overlap is None
    with pytest.raises(InvalidOption, match="several nodes"):
        found.model.step_time(4, 2, 8)
    with pytest.raises(InvalidOption, match="cached"):
        found.model.step_time(1, 1, 8, cached_forward=0.5)


def test_cached_activations_are_fitted_and_save_time() -> None:
    cached = LayerThroughput(0.02, 0.006, 0.05, 0.004, cache_s_per_sample=0.0005)
    m, k = (axis.ravel() for axis in np.meshgrid([4.0, 16.0, 64.0], [0.0, 0.3, 0.6]))
    one = np.ones(m.size)
    seconds = cached.step_time(one, one, m, 1 - k, 1 - k, cached_forward=k)
    found = fit_throughput(Steps(one, one, m, seconds, 1 - k, 1 - k, k))
    assert found.model.cache_s_per_sample == pytest.approx(0.0005, rel=0.05)
    assert cached.step_time(1, 1, 64, 0.4, 0.4, cached_forward=0.6) < cached.step_time(1, 1, 64, 0.4, 0.4)


@given(
    st.lists(PARAMETERS, min_size=8, max_size=8),
    st.floats(0, 1),
    st.floats(1, 10),
    st.integers(1, 64),
    st.integers(1, 8),
    st.integers(1, 256),
    st.integers(0, 3),
    st.lists(st.floats(0, 1), min_size=2, max_size=6),
    st.sampled_from(["ring", "linear"]),
)
def test_throughput_never_rises_with_what_is_kept(
    values: list[float],
    share: float,
    overlap: float,
    gpus: int,
    nodes: int,
    batch: int,
    accumulation: int,
    kept: list[float],
    law: SynchronisationLaw,
) -> None:
    model = LayerThroughput(*values, share, overlap, law=law)
    u = np.sort(np.array(kept))
    rates = model.throughput(gpus, min(nodes, gpus), batch, u, u, accumulation)
    assert (np.diff(rates) <= 1e-9 * rates[:-1]).all()
    assert np.isfinite(rates).all() and (rates > 0).all()


@pytest.mark.parametrize(("gpus", "nodes", "growth"), [(1, 1, 0.0), (2, 1, 0.1), (6, 1, 0.1 + 4 * 0.01)])
def test_nothing_frozen_and_the_linear_law_is_pollux(gpus: int, nodes: int, growth: float) -> None:
    model = LayerThroughput(0.02, 0.006, 0.1, 0.004, 0.1, 0.01, 0.2, 0.02, 0.5, 2.0, law="linear")
    compute = 0.12 + 0.010 * 16
    pollux = 2 * compute + (compute**2 + growth**2) ** 0.5
    assert model.step_time(gpus, nodes, 16, accumulation=2) == pytest.approx(pollux)


def _bert(data: Path, hold_out: str | None = None, law: SynchronisationLaw = "ring") -> FittedModel:
    folder = data / "layer_freezing"
    steps = read_steps((folder / "frozen_throughput" / "bert_wikitext2_placements.csv").read_text())
    layers = read_layers((folder / "layer_stats" / "bert_wikitext2_app_info.csv").read_text())
    return fit(steps, layers, hold_out, law)


def test_bert_is_told_within_three_percent(data: Path) -> None:
    fitted = _bert(data)
    assert fitted.fit.train.rows == 4140
    assert fitted.unusable == ("flop_frac_unfrozen",)
    assert fitted.fit.train.mape < 2.4


def test_bert_held_out_depths_from_three_profiled_ones(data: Path) -> None:
    fitted = _bert(data, "depth=8,16,24,40,48,56,64")
    assert fitted.held_out is not None and fitted.held_out.rows == 7 * 414
    assert fitted.held_out.mape < 2.5


@pytest.mark.slow
def test_bert_held_out_scales_and_the_law_that_makes_the_difference(data: Path) -> None:
    ring, linear = _bert(data, "gpus>6"), _bert(data, "gpus>6", "linear")
    assert ring.held_out is not None and linear.held_out is not None
    assert ring.held_out.mape < 3.0
    assert 9.0 < linear.held_out.mape < 11.0


@pytest.mark.slow
def test_yolo_on_one_gpu_held_out_depths_despite_noisy_rows(data: Path) -> None:
    folder = data / "layer_freezing"
    steps = read_steps((folder / "frozen_throughput" / "yolov3_voc_placements.csv").read_text())
    layers = read_layers((folder / "layer_stats" / "yolov3_voc_app_info.csv").read_text())
    one = steps.gpus == 1
    alone = MeasuredSteps(
        steps.gpus[one], steps.nodes[one], steps.local_batch[one], steps.seconds[one], steps.depth[one]
    )
    fitted = fit(alone, layers, "depth=9,18,27,45,54,63,72")
    assert fitted.work_share == "activation_frac_unfrozen"
    assert fitted.held_out is not None and fitted.held_out.mape < 4.5
    assert fitted.fit.train.outliers > 0  # 4 samples unfrozen: twice as slow as any neighbour
    every = fit(steps, layers)  # several GPUs: noise all over, not a few wild rows
    assert every.fit.train.outliers >= 10
    assert 10 < every.fit.train.mape < 17


def test_a_wrong_measurement_names_line_and_column() -> None:
    with pytest.raises(InvalidInstance, match="line 1: the header lacks step_time"):
        read_steps("placement,local_bsz,frozen_layer\n1,8,0\n")
    with pytest.raises(InvalidInstance, match="line 3, step_time: must be a number above 0, not 'fast'"):
        read_steps("placement,local_bsz,step_time,frozen_layer\n1,8,0.5,0\n1,8,fast,8\n")
    with pytest.raises(InvalidInstance, match="line 2, placement: must be GPUs on each node"):
        read_steps("placement,local_bsz,step_time,frozen_layer\n04,8,0.5,0\n")
    with pytest.raises(InvalidInstance, match="holds no row"):
        read_steps("placement,local_bsz,step_time,frozen_layer\n")
    with pytest.raises(InvalidInstance, match="frozen_layers: must rise"):
        read_layers("frozen_layers,param_frac_unfrozen\n0,1\n")
    spread = read_steps('placement,local_bsz,step_time,frozen_layer\n"8,8",8,0.5,0\n421,8,0.5,0\n')
    assert spread.gpus.tolist() == [16, 7] and spread.nodes.tolist() == [2, 3]


def test_hold_out_is_read_or_refused() -> None:
    assert parse_hold_out("depth=16, 24") == ("depth", "=", (16.0, 24.0))
    assert parse_hold_out("gpus>6") == ("gpus", ">", (6.0,))
    for wrong in ("depth", "depth>1,2", "colour=3", "gpus=", "gpus=1..2"):
        with pytest.raises(InvalidOption, match="hold out as"):
            parse_hold_out(wrong)
    steps = read_steps("placement,local_bsz,step_time,frozen_layer\n1,8,0.5,0\n")
    with pytest.raises(InvalidOption, match="holds out every row"):
        fit(steps, hold_out="gpus=1")
    with pytest.raises(InvalidInstance, match="cannot determine"):
        fit(steps)
    with pytest.raises(InvalidOption, match="law must be one of ring, linear"):
        fit(steps, law="star")  # type: ignore[arg-type]


@pytest.mark.parametrize("law", ["ring", "linear"])
@given(point=st.lists(st.floats(0.01, 3.0), min_size=11, max_size=11), cached=st.booleans())
@settings(max_examples=examples(40))
def test_the_fit_sees_the_model_and_its_true_slopes(
    law: SynchronisationLaw, point: list[float], cached: bool
) -> None:
    rows = _grid(0.0)
    steps = replace(rows, cached_forward=1.0 - rows.work) if cached else rows
    names = [field.name for field in fields(LayerThroughput) if field.name != "law"][: 11 if cached else 10]
    values = dict(zip(names, point, strict=False)) | {
        "fixed_sync_share": point[8] / 4,
        "overlap": 1 + point[9],
    }
    told, slopes = _terms(names, steps, law).log_time(values)
    np.testing.assert_allclose(
        told, np.log(steps.predicted(LayerThroughput(**values, law=law))), rtol=1e-9, atol=1e-12
    )
    for name in names:
        by_itself = name in ("fixed_sync_share", "overlap")
        step = 1e-5 if by_itself else 1e-5 * values[name]
        up, down = (
            np.log(steps.predicted(LayerThroughput(**(values | {name: values[name] + side}), law=law)))
            for side in (step, -step)
        )
        np.testing.assert_allclose(slopes[name], (up - down) / 2e-5, rtol=1e-3, atol=1e-5)


def test_growth_that_no_row_determines_is_that_of_a_ring() -> None:
    steps = _grid(0.0)
    found = fit_throughput(steps.where(steps.gpus <= 2)).model
    assert found.node_growth_s is None and found.node_s is not None
    told = LayerThroughput(**{**found.as_json(), "node_growth_s": found.node_s})
    assert found.step_time(8, 1, 16) == told.step_time(8, 1, 16) > found.step_time(2, 1, 16)
    pollux = fit_throughput(steps.where(steps.gpus <= 2), "linear").model
    assert pollux.step_time(8, 1, 16) == pollux.step_time(2, 1, 16)
