"""A part of an instance, a job or a pool of machines, from what callers have: JSON objects, numpy numbers."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from apportion.errors import InvalidInstance, Problem
from apportion.instances.draft import edits_of
from apportion.instances.kinds import Instance, kind_of
from apportion.instances.plain import plain

__all__ = ["part"]

_P = TypeVar("_P")


def part(instance: Instance, wanted: type[_P], value: Any, path: str) -> _P:
    """Return a part of an instance in its type; what is one already comes back as it is.

    Parameters
    ----------
    instance
        The instance that it is to be a part of.
    wanted
        The type: of its jobs, of its pools of machines, or its own.
    value
        The part as decoded from JSON; numpy numbers, arrays and sequences stand where numbers and lists do.
    path
        Where it stands, for the paths of problems.

    Raises
    ------
    InvalidInstance
        If it is not of that type, with every problem found.
    """
    if isinstance(value, wanted):
        return value
    tree = plain(value)
    try:
        return msgspec.convert(tree, wanted)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInstance(_problems(instance, wanted, tree, path, error)) from None


def _problems(instance: Instance, wanted: type[Any], tree: Any, path: str, error: Exception) -> list[Problem]:
    from apportion.reading.diagnosis import problems_of_part

    edits = edits_of(instance)

    def rules(where: str, built: Any, problems: list[Problem]) -> None:
        if wanted is edits.job_type and edits.rules is not None:
            edits.rules.check(where, built, instance, problems)

    try:
        bare = msgspec.to_builtins(tree, str_keys=True)
        found = problems_of_part(kind_of(instance), wanted, bare, path, rules)
    except (TypeError, ValueError, RecursionError):
        found = []
    if found:
        return found
    return [Problem.of_decoding(error, path)]
