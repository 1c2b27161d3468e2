"""Read measured step times and the shares of a model's layers from CSV.

Measurements: one row a placement, batch and depth, with columns ``placement`` (GPUs on each node, ``"44"``
or ``"8,8"``), ``local_bsz``, ``step_time``, ``frozen_layer`` and, optionally, ``sync_time``, which is part of
the step and only checked, and ``cached_forward``, the share of the forward work whose activations were read
from a cache. Layers: one row a depth, with ``frozen_layers`` and any of ``param_frac_unfrozen``,
``flop_frac_unfrozen`` and ``activation_frac_unfrozen``; a row whose ``frozen_layers`` is no number (totals)
is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.files import csv_records

__all__ = ["LayerShares", "MeasuredSteps", "read_layers", "read_steps"]

_COLUMNS = ("placement", "local_bsz", "step_time", "frozen_layer")
_SHARES = ("param_frac_unfrozen", "flop_frac_unfrozen", "activation_frac_unfrozen")
_SHOWN = 20
_LARGEST = 1_000_000
"""Most frozen layers, nodes and GPUs of a row."""
_WIDEST = 1e9
"""Longest step in seconds and largest batch; their inverses are the shortest and the smallest."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


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
    cached_forward
        float64 [rows]: share of the forward work that a cache of activations replaces; ``None`` if none does.
    """

    gpus: NDArray[np.int64]
    nodes: NDArray[np.int64]
    local_batch: NDArray[np.float64]
    seconds: NDArray[np.float64]
    depth: NDArray[np.int64]
    cached_forward: NDArray[np.float64] | None = None


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
        Column name to float64 [depths]; only columns that fall from 1 and end no lower than 0.
    unusable
        Columns that are left out because they do not.
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
    rows = csv_records(text, _COLUMNS)
    problems: list[Problem] = []
    parsed: list[tuple[int, int, float, float, int, float]] = []
    for line, row in rows:
        gpus = _placement(row["placement"], line, problems)
        batch = _measure(row["local_bsz"], line, "local_bsz", problems)
        seconds = _measure(row["step_time"], line, "step_time", problems)
        depth = _depth(row["frozen_layer"], line, problems)
        sync = row.get("sync_time", "")
        if sync and not (_number(sync) >= 0):
            problems.append(
                Problem(f"line {line}, sync_time", f"must be a number from 0 on, not {sync[:40]!r}")
            )
        cached = _share(row.get("cached_forward", ""), line, problems)
        if gpus is not None and batch is not None and seconds is not None and depth is not None:
            parsed.append((sum(gpus), len(gpus), batch, seconds, depth, cached))
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    if not parsed:
        raise InvalidInstance(Problem("$", "holds no row"))
    g, n, m, t, k, v = zip(*parsed, strict=True)
    return MeasuredSteps(
        np.array(g, dtype=np.int64),
        np.array(n, dtype=np.int64),
        np.array(m, dtype=np.float64),
        np.array(t, dtype=np.float64),
        np.array(k, dtype=np.int64),
        np.array(v, dtype=np.float64) if any(v) else None,
    )


def read_layers(text: str) -> LayerShares:
    """Read what remains unfrozen at every depth.

    Raises
    ------
    InvalidInstance
        If there is no depth column or no share, or depths do not rise from 0.
    """
    table = [(line, row, row["frozen_layers"]) for line, row in csv_records(text, ("frozen_layers",))]
    rows = [(line, row) for line, row, depth in table if _is_whole(depth)]
    depths = np.array([int(depth) for *_, depth in table if _is_whole(depth)], dtype=np.int64)
    if depths.size < 2 or depths[0] != 0 or (np.diff(depths) <= 0).any():
        raise InvalidInstance(Problem("frozen_layers", "must rise from 0 over at least two rows"))
    problems: list[Problem] = []
    shares: dict[str, NDArray[np.float64]] = {}
    unusable: list[str] = []
    for column in _SHARES:
        if column not in rows[0][1]:
            continue
        values = np.array([_number(row[column]) for _, row in rows])
        problems += [
            Problem(f"line {line}, {column}", f"must be a number, not {row[column][:40]!r}")
            for (line, row), value in zip(rows, values.tolist(), strict=True)
            if math.isnan(value)
        ]
        if abs(values[0] - 1.0) < 0.01 and (np.diff(values) <= 0).all() and values[-1] >= 0:
            shares[column] = values
        else:
            unusable.append(column)
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    return LayerShares(int(depths[-1]) + 1, depths, shares, tuple(unusable))


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text) is not None


def _placement(text: str, line: int, problems: list[Problem]) -> list[int] | None:
    """Return the GPUs of every node: one digit each, or numbers between commas, spaces or +."""
    parts = re.split(r"[,;+ ]+", text.strip()) if re.search(r"[,;+ ]", text.strip()) else list(text.strip())
    gpus = [int(part) if _is_whole(part) else 0 for part in parts]
    if gpus and min(gpus) > 0 and sum(gpus) <= _LARGEST:
        return gpus
    problems.append(
        Problem(f"line {line}, placement", f'must be GPUs on each node, as 44 or "8,8", not {text[:40]!r}')
    )
    return None


def _measure(text: str, line: int, column: str, problems: list[Problem]) -> float | None:
    """Return a time or a batch."""
    value = _number(text)
    if 1.0 / _WIDEST <= value <= _WIDEST:
        return value
    wanted = "a number above 0" if not value > 0 else "from 1e-9 to 1e9"
    problems.append(Problem(f"line {line}, {column}", f"must be {wanted}, not {text[:40]!r}"))
    return None


def _depth(text: str, line: int, problems: list[Problem]) -> int | None:
    value = _number(text)
    if 0 <= value <= _LARGEST and value % 1 == 0:
        return int(value)
    problems.append(
        Problem(
            f"line {line}, frozen_layer",
            f"must be a whole number from 0 to {_LARGEST}, not {text[:40]!r}",
        )
    )
    return None


def _share(text: str, line: int, problems: list[Problem]) -> float:
    """Return a share from 0 to 1; an absent one is 0."""
    value = _number(text) if text.strip() else 0.0
    if not 0 <= value <= 1:
        wrong = f"must be a number from 0 to 1, not {text[:40]!r}"
        problems.append(Problem(f"line {line}, cached_forward", wrong))
    return value


def _number(text: str) -> float:
    """Return a finite number, NaN for anything else."""
    value = float(text.strip()) if _NUMBER.fullmatch(text.strip()) else math.nan
    return value if math.isfinite(value) else math.nan
