"""Read the columns of a CSV of numbers, with one clear error for whatever is wrong with it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem, reason

__all__ = ["number_columns", "optional_columns", "text_columns"]

_SHOWN = 20


def text_columns(path: Path, columns: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the named columns of every row as text, with the row's line number.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing, a row is short or long, or there is no row.
    """
    try:
        lines = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
        rows = [(lines.line_num, row) for row in lines if row]
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    header = [name.strip() for name in rows[0][1]] if rows else []
    missing = [name for name in columns if name not in header]
    if missing:
        raise InvalidInstance(Problem(f"{path}, line 1", f"the header lacks {', '.join(missing)}"))
    wrong = [(line, len(row)) for line, row in rows[1:] if len(row) != len(header)]
    if wrong:
        line, fields = wrong[0]
        raise InvalidInstance(
            Problem(f"{path}, line {line}", f"has {fields} fields, the header {len(header)}")
        )
    if len(rows) == 1:
        raise InvalidInstance(Problem(str(path), "has a header and no row"))
    at = [header.index(name) for name in columns]
    return [(line, tuple(row[index].strip() for index in at)) for line, row in rows[1:]]


def number_columns(path: Path, columns: Sequence[str]) -> NDArray[np.float64]:
    """Return float64 [rows, columns]: the named columns, every one finite and at least 0.

    Raises
    ------
    InvalidInstance
        As :func:`text_columns`, or if a field is no such number.
    """
    problems: list[Problem] = []
    found: list[list[float]] = []
    for line, row in text_columns(path, columns):
        values = []
        for name, field in zip(columns, row, strict=True):
            try:
                value = float(field)
                if not math.isfinite(value) or value < 0:
                    raise ValueError
            except ValueError:
                problems.append(
                    Problem(f"{path}, line {line}", f"{name} must be a number of at least 0, is {field!r}")
                )
                continue
            values.append(value)
        found.append(values)
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    return np.array(found, dtype=np.float64)


def optional_columns(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return by name those of the columns that the file has, as text, a field a row.

    Raises
    ------
    InvalidInstance
        As :func:`text_columns`.
    """
    try:
        header = path.read_bytes().decode("utf-8-sig").partition("\n")[0]
        named = [name.strip() for name in next(csv.reader([header]), [])]
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    present = [name for name in columns if name in named]
    if not present:
        return {}
    rows = text_columns(path, present)
    return {name: [fields[place] for _, fields in rows] for place, name in enumerate(present)}
