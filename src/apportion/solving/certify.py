"""The verified bound: computed vectorised and rounded outward, or exactly where rounding would show."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeGuard

import numpy as np

from apportion.instances.kinds import Kind
from apportion.options import Multipliers
from apportion.solving.structure import Structure
from apportion.solving.subject import Subject

__all__ = ["certified_bound", "outward"]

_LARGEST = 10**300
"""Bounds beyond this are of no use, and no double holds them much further."""


def certified_bound(
    kind: Kind, instance: Subject, structure: Structure, multipliers: Multipliers | None
) -> float | None:
    """Return the weak-duality bound of multipliers, never tighter than its exact value.

    Returns
    -------
    float or None
        ``None`` if the multipliers are unusable, their bound is beyond 1e300, or some required job has no
        admissible option.
    """
    names = structure.capacity_names
    if not usable(multipliers, len(names)):
        return None
    quick = structure.bound(multipliers)
    if quick is not None:
        return quick
    named = dict(zip(names, multipliers.tolist(), strict=True))
    exact = kind.exact_bound(instance, named)
    if exact is None or abs(exact) > _LARGEST:
        return None
    return outward(exact, upper=kind.maximizes(instance))


def usable(multipliers: Multipliers | None, num_capacities: int) -> TypeGuard[Multipliers]:
    """Return whether multipliers are an array of one finite number >= 0 per capacity."""
    return (
        isinstance(multipliers, np.ndarray)
        and multipliers.dtype == np.float64
        and multipliers.shape == (num_capacities,)
        and bool(np.isfinite(multipliers).all())
        and not bool((multipliers < 0).any())
    )


def outward(exact: Fraction, *, upper: bool) -> float:
    """Return the nearest double that is not below (`upper`) or not above an exact value."""
    near = float(exact)
    if upper:
        return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)
