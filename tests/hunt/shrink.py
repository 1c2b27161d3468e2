"""Make a case that goes wrong as small and as plain as it can be while the same sort of thing goes wrong."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.hunt.ask import asked
from tests.hunt.case import ASSIGNMENT, INSTANCE, MENUS, Case

__all__ = ["shrunk"]


def shrunk(case: Case, sort: str, seconds: float = 8.0) -> Case:
    """Return a smaller case with a mismatch of the same sort; the best found within the seconds."""
    until = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < until:
        progress = False
        for smaller in _smaller(case):
            if time.monotonic() >= until:
                break
            if _still(smaller, sort):
                case, progress = smaller, True
                break
    return case


def _still(case: Case, sort: str) -> bool:
    try:
        return any(found.sort == sort for found in asked(case).wrong)
    except Exception:  # what is no case any more is not smaller
        return False


def _smaller(case: Case) -> Iterator[Case]:
    if case.path != "plain":
        yield replace(case, path="plain")
    for name in case.options:
        if name == "deterministic" and {"again", "shuffle"} & case.options.keys():
            continue  # without it two answers may differ
        yield replace(case, options={key: value for key, value in case.options.items() if key != name})
    parts = {INSTANCE: _of_instance, MENUS: _of_menus, ASSIGNMENT: _of_assignment}[case.subject]
    for document in parts(case.document):
        yield case.with_document(document)
    for document in _plainer(case.document):
        yield case.with_document(document)


def _of_instance(told: Any) -> Iterator[Any]:
    """Drop jobs, options, machines, nodes, optional fields: anything that can be left out."""
    yield from _without(told, ())


def _without(told: Any, path: tuple[Any, ...]) -> Iterator[Any]:
    node = _at(told, path)
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        if key not in ("kind", "schema_version", "id"):
            other = copy.deepcopy(told)
            del _at(other, path)[key]
            yield other
    for key in keys:
        if isinstance(node[key], dict | list):
            yield from _without(told, (*path, key))


def _at(told: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        told = told[key]
    return told


def _rows(told: dict[str, Any], kept: list[int], columns: tuple[str, ...]) -> dict[str, Any]:
    """Return arguments of ``from_arrays`` with these rows only."""
    other = dict(told)
    for name in columns:
        other[name] = [told[name][row] for row in kept]
    bounds = told["offsets"]
    inside = [sum(low <= row < high for row in kept) for low, high in itertools.pairwise(bounds)]
    other["offsets"] = [sum(inside[:k]) for k in range(len(bounds))]
    return other


def _without_rows(told: dict[str, Any], columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    bounds, count = told["offsets"], len(told["values"])
    for job in range(len(bounds) - 1):
        kept = [row for row in range(count) if not bounds[job] <= row < bounds[job + 1]]
        other = _rows(told, kept, columns)
        other["offsets"] = other["offsets"][:job] + other["offsets"][job + 1 :]
        other["required"] = told["required"][:job] + told["required"][job + 1 :]
        yield other
    for row in range(count):
        yield _rows(told, [k for k in range(count) if k != row], columns)


def _of_menus(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from _without_rows(told, ("values", "uses"))
    for k in range(len(told["capacities"])):
        other = dict(told)
        other["capacities"] = told["capacities"][:k] + told["capacities"][k + 1 :]
        other["uses"] = [use[:k] + use[k + 1 :] for use in told["uses"]]
        yield other


def _of_assignment(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from _without_rows(told, ("values", "uses", "machine"))


def _plainer(told: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Replace numbers by plainer ones, and true by false."""
    node = _at(told, path)
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        value = node[key]
        if isinstance(value, dict | list):
            yield from _plainer(told, (*path, key))
        elif isinstance(value, int | float) and key not in ("offsets",) and path[-1:] != ("offsets",):
            for plain in _plain(value):
                other = copy.deepcopy(told)
                _at(other, path)[key] = plain
                yield other


def _plain(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield from (plain for plain in (0, 1, value // 2) if plain < value)
        return
    tried = [0.0, 1.0, float(f"{value:.0e}"), float(f"{value:.2e}"), float(f"{value:.5e}")]
    yield from (plain for plain in tried if len(repr(plain)) < len(repr(value)))
