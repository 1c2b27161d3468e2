"""Tables of measured models, and how well a predictor does on them when rows or families are held out."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, InvalidOption, Problem
from apportion.estimation.similarity import ModelSignature, Prediction, SimilarityPredictor, family_of

__all__ = ["HeldOut", "ReferenceTable", "held_out", "read_reference"]


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceTable:
    """Models measured on a base and a target architecture.

    Attributes
    ----------
    signatures
        One per model.
    ratio
        float64 [models]: speed on the target over speed on the base.
    unmeasured
        Models whose row lacks a positive speed.
    skipped
        Rows of models that stand before.
    """

    signatures: tuple[ModelSignature, ...]
    ratio: NDArray[np.float64]
    unmeasured: tuple[ModelSignature, ...]
    skipped: int


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Errors of predictions made without the row, or without its whole family.

    Attributes
    ----------
    predicted
        float64 [models]: predicted ratios.
    mape, mape_median_guess
        Mean absolute percentage errors of the prediction and of guessing the median of the other rows.
    models
        How many models were predicted.
    """

    predicted: NDArray[np.float64]
    mape: float
    mape_median_guess: float
    models: int


def read_reference(text: str, base_column: str, target_column: str) -> ReferenceTable:
    """Read a CSV with one row a model: ``model``, the two speed columns, and what is known of the model.

    Known columns are ``family``, ``infer_gmacs``, ``infer_macts``, ``param_count``, ``batch`` and ``gpus``;
    without a family it is the leading letters of the name.

    Raises
    ------
    InvalidInstance
        If a column is missing or holds no number, with its row.
    """
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    columns = rows.fieldnames or []
    missing = [column for column in ("model", base_column, target_column) if column not in columns]
    if missing:
        listed = ", ".join(columns) or "none"
        raise InvalidInstance(
            [Problem(column, f"is no column; the columns are {listed}") for column in missing]
        )
    signatures: list[ModelSignature] = []
    ratios: list[float] = []
    seen: set[str] = set()
    unmeasured: list[ModelSignature] = []
    skipped = 0
    for number, row in enumerate(rows, start=2):
        name = (row["model"] or "").strip()
        base, target = _number(row, base_column, number), _number(row, target_column, number)
        if not name or name in seen:
            skipped += 1
            continue
        seen.add(name)
        signature = _signature(name, row, number)
        if base is None or target is None or base <= 0 or target <= 0:
            unmeasured.append(signature)
            continue
        signatures.append(signature)
        ratios.append(target / base)
    if len(signatures) < 2:
        raise InvalidInstance(Problem("$", "needs at least two models with both speeds"))
    return ReferenceTable(tuple(signatures), np.array(ratios), tuple(unmeasured), skipped)


def held_out(
    table: ReferenceTable,
    by_family: bool = False,
    predictor: Callable[[], SimilarityPredictor] = SimilarityPredictor,
) -> HeldOut:
    """Predict every model from a table without it, or without its family.

    Raises
    ------
    InvalidOption
        If leaving a family out leaves nothing.
    """
    families = np.array([signature.family for signature in table.signatures])
    groups = (
        [np.flatnonzero(families == family) for family in np.unique(families)]
        if by_family
        else [np.array([position]) for position in range(len(table.signatures))]
    )
    if len(groups) < 2:
        raise InvalidOption("leave-one-family-out needs at least two families")
    predicted = np.zeros(table.ratio.size)
    guess = np.zeros(table.ratio.size)
    for group in groups:
        rest = np.setdiff1d(np.arange(table.ratio.size), group)
        fitted = predictor().fit([table.signatures[i] for i in rest], table.ratio[rest][:, None])
        told: Sequence[Prediction] = fitted.predict([table.signatures[i] for i in group], noise=False)
        predicted[group] = [prediction.speed[0] for prediction in told]
        guess[group] = np.median(table.ratio[rest])
    return HeldOut(predicted, _mape(predicted, table.ratio), _mape(guess, table.ratio), table.ratio.size)


def _mape(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> float:
    return float(100.0 * np.mean(np.abs(predicted / measured - 1.0)))


def _signature(name: str, row: dict[str, str], number: int) -> ModelSignature:
    return ModelSignature(
        name=name,
        family=(row.get("family") or "").strip() or family_of(name),
        gmacs=_number(row, "infer_gmacs", number),
        mactivations=_number(row, "infer_macts", number),
        mparams=_number(row, "param_count", number),
        batch=_number(row, "batch", number),
        gpus=_number(row, "gpus", number),
    )


def _number(row: dict[str, str], column: str, number: int) -> float | None:
    text = (row.get(column) or "").strip()
    if not text or text.lower() in ("nan", "none", "null"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInstance(Problem(f"line {number}, {column}", f"must be a number, not {text[:40]!r}"))
    return value
