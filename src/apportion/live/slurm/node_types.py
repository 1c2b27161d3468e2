"""The types of nodes that jobs tell apart: features and GPUs by their names, or several that count as one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from apportion.errors import InvalidOption

__all__ = ["NodeTypes", "type_of", "types_of"]

NodeTypes = Mapping[str, frozenset[str]]
"""By the name of a type the features or GPU types of nodes that are of it, in the order of preference."""

_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def types_of(words: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the types of words: ``NAME``, a feature of nodes, or ``NAME=ONE+ANOTHER``, which count as one.

    Raises
    ------
    InvalidOption
        If a word is neither, or a name is there twice.
    """
    types: dict[str, frozenset[str]] = {}
    for word in words:
        name, several, told = word.partition("=")
        members = told.split("+") if several else [name]
        wrong = [one for one in (name, *members) if not _NAME.match(one)]
        if wrong or name in types:
            why = f"{name!r} is there twice" if not wrong else f"{wrong[0]!r} is no name of a type"
            raise InvalidOption(f"types are NAME or NAME=ONE+ANOTHER, each once; in {word!r} {why}")
        types[name] = frozenset(members)
    return types


def type_of(types: NodeTypes, features: Collection[str], gpus: Collection[str] = ()) -> str:
    """Return the type of a node: the first that it is of, else that of its GPUs, if all are of one.

    Parameters
    ----------
    types
        As of `types_of`.
    features, gpus
        Its features, and the types of its GPUs as Slurm names them, empty for GPUs without one.
    """
    sorts = set(gpus)
    for name, members in types.items():
        if not members.isdisjoint(features) or (sorts and sorts <= members):
            return name
    return sorts.pop() if len(sorts) == 1 else ""
