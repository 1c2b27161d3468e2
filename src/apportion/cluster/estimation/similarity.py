"""Predict how fast a model nobody has profiled runs on each GPU architecture, from models alike.

A model's signature has mixed attributes, so its dissimilarity to a known one is Gower's (Han, Kamber, Pei
2012, section 2.4.6): d = sum_f w_f delta_f d_f / sum_f w_f delta_f, d_f = [differs] for the family and the
distance of standardised logarithms for numbers; delta_f = 0 where either lacks the attribute. The prediction
is the mean of the nearest known models' log relative speeds, weighted by 1 / d^2.

Where there are plenty of known models, the neighbours predict the residual of a ridge regression on the
numbers instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import InvalidInstance, InvalidOption, Problem

__all__ = ["ModelSignature", "Prediction", "SimilarityPredictor", "family_of", "numbers_of"]


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
        for name in _ATTRIBUTES:
            value = getattr(self, name)
            if value is not None and (value < 0 or math.isinf(value)):
                raise InvalidInstance(Problem(f"{self.name}.{name}", f"must be at least 0, not {value!r}"))


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


_FAMILY_WEIGHT = 10.0
"""Weight of the family against 1 for every number: beyond 2 per number nothing changes any more."""
_NEAR = 0.01
"""Added to every dissimilarity, so that a twin does not silence all others."""
_FOREIGN = 3
"""Times as many neighbours are averaged where no model of the family is known: none of them is close."""
_RIDGE = 3.0
_PER_COEFFICIENT = 10
"""Known models per coefficient of the regression from which on it is used."""
_ALIKE = 1e-12
"""Dissimilarities closer than this are ties."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_SAMPLE = 1000
"""Known models that are compared with all others to learn how far predictions are usually off."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Relative speeds of one model.

    Attributes
    ----------
    speed
        float64 [architectures]: speed relative to the base architecture.
    spread
        float64 [architectures]: standard deviation of the logarithm of `speed`, from how far the neighbours
        disagree and how far off predictions of known models are without themselves (without their family,
        for a model whose family nobody knows).
    neighbours
        Names of the known models it comes from, nearest first; ties are all there.
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
        How many of the nearest known models a prediction averages; three times as many where no model of
        the family is known.
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
        if isinstance(neighbours, bool) or not isinstance(neighbours, int) or neighbours < 1:
            raise InvalidOption(f"neighbours must be a whole number of at least 1, not {neighbours!r}")
        if not (math.isfinite(family_weight) and family_weight >= 0):
            raise InvalidOption(f"family_weight must be a finite number >= 0, not {family_weight!r}")
        self.neighbours = neighbours
        self.family_weight = family_weight
        self.trend = trend

    def fit(self, signatures: Sequence[ModelSignature], speeds: ArrayLike) -> SimilarityPredictor:
        """Take the known models that predictions are averaged from.

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
        raw = numbers_of(signatures)
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
        self._off: dict[bool, NDArray[np.float64]] = {}
        return self

    def predict(self, signatures: Sequence[ModelSignature], noise: bool = True) -> list[Prediction]:
        """Return the predictions of models, known or not.

        Parameters
        ----------
        signatures
            The models.
        noise
            Whether the spread includes how far off predictions of known models are, which compares all of
            them with each other.
        """
        numbers = (numbers_of(signatures) - self.centre_) / self.width_
        family = np.array([signature.family for signature in signatures])
        distance = self._dissimilarity(numbers, family)
        trend = _design(numbers) @ self.coefficients_
        strange = ~np.isin(family, self.family_)
        predictions = []
        for row, base, foreign in zip(distance, trend, strange.tolist(), strict=True):
            nearest, mean, variance = self._neighbourhood(row, foreign)
            usual = self._usual_error(foreign) if noise else 0.0
            predictions.append(
                Prediction(
                    np.exp(base + mean),
                    np.sqrt(variance + usual**2),
                    tuple(self.names_[position] for position in nearest),
                    row[nearest],
                )
            )
        return predictions

    def _neighbourhood(
        self, distance: NDArray[np.float64], foreign: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the nearest known models, and mean and variance of what they say; infinite ones keep out.

        All that tie with the last one count too, so that the order of the table decides nothing.
        """
        count = min(_FOREIGN * self.neighbours if foreign else self.neighbours, distance.size)
        last = np.partition(distance, count - 1)[count - 1]
        near = np.flatnonzero((distance <= last + _ALIKE) & np.isfinite(distance))
        near = near[np.lexsort((np.array(self.names_)[near], distance[near]))]
        weight = 1.0 / (distance[near] + _NEAR) ** 2
        weight /= weight.sum()
        mean = weight @ self.rest_[near]
        return near, mean, weight @ (self.rest_[near] - mean) ** 2

    def _usual_error(self, foreign: bool) -> NDArray[np.float64]:
        """Return how far off log predictions of known models are without themselves, or their families."""
        if foreign not in self._off:
            self._off[foreign] = self._left_out(foreign)
        return self._off[foreign]

    def _left_out(self, foreign: bool) -> NDArray[np.float64]:
        size = len(self.names_)
        asked = np.unique(np.linspace(0, size - 1, min(size, _SAMPLE)).astype(np.int64))
        distance = self._dissimilarity(self.numbers_[asked], self.family_[asked])
        if foreign:
            distance[self.family_[asked][:, None] == self.family_[None, :]] = np.inf
        else:
            distance[np.arange(asked.size), asked] = np.inf
        some = np.isfinite(distance).any(axis=1)
        if some.sum() < 2:  # nobody to learn from: a stranger may be anywhere
            return np.asarray(self.rest_.std(axis=0), dtype=np.float64)
        predicted = np.array([self._neighbourhood(row, foreign)[1] for row in distance[some]])
        off = np.abs(predicted - self.rest_[asked[some]])
        return np.asarray(_NORMAL * np.median(off, axis=0), dtype=np.float64)

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


def _design(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    held = np.where(np.isnan(numbers), 0.0, numbers)
    used = np.clip(held[:, :5], -4.0, 4.0)
    return np.concatenate((np.ones((held.shape[0], 1)), used, used**2), axis=1)


def _ridge(design: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    penalty = _RIDGE * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    solved = np.linalg.solve(design.T @ design + penalty, design.T @ target)
    return np.asarray(solved, dtype=np.float64)
