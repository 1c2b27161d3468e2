"""Tables of measured models, and how well a predictor does on them when rows or families are held out.

A table is a CSV with one row a model, as in timm's benchmark files: ``model``, two columns of speeds, and
what is known of the model.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem
from apportion.estimation.model_signature import ModelSignature, family_of
from apportion.estimation.similarity import Prediction, SimilarityPredictor
from apportion.skipped import tell_skipped

__all__ = ["HeldOut", "ReferenceTable", "held_out", "read_reference", "read_signatures"]

_WIDEST = 1e12
"""Largest ratio of the two speeds of a model, and its inverse the smallest."""
_SHOWN = 40
_FEATURES = MappingProxyType(
    {
        "gmacs": "infer_gmacs",
        "mactivations": "infer_macts",
        "mparams": "param_count",
        "batch": "batch",
        "gpus": "gpus",
    }
)
"""Column of every attribute."""


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
        Models without a row that has both speeds.
    skipped
        Rows without a name, and rows of a model after its first one with both speeds.
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
    without a family it is the leading letters of the name. An empty or 0 speed was not measured. Of several
    rows of a model the first with both speeds counts.

    Raises
    ------
    InvalidInstance
        If a column is missing, stands twice or holds what is no number of at least 0, with its line.
    """
    rows = _rows(text, ("model", base_column, target_column))
    measured: dict[str, tuple[ModelSignature, float]] = {}
    lacking: dict[str, ModelSignature] = {}
    skipped = 0
    problems: list[Problem] = []
    for line, row in rows:
        name = (row["model"] or "").strip()
        if not name or name in measured:
            skipped += 1
            continue
        before = len(problems)
        base, target = _number(row, base_column, line, problems), _number(row, target_column, line, problems)
        signature = _signature(name, row, line, problems)
        if len(problems) > before or signature is None:
            continue
        if not base or not target:
            lacking.setdefault(name, signature)
            continue
        ratio = target / base
        if not 1.0 / _WIDEST <= ratio <= _WIDEST:
            message = (
                f"is {target:g} where {base_column} is {base:g}: no two GPUs differ by a factor beyond 1e12"
            )
            problems.append(Problem(f"line {line}, {target_column}", message))
            continue
        measured[name] = signature, ratio
    if problems:
        raise InvalidInstance(problems)
    if len(measured) < 2:
        message = f"needs at least two models with both speeds, has {len(measured)}"
        raise InvalidInstance(Problem(f"{base_column}, {target_column}", message))
    signatures, ratios = zip(*measured.values(), strict=True)
    rest = tuple(signature for name, signature in lacking.items() if name not in measured)
    tell_skipped("the reference", len(rows), {"without a model, or of one that stands before": skipped})
    return ReferenceTable(signatures, np.array(ratios), rest, skipped)


def read_signatures(text: str) -> dict[str, ModelSignature]:
    """Read what is known of models without running them, by name: the columns of `read_reference` but speeds.

    Raises
    ------
    InvalidInstance
        If the column ``model`` is missing, a model is nameless or stands twice, or a cell is no number of at
        least 0, with its line.
    """
    signatures: dict[str, ModelSignature] = {}
    problems: list[Problem] = []
    for line, row in _rows(text, ("model",)):
        name = (row["model"] or "").strip()
        if not name or name in signatures:
            problems.append(Problem(f"line {line}, model", f"stands twice: {name}" if name else "is empty"))
        elif (signature := _signature(name, row, line, problems)) is not None:
            signatures[name] = signature
    if problems:
        raise InvalidInstance(problems)
    return signatures


def _rows(text: str, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Return the rows with their lines; every column there is stands once."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        columns = [column.strip() for column in reader.fieldnames or []]
        reader.fieldnames = columns
        problems = [
            Problem(column, f"is no column; the columns are {', '.join(columns)[:400] or 'none'}")
            for column in dict.fromkeys(needed)
            if column not in columns
        ]
        used = (*needed, "family", *_FEATURES.values())
        problems += [
            Problem(column, "stands in the header more than once")
            for column in dict.fromkeys(used)
            if columns.count(column) > 1
        ]
        if problems:
            raise InvalidInstance(problems)
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InvalidInstance(Problem(f"line {reader.line_num}", f"is no CSV: {error}")) from None


def held_out(
    table: ReferenceTable,
    by_family: bool = False,
    predictor: Callable[[], SimilarityPredictor] = SimilarityPredictor,
) -> HeldOut:
    """Predict every model from a table without it, or without its family.

    Raises
    ------
    InvalidInstance
        If leaving a family out leaves nothing.
    """
    families = np.array([signature.family for signature in table.signatures])
    groups = (
        [np.flatnonzero(families == family) for family in np.unique(families)]
        if by_family
        else [np.array([position]) for position in range(len(table.signatures))]
    )
    if len(groups) < 2:
        why = f"is {str(families[0])!r} for every model: leave-one-family-out needs at least two families"
        raise InvalidInstance(Problem("family", why))
    predicted = np.zeros(table.ratio.size)
    guess = np.zeros(table.ratio.size)
    for group in groups:
        rest = np.setdiff1d(np.arange(table.ratio.size), group)
        fitted = predictor().fit([table.signatures[i] for i in rest], table.ratio[rest][:, None])
        predictions: Sequence[Prediction] = fitted.predict([table.signatures[i] for i in group], noise=False)
        predicted[group] = [prediction.speed[0] for prediction in predictions]
        guess[group] = np.median(table.ratio[rest])
    return HeldOut(predicted, _mape(predicted, table.ratio), _mape(guess, table.ratio), table.ratio.size)


def _mape(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> float:
    return float(100.0 * np.mean(np.abs(predicted / measured - 1.0)))


def _signature(name: str, row: dict[str, str], line: int, problems: list[Problem]) -> ModelSignature | None:
    before = len(problems)
    numbers = {field: _number(row, column, line, problems) for field, column in _FEATURES.items()}
    family = (row.get("family") or "").strip() or family_of(name)
    return None if len(problems) > before else ModelSignature(name, family, **numbers)


def _number(row: dict[str, str], column: str, line: int, problems: list[Problem]) -> float | None:
    text = (row.get(column) or "").strip()
    if not text or text.lower() in ("nan", "none", "null"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value >= 0:
        return value
    message = f"must be a number of at least 0, not {text[:_SHOWN]!r}"
    problems.append(Problem(f"line {line}, {column}", message))
    return None
