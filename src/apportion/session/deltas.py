"""Every message that can change a session, ``{"op": "add_job", "job": {...}}`` and so on, and its reading.

Some are for some kinds of instances alone; what differs by kind stands in the table of kinds
(`apportion.instances.kind.Edits`), which what-if questions use too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from apportion.choices import did_you_mean
from apportion.errors import InvalidInstance, Problem
from apportion.instances.plain import make_plain, plain
from apportion.session.job_deltas import AddJob, Adopt, Pin, RemoveJob, Unpin, UpdateJob
from apportion.session.resource_deltas import RemoveNodes, SetCapacity, SetFields, SetMachine, SetNodes

__all__ = [
    "DELTAS",
    "AddJob",
    "Adopt",
    "Delta",
    "Pin",
    "RemoveJob",
    "RemoveNodes",
    "SetCapacity",
    "SetFields",
    "SetMachine",
    "SetNodes",
    "Unpin",
    "UpdateJob",
    "read_deltas",
]

Delta = (
    AddJob
    | UpdateJob
    | RemoveJob
    | SetCapacity
    | SetNodes
    | RemoveNodes
    | SetMachine
    | SetFields
    | Pin
    | Unpin
    | Adopt
)
"""Any of the messages."""

DELTAS: Mapping[str, type[Any]] = {delta.__struct_config__.tag: delta for delta in Delta.__args__}
"""The messages by their ``op``."""


def read_deltas(source: Any, path: str = "$.deltas") -> list[Delta]:
    """Return deltas from a list of them, each a `Delta` or as decoded from JSON.

    Raises
    ------
    InvalidInstance
        If one is no delta; paths begin with `path`, and every delta that is none is listed.
    """
    if isinstance(source, str | bytes | Mapping) or not isinstance(source, Iterable):
        raise InvalidInstance.at(path, "must be a list of deltas")
    found: list[Delta] = []
    problems: list[Problem] = []
    for index, given in enumerate(source):
        try:
            found.append(_read(given, f"{path}[{index}]"))
        except InvalidInstance as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInstance(problems)
    return found


def _read(given: Any, path: str) -> Delta:
    if isinstance(given, Delta):
        make_plain(given)
        return given
    known = ", ".join(DELTAS)
    if not isinstance(given, Mapping):
        raise InvalidInstance.at(path, f"must be an object with an op, one of {known}")
    op = given.get("op")
    if not isinstance(op, str) or op not in DELTAS:
        meant = did_you_mean(op, DELTAS)
        wrong = "is missing" if op is None else f"{op!r} is no delta"
        raise InvalidInstance.at(f"{path}.op", f"{wrong}; there are {known}{meant}")
    try:
        read: Delta = msgspec.convert(plain(given), DELTAS[op])
        return read
    except msgspec.ValidationError as error:
        raise InvalidInstance(_misshapen(DELTAS[op], given, error, path)) from None


def _misshapen(delta: type[Any], given: Mapping[str, Any], error: Exception, path: str) -> list[Problem]:
    """Return which fields of a delta are missing, unknown or of the wrong type."""
    fields = delta.__struct_fields__
    problems = [Problem(f"{path}.{name}", "is missing") for name in fields if name not in given]
    problems += [
        Problem(f"{path}.{name}", f"is an unknown field{did_you_mean(str(name), fields)}")
        for name in given
        if name not in (*fields, "op")
    ]
    return problems or [Problem.of_decoding(error, path)]
