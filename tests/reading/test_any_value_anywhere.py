"""Every value of every shipped instance, replaced by each type there is: an instance, or one clear error."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion import InvalidInstance, read

EXAMPLES = (
    "freezing_small.json",
    "gap_filling_small.json",
    "matching_unrelated.json",
    "matching_gangs.json",
    "sia_round.json",
    "three_teams.json",
)
OTHERS: tuple[Any, ...] = ({}, [], {"id": "x"}, ["x"], None, True, "x", "", -1, 0, 1.5, 1e300, 10**30)


def places(value: Any, at: tuple[Any, ...] = (), kind: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield every path with what it is a path of, list positions and ids left out of the latter."""
    yield at, kind
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, (*at, key), (*kind, key if len(value) < 12 else "any"))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from places(one, (*at, index), (*kind, "*"))


def replaced(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value at a path."""
    changed = copy.deepcopy(document)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return changed


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_twelfth_of_the_values_anywhere_is_read_or_refused(root: Path, name: str) -> None:
    tried(json.loads((root / "examples" / name).read_text()), 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_any_value_anywhere_is_read_or_refused(root: Path, name: str) -> None:
    tried(json.loads((root / "examples" / name).read_text()), 1)


def tried(document: Any, one_in: int) -> None:
    """Replace the value at every place by one in so many of the others, by others at the next place."""
    once = {kind: at for at, kind in places(document) if at}
    refused = 0
    for number, at in enumerate(once.values()):
        for value in OTHERS[number % one_in :: one_in]:
            try:
                read(replaced(document, at, value))
            except InvalidInstance as error:
                refused += 1
                assert error.problems and len(str(error)) < 20_000
    assert refused > 5 / one_in * len(once), "most replacements are mistakes"
