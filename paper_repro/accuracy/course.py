"""One training under a rule for the depth, for a given time: loss and accuracy against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from apportion.cluster.estimation.training.freezing_profile import FreezingProfile
from apportion.cluster.policies.rounds.icefrog import DepthGates
from paper_repro.accuracy.networks import NETWORKS, atomic, freeze, optimizer
from paper_repro.accuracy.profiling import BATCH, Data

__all__ = ["Course", "Rule", "by_profile", "to_half", "train", "unfrozen"]

Rule = Callable[[float], tuple[int, float]]
"""Given the phase, tenths of the layers to freeze and the share of progress believed to remain."""

_EVERY = 10
"""Steps between two decisions."""


@dataclass(frozen=True, slots=True)
class Course:
    """What came of a training.

    Attributes
    ----------
    seconds, steps, progress
        At every tenth of the budget: seconds spent on steps, steps made, and believed effective steps.
    loss, accuracy
        There: mean loss over the training images, and share of the test images that are right.
    frozen
        Mean share of the layers that was frozen.
    """

    seconds: list[float]
    steps: list[int]
    progress: list[float]
    loss: list[float]
    accuracy: list[float]
    frozen: float


def unfrozen(phase: float) -> tuple[int, float]:
    """Freeze nothing."""
    return 0, 1.0


def to_half(phase: float) -> tuple[int, float]:
    """Freeze half of the layers after the warm-up, as if it cost nothing."""
    return (5 if phase >= DepthGates().warm_up else 0), 1.0


def by_profile(profile: FreezingProfile, theta: float) -> Rule:
    """Return IceFrog's rule for a job whose GPU is given: after warm-up the depth of most progress."""
    gates = DepthGates()
    deepest = min(int(gates.deepest * 10 + 1e-9), profile.deepest)
    relative = profile.relative_step(1)

    def rule(phase: float) -> tuple[int, float]:
        kept = np.maximum(0.0, 1.0 - theta * (1.0 - profile.retained_at(phase)))
        if phase < gates.warm_up:
            return 0, 1.0
        depth = int(np.argmax((kept / relative)[: deepest + 1]))
        return depth, float(kept[depth])

    return rule


def train(
    name: str,
    data: Data,
    rule: Rule,
    seed: int,
    budget_s: float,
    whole: int,
    clock: Callable[[], float],
    tenths: int = 10,
) -> Course:
    """Train for `tenths` tenths of `budget_s` seconds of steps; by `whole` steps the phase is counted."""
    torch.manual_seed(seed)
    model = NETWORKS[name]().to(data[0].device)
    taught = optimizer(name, model)
    layers = len(atomic(model))
    draw = torch.Generator().manual_seed(seed)
    spent, progress, steps, frozen, depth = 0.0, 0.0, 0, 0.0, 0
    course = Course([], [], [], [], [], 0.0)
    marks = [budget_s * tenth / 10 for tenth in range(1, tenths + 1)]
    while marks:
        level, kept = rule(min(1.0, progress / whole))
        depth = level * layers // 10
        freeze(model, depth)
        picks = torch.randint(0, len(data[1]), (_EVERY, BATCH), generator=draw).to(data[0].device)
        begun = clock()
        for pick in picks:
            taught.zero_grad()
            nn.functional.cross_entropy(model(data[0][pick]), data[1][pick]).backward()
            taught.step()
        took = clock() - begun
        spent, steps = spent + took, steps + _EVERY
        progress, frozen = progress + kept * _EVERY, frozen + took * depth / layers
        while marks and spent >= marks[0]:
            marks.pop(0)
            loss, accuracy = _judged(model, data)
            course.seconds.append(spent)
            course.steps.append(steps)
            course.progress.append(progress)
            course.loss.append(loss)
            course.accuracy.append(accuracy)
    return Course(
        course.seconds, course.steps, course.progress, course.loss, course.accuracy, frozen / max(spent, 1e-9)
    )


def _judged(model: nn.Module, data: Data) -> tuple[float, float]:
    state = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(model(data[0]), data[1]))
        accuracy = float((model(data[2]).argmax(dim=1) == data[3]).double().mean())
    for module, training in state:
        module.training = training
    return loss, accuracy
