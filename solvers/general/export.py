"""Write a linear model as LP or MPS text, names kept, without any solver.

Names are made legal reversibly: brackets become parentheses, everything else that a format could trip over
becomes ``%XX``, the second and later of equal names end in ``%#2``, ``%#3``; `readable` undoes it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import quote, unquote

import numpy as np

from apportion.models.linear import LinearModel

__all__ = ["legal", "readable", "to_lp", "to_mps"]

_TERMS_PER_LINE = 6
_OBJECTIVE = "%objective"
"""Name of the objective: no name that `legal` returns."""
_NOTHING = "%nothing"
"""The one column, fixed at 0, of a model that has none: LP has no empty rows, MPS readers drop them."""
_FAR = "-1e30"
"""The side of a row that binds nothing: readers take 1e20 and beyond for infinite."""
_LEGAL = {code: f"%{code:02X}" for code in range(128) if not chr(code).isalnum() and chr(code) not in ",.;_"}
_LEGAL |= {ord("["): "(", ord("]"): ")"}
"""What becomes of a character."""
_RESERVED = frozenset(
    [
        "max",
        "maximum",
        "maximize",
        "min",
        "minimum",
        "minimize",
        "subject",
        "such",
        "st",
        "s.t.",
        "st.",
        "bound",
        "bounds",
        "free",
        "inf",
        "infinity",
        "bin",
        "binary",
        "binaries",
        "gen",
        "general",
        "generals",
        "int",
        "integer",
        "integers",
        "semi",
        "semis",
        "sos",
        "sos1",
        "sos2",
        "sin",
        "end",
    ]
)
"""Words of the LP format, which readers find anywhere and in any case."""


def legal(name: str) -> str:
    """Return a name that LP and MPS readers take: no blanks, operators, keywords, or start like a number."""
    text = name.translate(_LEGAL)
    if not text.isascii():
        text = quote(text, safe="%(),.;")
    if text[:1] in ("", ".", ";", ",", "e", "E") or text[:1].isdigit() or text.lower() in _RESERVED:
        return f"%{ord(text[0]):02X}{text[1:]}" if text else "%"
    return text


def readable(name: str) -> str:
    """Return the name that was made legal."""
    text = re.sub(r"%#(\d+|lower)$", "", name)
    return "" if text == "%" else unquote(text.replace("(", "[").replace(")", "]"))


def _all_legal(names: Iterable[str]) -> list[str]:
    """Return legal names, told apart where they are equal."""
    seen: Counter[str] = Counter()
    unique = []
    for name in map(legal, names):
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name}%#{seen[name]}")
    return unique


def to_lp(model: LinearModel) -> str:
    """Return the model in CPLEX LP format.

    A row with two different sides becomes two rows, the second named ``NAME%#lower``: readers disagree on
    rows with two sides.
    """
    columns = _all_legal(model.column_names())
    rows = _all_legal(model.row_names())
    bounds = list(zip(columns, model.lower.tolist(), model.upper.tolist(), strict=True))
    if not bounds:
        bounds = [(_NOTHING, 0.0, 0.0)]
    lines = ["Maximize" if model.sense == "maximize" else "Minimize"]
    terms = _terms(model.cost, columns)  # zeros too: readers number columns by first appearance
    if model.offset:
        terms.append(f"{'+' if model.offset >= 0 else '-'} {abs(model.offset)!r}")
    lines += _wrapped(f" {_OBJECTIVE}:", terms or [f"0 {bounds[0][0]}"])
    lines.append("Subject To")
    for row, name in enumerate(rows):
        part = slice(int(model.indptr[row]), int(model.indptr[row + 1]))
        body = _terms(model.data[part], [columns[c] for c in model.indices[part]])
        low, high = float(model.row_lower[row]), float(model.row_upper[row])
        lines += _lp_row(name, body or [f"0 {bounds[0][0]}"], low, high)
    lines.append("Bounds")
    lines += [f" {_bound(low)} <= {name} <= {_bound(high)}" for name, low, high in bounds]
    whole = [columns[c] for c in np.flatnonzero(model.integer)]
    if whole:
        lines += ["General", *(f" {name}" for name in whole)]
    return "\n".join([*lines, "End", ""])


def to_mps(model: LinearModel) -> str:
    """Return the model in free MPS format."""
    columns = _all_legal(model.column_names())
    rows = _all_legal(model.row_names())
    lines = [
        "NAME apportion",
        "OBJSENSE",
        " MAX" if model.sense == "maximize" else " MIN",
        "ROWS",
        f" N {_OBJECTIVE}",
    ]
    kinds = [_mps_kind(low, high) for low, high in zip(model.row_lower, model.row_upper, strict=True)]
    lines += [f" {kind} {name}" for kind, name in zip(kinds, rows, strict=True)]
    lines += ["COLUMNS", *_mps_columns(model, columns, rows), "RHS"]
    if model.offset:
        lines.append(f" RHS {_OBJECTIVE} {-model.offset!r}")
    for name, kind, low, high in zip(rows, kinds, model.row_lower, model.row_upper, strict=True):
        side = float(low) if kind == "G" else float(high)
        if side:
            lines.append(f" RHS {name} {repr(side) if math.isfinite(side) else _FAR}")
    ranged = [row for row, kind in enumerate(kinds) if kind == "L" and math.isfinite(model.row_lower[row])]
    if ranged:
        lines.append("RANGES")
        lines += [f" RNG {rows[r]} {float(model.row_upper[r] - model.row_lower[r])!r}" for r in ranged]
    lines += ["BOUNDS", *_mps_bounds(model, columns)]
    return "\n".join([*lines, "ENDATA", ""])


def _terms(coefficients: np.ndarray, names: list[str]) -> list[str]:
    return [
        f"{'+' if value >= 0 else '-'} {abs(value)!r} {name}"
        for value, name in zip(coefficients.tolist(), names, strict=True)
    ]


def _wrapped(head: str, terms: list[str]) -> list[str]:
    chunks = [terms[i : i + _TERMS_PER_LINE] for i in range(0, len(terms), _TERMS_PER_LINE)]
    lines = ["  " + " ".join(chunk) for chunk in chunks]
    return [head + lines[0][1:], *lines[1:]]


def _lp_row(name: str, body: list[str], low: float, high: float) -> list[str]:
    lines = _wrapped(f" {name}:", body)
    if low == high:
        return [*lines[:-1], f"{lines[-1]} = {high!r}"]
    if not math.isfinite(low) and not math.isfinite(high):
        return [*lines[:-1], f"{lines[-1]} >= {_FAR}"]
    written: list[str] = []
    both = math.isfinite(low) and math.isfinite(high)
    if math.isfinite(high):
        written += [*lines[:-1], f"{lines[-1]} <= {high!r}"]
    if math.isfinite(low):
        lower = _wrapped(f" {name}%#lower:", body) if both else lines
        written += [*lower[:-1], f"{lower[-1]} >= {low!r}"]
    return written


def _bound(value: float) -> str:
    return repr(value) if math.isfinite(value) else ("+inf" if value > 0 else "-inf")


def _mps_kind(low: float, high: float) -> str:
    if low == high:
        return "E"
    if math.isfinite(high):
        return "L"
    return "G"


def _mps_columns(model: LinearModel, columns: list[str], rows: list[str]) -> list[str]:
    matrix = model.matrix().tocsc()
    lines: list[str] = []
    inside = False
    for column, name in enumerate(columns):
        if bool(model.integer[column]) != inside:
            inside = not inside
            lines.append(f" MARKER 'MARKER' '{'INTORG' if inside else 'INTEND'}'")
        part = slice(matrix.indptr[column], matrix.indptr[column + 1])
        entries = (
            [(_OBJECTIVE, float(model.cost[column]))] if model.cost[column] or part.start == part.stop else []
        )
        entries += [
            (rows[r], v) for r, v in zip(matrix.indices[part], matrix.data[part].tolist(), strict=True)
        ]
        lines += [f" {name} {row} {value!r}" for row, value in entries]
    if inside:
        lines.append(" MARKER 'MARKER' 'INTEND'")
    return lines or [f" {_NOTHING} {_OBJECTIVE} 0"]


def _mps_bounds(model: LinearModel, columns: list[str]) -> list[str]:
    lines: list[str] = []
    for name, low, high in zip(columns, model.lower.tolist(), model.upper.tolist(), strict=True):
        if low == high:
            lines.append(f" FX BND {name} {low!r}")
            continue
        lines.append(f" LO BND {name} {low!r}" if math.isfinite(low) else f" MI BND {name}")
        lines.append(f" UP BND {name} {high!r}" if math.isfinite(high) else f" PL BND {name}")
    return lines or [f" FX BND {_NOTHING} 0"]
