"""How much a test draws: the README's command draws little of much, ``.ci/full`` draws all of it.

The profile of hypothesis decides: ``quick`` where none is named, all with ``--hypothesis-profile thorough``.
Of the cases of a test marked ``one_in`` some are quick and the others slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import settings

__all__ = ["PROFILES", "examples", "thin"]

PROFILES = {"quick": 10, "thorough": 100}
"""How many examples a test draws that does not say so itself."""


def examples(thorough: int, fewest: int = 8) -> int:
    """Return how many examples the profile draws where the thorough one draws so many."""
    quick = max(fewest, thorough * settings().max_examples // PROFILES["thorough"])
    return min(thorough, quick)


def thin(items: Iterable[pytest.Item]) -> None:
    """Mark as slow, of a test marked ``one_in(n)``, all cases but every n-th, in the order of collection.

    Of parameters that are crossed every value is met where n has no factor in common with how many they are.
    """
    met: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            if met[test] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            met[test] += 1
