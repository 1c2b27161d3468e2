"""The same instance, its jobs, options, machines and capacities listed in another order."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["permuted"]

_LISTS = ("jobs", "options", "machines", "menu")
_OBJECTS = ("on", "gpus", "capacities", "uses")


def permuted(told: Any, rng: Random) -> Any:
    """Return a copy in another order; lists whose order means something stay as they are."""
    if not isinstance(told, dict):
        return told
    other = {}
    for key, value in told.items():
        if key in _LISTS:
            other[key] = rng.sample([permuted(item, rng) for item in value], len(value))
        elif key in _OBJECTS and isinstance(value, dict):
            names = rng.sample(list(value), len(value))
            other[key] = {name: permuted(value[name], rng) for name in names}
        else:
            other[key] = value
    return other
