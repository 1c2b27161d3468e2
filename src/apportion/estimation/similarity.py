"""Predict how fast a model nobody has profiled runs on each GPU architecture, from models alike.

A model's signature has mixed attributes, so its dissimilarity to a known one is Gower's (Han, Kamber, Pei
2012, section 2.4.6): d = sum_f w_f delta_f d_f / sum_f w_f delta_f, d_f = [differs] for the family and the
distance of standardised logarithms for numbers; delta_f = 0 where either lacks the attribute. The prediction
is the mean of the nearest known models' log relative speeds, weighted by 1 / d^2. Where there are plenty of
known models, the neighbours speak about the rest of a ridge regression on the numbers instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import InvalidOption

__all__ = ["ModelSignature", "Prediction", "SimilarityPredictor", "family_of"]

_FAMILY_WEIGHT = 10.0
"""Weight of the family against 1 for every number: beyond 2 per number nothing changes any more."""
_NEAR = 0.01
"""Added to every dissimilarity, so that a twin does not silence all others."""
_FOREIGN = 3
"""Times as many neighbours speak where nobody of the family is known: none of them is close."""
_RIDGE = 3.0
_PER_COEFFICIENT = 10
"""Known models per coefficient of the regression from which on it is used."""


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
    """

    name: str
    family: str
    gmacs: float | None = None
    mactivations: float | None = None
    mparams: float | None = None
    batch: float | None = None
    gpus: float | None = None

    def numbers(self) -> list[float]:
        """Return the logarithms, and those of GMACs per activation and per parameter; NaN where absent."""
        work, moved, size = _log(self.gmacs), _log(self.mactivations), _log(self.mparams)
        return [work, moved, size, work - moved, work - size, _log(self.batch), _log(self.gpus)]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Relative speeds of one model.

    Attributes
    ----------
    speed
        float64 [architectures]: speed relative to the base architecture.
    spread
        float64 [architectures]: relative standard deviation, from how far the neighbours disagree and how
        far known models usually are from their own nearest one.
    neighbours
        Names of the known models it comes from, nearest first.
    distances
        float64 [neighbours]: their dissimilarities.
    """

    speed: NDArray[np.float64]
    spread: NDArray[np.float64]
    neighbours: tuple[str, ...]
    distances: NDArray[np.float64]


class SimilarityPredictor:
    """Nearest known models by mixed-attribute dissimilarity.

    Parameters
    ----------
    neighbours
        How many known models speak; three times as many where nobody of the family is known.
    family_weight
        Weight of the family against 1 for every number.
    trend
        Whether the neighbours correct a regression; ``None``: where there are known models enough.

    Examples
    --------
    >>> known = [ModelSignature(f"net{g}", "net", gmacs=g) for g in (1.0, 2.0, 4.0)]
    >>> predictor = SimilarityPredictor(neighbours=1).fit(known, [[1.1], [1.5], [2.0]])
    >>> predictor.predict([ModelSignature("new", "net", gmacs=3.9)])[0].neighbours
    ('net4.0',)
    """

    def __init__(
        self, neighbours: int = 3, family_weight: float = _FAMILY_WEIGHT, trend: bool | None = None
    ) -> None:
        if neighbours < 1:
            raise InvalidOption(f"neighbours must be at least 1, not {neighbours!r}")
        if not (math.isfinite(family_weight) and family_weight >= 0):
            raise InvalidOption(f"family_weight must be a finite number >= 0, not {family_weight!r}")
        self.neighbours = neighbours
        self.family_weight = family_weight
        self.trend = trend

    def fit(self, signatures: Sequence[ModelSignature], speeds: ArrayLike) -> SimilarityPredictor:
        """Learn known models.

        Parameters
        ----------
        signatures
            The known models.
        speeds
            float64 [models, architectures], positive: speed relative to the base architecture.
        """
        ratio = np.asarray(speeds, dtype=np.float64)
        if ratio.ndim != 2 or ratio.shape[0] != len(signatures) or not len(signatures):
            raise InvalidOption(f"speeds must have one row per known model ({len(signatures)}), at least one")
        if not (np.isfinite(ratio).all() and (ratio > 0).all()):
            raise InvalidOption("speeds must be positive finite numbers")
        raw = np.array([signature.numbers() for signature in signatures])
        held = np.where(np.isnan(raw), 0.0, raw)
        known = np.maximum((~np.isnan(raw)).sum(axis=0), 1)
        self.centre_ = held.sum(axis=0) / known
        offset = np.where(np.isnan(raw), 0.0, raw - self.centre_)
        width = np.sqrt((offset**2).sum(axis=0) / known)
        self.width_ = np.where(width > 1e-12, width, 1.0)
        self.numbers_ = (raw - self.centre_) / self.width_
        self.family_ = np.array([signature.family for signature in signatures])
        self.names_ = [signature.name for signature in signatures]
        logs = np.log(ratio)
        design = _design(self.numbers_)
        use = len(signatures) >= _PER_COEFFICIENT * design.shape[1] if self.trend is None else self.trend
        self.coefficients_ = _ridge(design, logs) if use else np.zeros((design.shape[1], logs.shape[1]))
        self.rest_ = logs - design @ self.coefficients_
        return self

    def predict(self, signatures: Sequence[ModelSignature], noise: bool = True) -> list[Prediction]:
        """Return the predictions of models, known or not.

        Parameters
        ----------
        signatures
            The models.
        noise
            Whether the spread includes how far known models usually are from their nearest one, which
            compares all of them with each other.
        """
        raw = np.array([signature.numbers() for signature in signatures]).reshape(len(signatures), -1)
        numbers = (raw - self.centre_) / self.width_
        family = np.array([signature.family for signature in signatures])
        distance = self._dissimilarity(numbers, family)
        trend = _design(numbers) @ self.coefficients_
        usual = self._usual_error() if noise else np.zeros(self.rest_.shape[1])
        foreign = ~np.isin(family, self.family_)
        return [
            self._one(row, base, usual, _FOREIGN * self.neighbours if alone else self.neighbours)
            for row, base, alone in zip(distance, trend, foreign, strict=True)
        ]

    def _one(
        self,
        distance: NDArray[np.float64],
        trend: NDArray[np.float64],
        usual: NDArray[np.float64],
        count: int,
    ) -> Prediction:
        nearest = np.argsort(distance, kind="stable")[:count]
        weight = 1.0 / (distance[nearest] + _NEAR) ** 2
        weight /= weight.sum()
        rest = self.rest_[nearest]
        mean = weight @ rest
        variance = weight @ (rest - mean) ** 2
        return Prediction(
            np.exp(trend + mean),
            np.sqrt(variance + usual**2),
            tuple(self.names_[position] for position in nearest),
            distance[nearest],
        )

    def _dissimilarity(self, numbers: NDArray[np.float64], family: NDArray[np.str_]) -> NDArray[np.float64]:
        """Return float64 [models, known models]."""
        total = self.family_weight * (family[:, None] != self.family_[None, :]).astype(np.float64)
        weight = np.full(total.shape, self.family_weight)
        for attribute in range(numbers.shape[1]):
            apart = np.abs(numbers[:, attribute][:, None] - self.numbers_[:, attribute][None, :])
            both = ~np.isnan(apart)
            total[both] += apart[both]
            weight += both
        return np.asarray(total / np.maximum(weight, 1e-300), dtype=np.float64)

    def _usual_error(self) -> NDArray[np.float64]:
        """Return the median distance of known models' log speeds from their nearest one's."""
        if len(self.names_) < 2:
            return np.zeros(self.rest_.shape[1])
        distance = self._dissimilarity(self.numbers_, self.family_)
        np.fill_diagonal(distance, np.inf)
        apart = np.abs(self.rest_ - self.rest_[np.argmin(distance, axis=1)])
        return np.asarray(np.median(apart, axis=0), dtype=np.float64)


def family_of(name: str) -> str:
    """Return the leading letters of a model's name in lower case: ``resnet`` of ``resnet50d``."""
    match = re.match(r"[A-Za-z]+", name)
    return name if match is None else match.group().lower()


def _log(value: float | None) -> float:
    # zero work or size is told apart from absent: it is the smallest there is
    return math.nan if value is None or math.isnan(value) else math.log(max(value, 0.0) + 1e-3)


def _design(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    held = np.where(np.isnan(numbers), 0.0, numbers)
    used = np.clip(held[:, :5], -4.0, 4.0)
    return np.concatenate((np.ones((held.shape[0], 1)), used, used**2), axis=1)


def _ridge(design: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    penalty = _RIDGE * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    solved = np.linalg.solve(design.T @ design + penalty, design.T @ target)
    return np.asarray(solved, dtype=np.float64)
