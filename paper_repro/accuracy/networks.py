"""The networks that are trained, their data, and how their first layers are frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import Tensor, nn

__all__ = ["NETWORKS", "atomic", "digits", "freeze", "optimizer"]


class _Transformer(nn.Module):
    """Sixteen patches of 2 x 2 pixels, four encoder layers of width 32."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 32)
        self.place = nn.Parameter(torch.randn(1, 16, 32) * 0.02)
        layers = [nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(4)]
        self.encode = nn.Sequential(*layers)
        self.answer = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        patches = nn.functional.unfold(images, 2, stride=2).transpose(1, 2)
        return self.answer(self.encode(self.embed(patches) + self.place).mean(dim=1))


def _cnn() -> nn.Module:
    widths = (1, 16, 16, 32, 32, 32, 32)
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise(widths)):
        stride = 2 if index == 2 else 1
        layers += [nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


NETWORKS: Mapping[str, Callable[[], nn.Module]] = MappingProxyType({"cnn": _cnn, "transformer": _Transformer})
_ATOMIC = (nn.Conv2d, nn.BatchNorm2d, nn.Linear, nn.MultiheadAttention, nn.LayerNorm)


def atomic(model: nn.Module) -> list[nn.Module]:
    """Return the layers that can be frozen, in order; what is part of an attention is frozen with it."""
    found: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for layer in model.modules():
        if isinstance(layer, _ATOMIC) and layer not in inside:
            found.append(layer)
            inside.update(layer.modules())
    return found


def freeze(model: nn.Module, depth: int) -> None:
    """Freeze the first `depth` layers, statistics of batch normalisation too, and train the others."""
    for index, layer in enumerate(atomic(model)):
        layer.requires_grad_(index >= depth)
        layer.train(index >= depth)
    if isinstance(model, _Transformer):
        model.place.requires_grad_(depth == 0)


def optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """Return stochastic gradient descent with momentum for the CNN, Adam for the transformer."""
    if name == "cnn":
        return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def digits(device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training images and labels, and those of the test: 1,197 and 600 of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1).div(16).to(device)
    labels = torch.tensor(found.target, dtype=torch.int64).to(device)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).to(device)
    train, test = order[:1197], order[1197:]
    return images[train], labels[train], images[test], labels[test]
