"""Frozen penalty, effective progress, and memory against depth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster.estimation.fitting import retained_progress
from apportion.cluster.estimation.menu_reference import effective_progress
from apportion.core.errors import InvalidOption

STATISTIC = st.floats(-1.0, 1e6)
LAYERS = st.lists(st.tuples(STATISTIC, STATISTIC), min_size=1, max_size=12)


def statistical_efficiency(square: float, noise: float, scale: float) -> float:
    """Pollux's efficiency (PGNS + M0) / (PGNS + M) at ``scale = M / M0``."""
    total = noise + scale * square
    return 1.0 if total == 0 else (noise + square) / total


@given(LAYERS, st.floats(0, 1), st.floats(0.01, 100))
def test_the_penalty_is_a_share_that_never_falls_with_depth(
    layers: list[tuple[float, float]], theta: float, ratio: float
) -> None:
    square, noise = np.array(layers).T
    for variance in (noise, 0 * noise):
        penalty = theta * (1.0 - retained_progress(square, variance, ratio))
        assert penalty.size == len(layers) + 1
        assert penalty[0] == 0
        assert ((penalty >= 0) & (penalty <= 1)).all()
        assert (np.diff(penalty) >= 0).all()


@given(LAYERS, st.floats(0.1, 64))
def test_with_nothing_frozen_progress_is_the_goodput_of_pollux(
    layers: list[tuple[float, float]], scale: float
) -> None:
    square, noise = np.maximum(np.array(layers).T, 0.0)
    phi = statistical_efficiency(float(square.sum()), float(noise.sum()), scale)
    penalty = 1.0 - retained_progress(square, noise, scale)
    assert effective_progress(123.0, phi, penalty)[0] == 123.0 * phi
    if square.sum() > 1e-290:  # below that Pollux's own quotient overflows
        # Pollux: (PGNS + M0) / (PGNS + M), in units of M0
        pgns = noise.sum() / square.sum()
        assert phi == pytest.approx((pgns + 1.0) / (pgns + scale))


def test_efficiency_times_retained_progress_is_the_gain_of_the_derivation() -> None:
    square, noise = np.array([3.0, 1.0, 4.0]), np.array([10.0, 2.0, 7.0])
    scale = 4.0
    s_u, v_u = 5.0, 9.0 / scale  # the last two layers, at four times the batch
    gain = (s_u**2 / (s_u + v_u)) / (8.0**2 / (8.0 + 19.0)) / scale
    combined = statistical_efficiency(8.0, 19.0, scale) * retained_progress(square, noise, scale)[1]
    assert combined == pytest.approx(gain)


def test_no_gradient_teaches_nothing_wherever_it_is_frozen() -> None:
    assert retained_progress([0.0, 0.0], [1.0, 1.0]).tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(InvalidOption, match="per-layer"):
        retained_progress([float("nan")], [1.0])


# per cent of progress retained at f = .1 ... .9, CIFAR-10 with batch 128: share and psi, computed from these
# statistics by another road and written down before this package
TABLE = {
    ("ResNet18", 0.25): ("89 83 76 68 60 44 33 21 10", "84 76 69 61 53 42 33 32 29"),
    ("ResNet18", 0.50): ("91 86 81 74 67 49 34 20 8", "87 81 76 68 62 49 36 34 27"),
    ("ResNet18", 0.75): ("98 94 89 81 70 49 31 18 7", "99 96 90 80 67 49 35 38 34"),
    ("ResNet50", 0.50): ("95 94 88 80 68 52 31 22 12", "93 93 89 83 73 65 60 51 32"),
    ("ResNet50", 0.75): ("95 93 89 82 70 53 32 20 10", "92 92 89 85 74 66 68 59 35"),
    ("MobileNetV2", 0.75): ("96 93 87 81 73 65 50 33 17", "94 92 89 85 82 80 71 51 50"),
    ("GoogLeNet", 0.50): ("92 87 79 67 57 46 35 24 9", "89 88 85 78 71 63 54 49 29"),
    ("GoogLeNet", 0.75): ("95 90 82 75 65 55 42 30 14", "95 93 90 95 90 87 78 79 63"),
    ("VGG19", 0.50): ("88 74 57 33 24 15 12 10 6", "84 78 74 104 97 77 65 56 33"),
}


@pytest.mark.parametrize(("network", "phase"), TABLE)
def test_measured_networks_retain_what_the_table_says(data: Path, network: str, phase: float) -> None:
    """Statistics averaged over five epochs on either side of the phase; every cell to its two decimals."""
    stored = np.load(data / "layer_freezing" / "layer_stats" / f"cifar10_{network}_bs128.npz")
    middle = int(phase * (len(stored["epoch"]) - 1))
    square, noise = (
        np.maximum(stored[name][middle - 5 : middle + 6].astype(np.float64), 0.0).mean(axis=0)
        for name in ("layer_grad_sqr", "layer_grad_var")
    )
    depths = np.round(np.arange(0.1, 0.95, 0.1) * square.size).astype(int)
    share, psi = (np.array(cells.split(), dtype=np.float64) / 100 for cells in TABLE[network, phase])
    np.testing.assert_allclose(retained_progress(square, np.zeros(square.size))[depths], share, atol=0.0051)
    # the table's psi is as the formula gives it, neither clipped to 1 nor made non-increasing over all depths
    left, noise_left = (np.array([part[k:].sum() for k in range(part.size)]) for part in (square, noise))
    plain = left**2 / (left + noise_left) / (left[0] ** 2 / (left[0] + noise_left[0]))
    np.testing.assert_allclose(plain[depths], psi, atol=0.0051)
    retained = retained_progress(square, noise)
    np.testing.assert_allclose(retained[:-1], [min(1.0, *plain[: k + 1]) for k in range(plain.size)])
    assert retained[-1] == 0.0


def test_freezing_stops_where_it_no_longer_pays() -> None:
    throughput = np.array([100.0, 110.0, 125.0, 150.0])
    none, all_the_way = np.zeros(4), np.array([0.0, 0.2, 0.4, 0.6])
    assert effective_progress(throughput, 1.0, none).argmax() == 3
    assert effective_progress(throughput, 1.0, all_the_way).argmax() == 0
    with pytest.raises(InvalidOption, match="penalty from 0 to 1"):
        effective_progress(1.0, 1.0, 1.5)
