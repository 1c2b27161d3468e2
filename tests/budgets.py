"""How much a test draws: the README's command draws little of much, ``.ci/full`` draws all of it.

The profile of hypothesis decides: ``quick`` where none is named, all with ``--hypothesis-profile thorough``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["PROFILES", "examples", "rotated"]

PROFILES = {"quick": 20, "thorough": 100}
"""How many examples a test draws that does not say so itself."""

_FEWEST = 8


def examples(thorough: int) -> int:
    """Return how many examples the profile draws where the thorough one draws so many."""
    quick = max(_FEWEST, thorough * settings().max_examples // PROFILES["thorough"])
    return min(thorough, quick)


def rotated(values: Iterable[Any], one_in: int = 4) -> list[Any]:
    """Return the cases of a parametrised test: one in so many is quick, the others are slow."""
    return [
        value if place % one_in == 0 else pytest.param(*_apart(value), marks=pytest.mark.slow)
        for place, value in enumerate(values)
    ]


def _apart(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
