"""Step times by depth and gradient statistics by phase of a network, as a freezing profile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from apportion.cluster.estimation.fitting import fitted_profile, retained_progress
from apportion.cluster.estimation.measured_steps import LayerShares, MeasuredSteps
from apportion.cluster.estimation.training.freezing_profile import FreezingFile
from paper_repro.accuracy.networks import NETWORKS, atomic, freeze, optimizer

__all__ = ["BATCH", "measured_profile"]

BATCH = 64
_PHASES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
_DRAWS = 12
_REPEATS, _ROUNDS = 6, 12

Data = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def measured_profile(
    name: str, data: Data, steps: int, seed: int, clock: Callable[[], float]
) -> FreezingFile:
    """Return the profile of a network from a pilot training of `steps` steps that no other run shares."""
    torch.manual_seed(seed)
    model = NETWORKS[name]().to(data[0].device)
    taught = optimizer(name, model)
    layers = len(atomic(model))
    psi = []
    at = {int(phase * steps) for phase in _PHASES}
    for step in range(steps):
        if step in at:
            psi.append(retained_progress(*_gradients(model, data)))
        _step(model, taught, data)
    penalty = np.array(_PHASES), np.array(psi)
    share = LayerShares(layers, np.arange(layers), {"param_frac_unfrozen": _unfrozen(model)}, ())
    source = f"{_ROUNDS} x {_REPEATS} steps a depth and batch, {_DRAWS} gradients a phase, pilot seed {seed}"
    return fitted_profile(name, _timed(name, data, layers, clock), share, penalty, source)


def _step(model: nn.Module, taught: torch.optim.Optimizer, data: Data, batch: int = BATCH) -> None:
    pick = torch.randint(0, len(data[1]), (batch,), device=data[0].device)
    taught.zero_grad()
    nn.functional.cross_entropy(model(data[0][pick]), data[1][pick]).backward()
    taught.step()


def _gradients(model: nn.Module, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return squared norm and variance of every layer's gradient at the batch trained with, unbiased."""
    drawn = []
    for _ in range(_DRAWS):
        pick = torch.randint(0, len(data[1]), (BATCH,), device=data[0].device)
        model.zero_grad()
        nn.functional.cross_entropy(model(data[0][pick]), data[1][pick]).backward()
        drawn.append(
            [
                torch.cat([w.grad.flatten() for w in layer.parameters() if w.grad is not None])
                for layer in atomic(model)
            ]
        )
    square, noise = [], []
    for layer in range(len(drawn[0])):
        seen = torch.stack([one[layer] for one in drawn]).double()
        variance = float(seen.var(dim=0).sum())
        square.append(max(0.0, float(seen.mean(dim=0).square().sum()) - variance / _DRAWS))
        noise.append(variance)
    return np.array(square), np.array(noise)


def _unfrozen(model: nn.Module) -> np.ndarray:
    counts = np.array(
        [sum(w.numel() for w in layer.parameters()) for layer in atomic(model)], dtype=np.float64
    )
    return np.cumsum(counts[::-1])[::-1] / counts.sum()


def _timed(name: str, data: Data, layers: int, clock: Callable[[], float]) -> MeasuredSteps:
    """Return the least seconds of a step by batch and depth, measured in turn so that noise falls on all."""
    cells = [
        (batch, depth) for batch in (32, 64, 128) for depth in sorted({k * layers // 10 for k in range(10)})
    ]
    least = dict.fromkeys(cells, float("inf"))
    model = NETWORKS[name]().to(data[0].device)
    taught = optimizer(name, model)
    for _ in range(_ROUNDS):
        for batch, depth in cells:
            freeze(model, depth)
            _step(model, taught, data, batch)
            begun = clock()
            for _ in range(_REPEATS):
                _step(model, taught, data, batch)
            least[batch, depth] = min(least[batch, depth], (clock() - begun) / _REPEATS)
    ones = np.ones(len(cells), dtype=np.int64)
    return MeasuredSteps(
        ones,
        ones,
        np.array([batch for batch, _ in cells], dtype=np.float64),
        np.array([least[cell] for cell in cells]),
        np.array([depth for _, depth in cells], dtype=np.int64),
    )
