"""Quantities that were written as words: ``"30 min"`` where seconds are meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["as_number"]

_QUANTITY = re.compile(r"\s*([-+]?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z%/]*)\s*")
_SECONDS: Mapping[str, float] = MappingProxyType(
    {
        "ms": 0.001,
        "s": 1.0,
        "sec": 1.0,
        "second": 1.0,
        "m": 60.0,
        "min": 60.0,
        "minute": 60.0,
        "h": 3600.0,
        "hour": 3600.0,
        "d": 86400.0,
        "day": 86400.0,
    }
)


def as_number(path: str, text: object) -> str:
    """Return a hint how a quantity is written as the number that its field asks for; empty where it is none.

    Parameters
    ----------
    path
        The field; one whose name ends in ``_s`` is in seconds.
    text
        What stands there.

    Examples
    --------
    >>> as_number("$.round_s", "2 min")
    '; write 120, the field is in seconds'
    >>> as_number("$.capacities.v100", "8 GPUs")
    "; write 8, without 'GPUs'"
    """
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return ""
    number, unit = match.groups()
    word = unit.lower()
    seconds = _SECONDS.get(word, _SECONDS.get(word.removesuffix("s")))
    if path.endswith("_s") and (not unit or seconds is not None):
        return f"; write {float(number) * (seconds or 1.0):g}, the field is in seconds"
    return f"; write {number}, without {unit!r}" if unit else f"; write {number}, without quotes"
