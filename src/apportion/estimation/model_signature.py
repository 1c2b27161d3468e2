"""What is known of a model without running it: its family, its size, how it is trained."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem

__all__ = ["ModelSignature", "family_of", "numbers_of"]

_ATTRIBUTES = ("gmacs", "mactivations", "mparams", "batch", "gpus")
_SMALLEST = 1e-3
"""Added before the logarithm: zero work or size is told apart from absent, it is the smallest there is."""


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """What is known of a model without running it; absent is ``None``.

    Attributes
    ----------
    name
        For people.
    family
        Architecture family, for instance ``resnet``.
    gmacs
        Billions of multiply-accumulates per sample.
    mactivations
        Millions of activations per sample.
    mparams
        Millions of parameters.
    batch
        Global batch size.
    gpus
        Number of GPUs.

    Raises
    ------
    InvalidInstance
        If a number is negative or not finite; NaN counts as absent.
    """

    name: str
    family: str
    gmacs: float | None = None
    mactivations: float | None = None
    mparams: float | None = None
    batch: float | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        for field in _ATTRIBUTES:
            value = getattr(self, field)
            if value is not None and (value < 0 or math.isinf(value)):
                raise InvalidInstance(Problem(f"{self.name}.{field}", f"must be at least 0, not {value!r}"))


def numbers_of(signatures: Sequence[ModelSignature]) -> NDArray[np.float64]:
    """Return the logarithms that are compared, NaN where absent.

    Returns
    -------
    float64 [models, 7]
        Of GMACs, activations, parameters, GMACs per activation, GMACs per parameter, batch, GPUs.
    """
    rows = [(s.gmacs, s.mactivations, s.mparams, s.batch, s.gpus) for s in signatures]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(_ATTRIBUTES))
    log = np.log(table + _SMALLEST)
    work, moved, size, batch, gpus = log.T
    return np.column_stack((work, moved, size, work - moved, work - size, batch, gpus))


def family_of(name: str) -> str:
    """Return the leading letters of a model's name in lower case: ``resnet`` of ``resnet50d``."""
    match = re.match(r"[A-Za-z]+", name)
    return name if match is None else match.group().lower()
