"""Kubernetes quantities as whole numbers: cpu in thousandths of a core, all else in pieces or bytes."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

__all__ = ["amount"]

_QUANTITY = re.compile(r"^([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$")
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    **{name: Fraction(1000) ** power for power, name in enumerate("MGTPE", start=2)},
    **{f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", start=1)},
}


def amount(value: Any, resource: str | None = None) -> int | Fraction:
    """Return a quantity.

    Parameters
    ----------
    value
        As Kubernetes writes it: ``"500m"``, ``"1Gi"``, ``4``.
    resource
        ``"cpu"`` is counted in thousandths, others in whole units rounded up; ``None``: the exact number.

    Raises
    ------
    ValueError
        If it is no quantity.

    Examples
    --------
    >>> amount("1500m", "cpu"), amount("1Gi", "memory"), amount("2", "nvidia.com/gpu"), amount("500m")
    (1500, 1073741824, 2, Fraction(1, 2))
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no quantity")
    found = _QUANTITY.match(str(value).strip())
    if found is None:
        raise ValueError(f"{value!r} is no quantity")
    digits, suffix, exponent = found.groups()
    number = Fraction(digits) * (_SUFFIX[suffix] if suffix else 1) * Fraction(10) ** int(exponent or 0)
    if resource is None:
        return number
    return -((-number * (1000 if resource == "cpu" else 1)) // 1)
