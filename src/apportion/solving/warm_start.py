"""An earlier answer carried over: its plan as the first incumbent, its multipliers as a hint."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from apportion.options import Multipliers, Start
from apportion.solution import Solution
from apportion.solving.call import Log
from apportion.solving.structure import Structure

__all__ = ["known_prices", "warm_start"]


def warm_start(structure: Structure, given: object, log: Log) -> Start:
    """Carry an earlier plan over to this instance, as far as it fits.

    Parameters
    ----------
    structure
        The instance's structured model.
    given
        An earlier `Solution`, stored document or plan; ``None`` for none.
    log
        Takes a note where nothing fits.
    """
    if given is None:
        return Start()
    earlier, prices = _earlier(given)
    near = None if earlier is None else structure.point(earlier)
    if near is None:
        log.note("the warm start is no plan of this kind of instance")
        return Start()
    point = structure.repaired(near)
    if point is None:
        log.note("the warm start could not be repaired into this instance")
    return Start(point, hint=known_prices(structure, prices))


def known_prices(structure: Structure, prices: Mapping[str, object]) -> Multipliers | None:
    """Return earlier multipliers by name as those of this model, ``None`` unless all are known and finite."""
    known = [_finite(prices.get(name)) for name in structure.capacity_names]
    return np.array(known, dtype=np.float64) if prices and None not in known else None


def _finite(price: object) -> float | None:
    """Return a stored multiplier as a double, ``None`` where it is no number that one holds."""
    if not isinstance(price, int | float):
        return None
    try:
        known = float(price)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None


def _earlier(given: object) -> tuple[object, Mapping[str, object]]:
    """Return the plan and the multipliers of an earlier `Solution`, stored document or plan."""
    if isinstance(given, Solution):
        return given.plan, given.certificate.multipliers or {}
    if isinstance(given, Mapping) and "plan" in given:
        certificate = given.get("certificate")
        prices = certificate.get("multipliers") if isinstance(certificate, Mapping) else None
        return given["plan"], prices if isinstance(prices, Mapping) else {}
    return given, {}
