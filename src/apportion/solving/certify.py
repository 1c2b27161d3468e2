"""The verified bound: computed vectorised and rounded outward, or exactly where rounding would show."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import AssignmentFormulation, KnapsackFormulation
from apportion.instances.kinds import Kind
from apportion.solving.structure import quick_bound, structured

__all__ = ["certified_bound", "outward"]


def certified_bound(
    kind: Kind,
    instance: Any,
    formulation: KnapsackFormulation | AssignmentFormulation,
    multipliers: NDArray[np.float64] | None,
) -> float | None:
    """Return the weak-duality bound of multipliers, never tighter than its exact value.

    Returns
    -------
    float or None
        ``None`` if the multipliers are unusable or some required job has no admissible option.
    """
    model = structured(formulation)
    if not usable(multipliers, model.num_capacities):
        return None
    assert multipliers is not None
    quick = quick_bound(model, multipliers, formulation.value_error)
    if quick is not None:
        return quick
    named = dict(zip(model.capacity_names, multipliers.tolist(), strict=True))
    exact = kind.exact_bound(instance, named)
    return None if exact is None else outward(exact, upper=kind.maximizes(instance))


def usable(multipliers: NDArray[np.float64] | None, num_capacities: int) -> bool:
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
