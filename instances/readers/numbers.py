"""A text file as numbers that remember where they stood, and exact whole numbers out of decimal ones."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.fields import LARGEST_COUNT, LARGEST_USE

__all__ = ["Numbers", "select_problem", "whole_uses"]

_EXACT = 2.0**53
"""Whole numbers up to here are exact in a double."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The whitespace-separated numbers of a file; build it with `parse`.

    Attributes
    ----------
    raw
        The file.
    tokens
        Its words.
    values
        float64 [tokens], finite.
    """

    raw: bytes
    tokens: list[bytes]
    values: NDArray[np.float64]

    @classmethod
    def parse(cls, raw: bytes) -> Numbers:
        """Split and convert; `InvalidInstance` names the line and token of the first that is no number."""
        raw = raw.removeprefix(b"\xef\xbb\xbf")
        tokens = raw.split()
        try:
            values = np.array(list(map(float, tokens)), dtype=np.float64)
        except ValueError:
            values = None
        if values is None or b"_" in raw or not np.isfinite(values).all():
            bad = next(position for position, token in enumerate(tokens) if not _is_number(token))
            shown = repr(tokens[bad][:40].decode("utf-8", "replace"))
            raise InvalidInstance(Problem(_place(raw, bad), f"expected a finite number, found {shown}"))
        return cls(raw, tokens, values)

    def __len__(self) -> int:
        return len(self.tokens)

    def place(self, position: int) -> str:
        """Say where a token stands, as ``line 3, token 2``, both from 1."""
        return _place(self.raw, position)

    def count(self, position: int, what: str, low: int = 1) -> int:
        """Return the whole number at a position, from `low` to 1e9, or say what was expected there."""
        if position >= len(self.tokens):
            raise InvalidInstance(
                Problem("end of file", f"expected {what}, the file ends after {len(self)} numbers")
            )
        value = float(self.values[position])
        if not value.is_integer() or not low <= value <= LARGEST_COUNT:
            found = self.tokens[position].decode()
            raise InvalidInstance(
                Problem(
                    self.place(position), f"expected {what}, a whole number of at least {low}, found {found}"
                )
            )
        return int(value)


def select_problem(index: int, count: int) -> None:
    """Raise `InvalidInstance` unless `index` is one of the file's `count` problems."""
    if not 0 <= index < count:
        numbered = "" if count == 0 else f", index 0 to {count - 1}"
        plural = "" if count == 1 else "s"
        raise InvalidInstance(
            Problem(
                f"$.problem[{index}]", f"does not exist: the file holds {count} problem{plural}{numbered}"
            )
        )


def whole_uses(
    numbers: Numbers, use_at: NDArray[np.int64], capacity_at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return int64 uses [options, capacities] and int64 capacities from the positions they stand at.

    Where a capacity or a use of it has decimals, that capacity and all its uses are multiplied by the
    smallest power of ten that makes them whole, in decimal arithmetic: the feasible choices stay the same.

    Raises
    ------
    InvalidInstance
        If one is negative or too large; the message names its line and token.
    """
    uses, capacities = numbers.values[use_at], numbers.values[capacity_at]
    for at, values, high, what in (
        (use_at, uses, float(LARGEST_USE), "use of a capacity"),
        (capacity_at, capacities, _EXACT, "capacity"),
    ):
        wrong = (values < 0) | (values > high)
        if wrong.any():
            position = int(at[wrong][0])
            found = numbers.tokens[position].decode()
            raise InvalidInstance(
                Problem(numbers.place(position), f"expected a {what} from 0 to {high:g}, found {found}")
            )
    whole_use, whole_capacity = np.rint(uses), np.rint(capacities)
    decimal = (whole_use != uses).any(axis=0) | (whole_capacity != capacities)
    scaled_uses, scaled_capacities = whole_use.astype(np.int64), whole_capacity.astype(np.int64)
    for k in np.flatnonzero(decimal):
        positions = [int(capacity_at[k]), *map(int, use_at[:, k])]
        scaled = _scaled([Decimal(numbers.tokens[position].decode()) for position in positions])
        if scaled is None:
            message = f"capacity {k} and its uses have too many decimals to be scaled to whole numbers"
            raise InvalidInstance(Problem(numbers.place(positions[0]), message))
        scaled_capacities[k], scaled_uses[:, k] = scaled[0], scaled[1:]
    return scaled_uses, scaled_capacities


def _scaled(exact: list[Decimal]) -> list[int] | None:
    exponents = [number.normalize().as_tuple().exponent for number in exact]
    decimals = max(0, *(-exponent for exponent in exponents if isinstance(exponent, int)))
    if decimals > 15:
        return None
    scaled = [int(number.scaleb(decimals)) for number in exact]
    return scaled if max(scaled[1:], default=0) <= LARGEST_USE and scaled[0] <= _EXACT else None


def _is_number(token: bytes) -> bool:
    try:
        return b"_" not in token and bool(np.isfinite(float(token)))
    except ValueError:
        return False


def _place(raw: bytes, position: int) -> str:
    seen = 0
    for line, text in enumerate(raw.splitlines(), start=1):
        words = len(text.split())
        if position < seen + words:
            return f"line {line}, token {position - seen + 1}"
        seen += words
    return "end of file"
