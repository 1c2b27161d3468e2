"""Read measured step times and the shares of a model's layers from CSV.

Measurements: one row a placement, batch and depth, with columns ``placement`` (GPUs on each node, ``"44"``
or ``"8,8"``), ``local_bsz``, ``step_time``, ``frozen_layer`` and, optionally, ``sync_time``. Layers: one row
a depth, with ``frozen_layers`` and any of ``param_frac_unfrozen``, ``flop_frac_unfrozen`` and
``activation_frac_unfrozen``; a row whose ``frozen_layers`` is no number (totals) is left out.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem

__all__ = ["LayerShares", "MeasuredSteps", "read_layers", "read_steps"]

_COLUMNS = ("placement", "local_bsz", "step_time", "frozen_layer")
_SHARES = ("param_frac_unfrozen", "flop_frac_unfrozen", "activation_frac_unfrozen")
_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSteps:
    """The rows of a measurement file as arrays, one entry a row.

    Attributes
    ----------
    gpus, nodes
        int64 [rows].
    local_batch
        float64 [rows]: samples per GPU.
    seconds
        float64 [rows]: a whole optimiser step.
    depth
        int64 [rows]: frozen layers.
    """

    gpus: NDArray[np.int64]
    nodes: NDArray[np.int64]
    local_batch: NDArray[np.float64]
    seconds: NDArray[np.float64]
    depth: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LayerShares:
    """What remains unfrozen at every depth.

    Attributes
    ----------
    layers
        Number of layers, L.
    depths
        int64 [depths], rising.
    shares
        Column name to float64 [depths]; only columns whose values lie in 0..1.
    unusable
        Columns that are left out because a value lies outside.
    """

    layers: int
    depths: NDArray[np.int64]
    shares: Mapping[str, NDArray[np.float64]]
    unusable: tuple[str, ...]

    def at(self, column: str, depth: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a share at any depth, linear between rows."""
        return np.interp(depth, self.depths, self.shares[column])


def read_steps(text: str) -> MeasuredSteps:
    """Read measured step times.

    Raises
    ------
    InvalidInstance
        If a column is missing or a value is wrong; every one is named by line and column.
    """
    rows = _table(text, _COLUMNS)
    problems: list[Problem] = []
    parsed: list[tuple[int, int, float, float, int]] = []
    for line, row in rows:
        gpus = _placement(row["placement"], line, problems)
        batch = _number(row["local_bsz"], line, "local_bsz", problems, positive=True)
        seconds = _number(row["step_time"], line, "step_time", problems, positive=True)
        depth = _number(row["frozen_layer"], line, "frozen_layer", problems, whole=True)
        if gpus is not None and batch is not None and seconds is not None and depth is not None:
            parsed.append((sum(gpus), len(gpus), batch, seconds, int(depth)))
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    if not parsed:
        raise InvalidInstance(Problem("$", "holds no row"))
    g, n, m, t, k = zip(*parsed, strict=True)
    return MeasuredSteps(
        np.array(g, dtype=np.int64),
        np.array(n, dtype=np.int64),
        np.array(m, dtype=np.float64),
        np.array(t, dtype=np.float64),
        np.array(k, dtype=np.int64),
    )


def read_layers(text: str) -> LayerShares:
    """Read what remains unfrozen at every depth.

    Raises
    ------
    InvalidInstance
        If there is no depth column or no share, or depths do not rise from 0.
    """
    rows = [(line, row) for line, row in _table(text, ("frozen_layers",)) if _is_whole(row["frozen_layers"])]
    depths = np.array([int(row["frozen_layers"]) for _, row in rows], dtype=np.int64)
    if depths.size < 2 or depths[0] != 0 or (np.diff(depths) <= 0).any():
        raise InvalidInstance(Problem("frozen_layers", "must rise from 0 over at least two rows"))
    problems: list[Problem] = []
    shares: dict[str, NDArray[np.float64]] = {}
    unusable: list[str] = []
    for column in _SHARES:
        if column not in rows[0][1]:
            continue
        values = np.array([_number(row[column], line, column, problems) or 0.0 for line, row in rows])
        if ((values >= 0) & (values <= 1)).all():
            shares[column] = values
        else:
            unusable.append(column)
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    return LayerShares(int(depths[-1]) + 1, depths, shares, tuple(unusable))


def _table(text: str, needed: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        columns = list(reader.fieldnames or ())
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InvalidInstance(Problem(f"line {reader.line_num}", f"is no CSV: {error}")) from None
    missing = [column for column in needed if column not in columns]
    if missing:
        listed = ", ".join(columns) or "none"
        raise InvalidInstance(
            [Problem(column, f"is no column; the columns are {listed}") for column in missing]
        )
    return [(line, {key: value or "" for key, value in row.items() if key}) for line, row in rows]


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text.strip()) is not None


def _placement(text: str, line: int, problems: list[Problem]) -> list[int] | None:
    """Return the GPUs of every node: one digit each, or numbers between commas, spaces or +."""
    parts = re.split(r"[,;+ ]+", text.strip()) if re.search(r"[,;+ ]", text.strip()) else list(text.strip())
    if parts and all(_is_whole(part) and int(part) > 0 for part in parts):
        return [int(part) for part in parts]
    problems.append(
        Problem(f"line {line}, placement", f'must be GPUs on each node, as 44 or "8,8", not {text[:40]!r}')
    )
    return None


def _number(
    text: str, line: int, column: str, problems: list[Problem], positive: bool = False, whole: bool = False
) -> float | None:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (positive and value <= 0) or (whole and (value < 0 or value % 1)):
        wanted = "a number above 0" if positive else "a whole number from 0 on" if whole else "a number"
        problems.append(Problem(f"line {line}, {column}", f"must be {wanted}, not {text[:40]!r}"))
        return None
    return value
