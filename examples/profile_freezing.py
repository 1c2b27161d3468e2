"""Measure a PyTorch training step at several frozen depths: ``python examples/profile_freezing.py FOLDER``.

Writes ``FOLDER/steps.csv``, ``FOLDER/layers.csv`` and ``FOLDER/gradients.csv`` for ``apportion fit``. The
model is a small convolutional network; put your own into `network`. Gradients are those of a short training
on made-up images: put your own data into `batch_of`, or what freezing costs is that of learning noise by
heart. Runs on one GPU where there is one, else on the CPU. Every time is the least of several, spread over
the whole run, so that a busy machine disturbs few of them.
Needs PyTorch, which is no dependency of this package: ``pip install 'apportion[torch]'``.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

try:
    import torch
    from torch import nn
except ImportError as error:
    raise SystemExit(
        f"profile_freezing.py measures PyTorch, which is not here ({error}); pip install 'apportion[torch]'"
    ) from None

BATCHES = (8, 16, 32, 64)
DEPTHS = 6
WARM_UP, STEPS, ROUNDS = 1, 3, 5
PHASES, TRAINING, DRAWS = (0.25, 0.5, 0.75), 40, 8
"""Phases of a training of so many steps, and gradients drawn at each."""


def network() -> nn.Sequential:
    """Return the model to measure, as a sequence of layers."""
    widths = (3, 32, 32, 64, 64, 128, 128)
    layers: list[nn.Module] = []
    for index in range(len(widths) - 1):
        stride = 2 if widths[index] != widths[index + 1] and index else 1
        layers += [nn.Conv2d(widths[index], widths[index + 1], 3, stride, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def atomic(model: nn.Module) -> list[nn.Module]:
    """Return the layers that can be frozen, in order."""
    return [layer for layer in model.modules() if isinstance(layer, nn.Conv2d | nn.Linear | nn.BatchNorm2d)]


def freeze(model: nn.Module, depth: int) -> None:
    """Freeze the first layers and train the others."""
    for index, layer in enumerate(atomic(model)):
        layer.requires_grad_(index >= depth)
        layer.train(index >= depth)


def step_seconds(model: nn.Module, batch: int, device: torch.device) -> float:
    """Return the least time of a few optimiser steps."""
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.01)
    images = torch.randn(batch, 3, 32, 32, device=device)
    labels = torch.randint(0, 10, (batch,), device=device)
    measured = []
    for _ in range(WARM_UP + STEPS):
        began = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        measured.append(time.perf_counter() - began)
    return min(measured[WARM_UP:])


def shares(model: nn.Module, device: torch.device) -> list[dict[str, float]]:
    """Return, per depth, what remains unfrozen of parameters, FLOPs and activations."""
    layers = atomic(model)
    outputs: dict[nn.Module, int] = {}
    work: dict[nn.Module, int] = {}

    def note(layer: nn.Module, _: object, output: torch.Tensor) -> None:
        outputs[layer] = output[0].numel()
        weight = getattr(layer, "weight", None)
        positions = output[0].numel() // output.shape[1]
        work[layer] = 0 if weight is None else weight.numel() * positions

    hooks = [layer.register_forward_hook(note) for layer in layers]
    with torch.no_grad():
        model(torch.randn(1, 3, 32, 32, device=device))
    for hook in hooks:
        hook.remove()
    parameters = {layer: sum(weight.numel() for weight in layer.parameters()) for layer in layers}
    rows = []
    for depth in range(len(layers)):
        row: dict[str, float] = {"frozen_layers": depth}
        for column, amount in (("param", parameters), ("flop", work), ("activation", outputs)):
            total = sum(amount[layer] for layer in layers)
            row[f"{column}_frac_unfrozen"] = sum(amount[layer] for layer in layers[depth:]) / total
        rows.append(row)
    return rows


def batch_of(seed: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 32 images and labels; the same for the same seed."""
    draw = torch.Generator().manual_seed(seed)
    images = torch.randn(32, 3, 32, 32, generator=draw)
    return images.to(device), torch.randint(0, 10, (32,), generator=draw).to(device)


def gradients(model: nn.Module, device: torch.device) -> list[dict[str, float]]:
    """Return, per phase and layer, squared norm and variance of the gradient, from several batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows: list[dict[str, float]] = []
    for step in range(TRAINING):
        if step in [int(phase * TRAINING) for phase in PHASES]:
            drawn = []
            for number in range(DRAWS):
                images, labels = batch_of(number, device)
                model.zero_grad()
                nn.functional.cross_entropy(model(images), labels).backward()
                drawn.append(
                    [torch.cat([w.grad.flatten() for w in one.parameters()]) for one in atomic(model)]
                )
            for layer, seen in enumerate(zip(*drawn, strict=True)):
                stacked = torch.stack(seen).double()
                noise = float(stacked.var(dim=0).sum())
                # the squared mean of a few draws holds a part of their variance
                square = max(0.0, float(stacked.mean(dim=0).square().sum()) - noise / DRAWS)
                rows.append({"phase": step / TRAINING, "layer": layer, "grad_sqr": square, "grad_var": noise})
        images, labels = batch_of(step % DRAWS, device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return rows


def main() -> None:
    """Measure and write the files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    folder.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = network().to(device)
    count = len(atomic(model))
    depths = sorted({round(index * (count - 1) / (DEPTHS - 1)) for index in range(DEPTHS)})
    with (folder / "layers.csv").open("w", newline="") as file:
        table = shares(model, device)
        layers = csv.DictWriter(file, list(table[0]))
        layers.writeheader()
        layers.writerows(table)
    with (folder / "gradients.csv").open("w", newline="") as file:
        statistics = gradients(model, device)
        written = csv.DictWriter(file, list(statistics[0]))
        written.writeheader()
        written.writerows(statistics)
    least = {(batch, depth): float("inf") for batch in BATCHES for depth in depths}
    for _ in range(ROUNDS):
        for batch, depth in least:
            freeze(model, depth)
            least[batch, depth] = min(least[batch, depth], step_seconds(model, batch, device))
    with (folder / "steps.csv").open("w", newline="") as file:
        steps = csv.writer(file)
        steps.writerow(["placement", "local_bsz", "step_time", "sync_time", "frozen_layer"])
        steps.writerows([1, batch, f"{least[batch, depth]:.6f}", 0.0, depth] for batch, depth in least)
    print(f"{len(BATCHES) * len(depths)} kinds of step on {device} in {folder / 'steps.csv'}")


if __name__ == "__main__":
    main()
