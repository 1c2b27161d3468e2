"""Measured speeds of known models on several architectures, and the prediction of an unknown model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import InvalidInstance, Problem
from apportion.estimation.model_signature import ModelSignature
from apportion.estimation.similarity import SimilarityPredictor

__all__ = ["ReferenceSpeeds"]


class ReferenceSpeeds:
    """Speeds of known models by architecture: samples per second, or relative to one architecture.

    Parameters
    ----------
    signatures
        The known models.
    speeds
        float64 [models, architectures], positive; NaN where a model was not measured.
    architectures
        Their names.
    predictor
        Makes a predictor that is not fitted yet.

    Raises
    ------
    InvalidInstance
        If shapes do not fit, names stand twice, a speed is not positive, or nothing was measured somewhere.
    """

    def __init__(
        self,
        signatures: Sequence[ModelSignature],
        speeds: ArrayLike,
        architectures: Sequence[str],
        predictor: Callable[[], SimilarityPredictor] = SimilarityPredictor,
    ) -> None:
        self.signatures = tuple(signatures)
        self.architectures = tuple(architectures)
        self.speeds = np.asarray(speeds, dtype=np.float64)
        self._predictor = predictor
        self._fitted: dict[int | None, list[tuple[NDArray[np.int64], SimilarityPredictor]]] = {}
        shape = (len(self.signatures), len(self.architectures))
        if self.speeds.shape != shape or 0 in shape:
            message = (
                f"must be one row per model and one column per architecture, {shape}, at least one of each"
            )
            raise InvalidInstance(Problem("speeds", f"{message}; not {self.speeds.shape}"))
        if len(set(self.architectures)) < len(self.architectures):
            raise InvalidInstance(Problem("architectures", "must be distinct"))
        wrong = np.argwhere(np.isinf(self.speeds) | (self.speeds <= 0))
        if wrong.size:
            model, on = (int(k) for k in wrong[0])
            where = f"speeds.{self.signatures[model].name}.{self.architectures[on]}"
            raise InvalidInstance(Problem(where, f"must be positive, not {self.speeds[model, on]:g}"))
        for on, name in enumerate(self.architectures):
            if np.isnan(self.speeds[:, on]).all():
                raise InvalidInstance(Problem(f"speeds.{name}", "no model was measured there"))

    def predict(
        self, signatures: Sequence[ModelSignature], base: str | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return speeds of models and how uncertain they are.

        Parameters
        ----------
        signatures
            The models.
        base
            The architecture that speeds are relative to; ``None`` for the table's own unit. On the base
            itself the speed is 1 and its spread 0. What was never measured beside the base is NaN.

        Returns
        -------
        float64 [models, architectures], float64 [models, architectures]
            Speeds, and standard deviations of their logarithms.
        """
        shape = (len(signatures), len(self.architectures))
        speed, spread = np.full(shape, np.nan), np.full(shape, np.nan)
        if not len(signatures):
            return speed, spread
        at = None if base is None else self.architectures.index(base)
        for columns, fitted in self._for(at):
            for row, prediction in enumerate(fitted.predict(signatures)):
                speed[row, columns], spread[row, columns] = prediction.speed, prediction.spread
        if at is not None:
            speed[:, at], spread[:, at] = 1.0, 0.0
        return speed, spread

    def _for(self, base: int | None) -> list[tuple[NDArray[np.int64], SimilarityPredictor]]:
        """Return predictors and the architectures that each one predicts."""
        if base not in self._fitted:
            ratio = self.speeds if base is None else self.speeds / self.speeds[:, [base]]
            known = ~np.isnan(ratio)
            groups: dict[bytes, list[int]] = {}
            for on in range(len(self.architectures)):
                if known[:, on].any():
                    groups.setdefault(known[:, on].tobytes(), []).append(on)
            made = []
            for columns in groups.values():
                rows = np.flatnonzero(known[:, columns[0]])
                models = [self.signatures[k] for k in rows.tolist()]
                fitted = self._predictor().fit(models, ratio[rows][:, columns])
                made.append((np.array(columns, dtype=np.int64), fitted))
            self._fitted[base] = made
        return self._fitted[base]
