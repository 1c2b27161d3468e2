"""Names of options that say flavors and counts and can be read back: ``main*4[cpu=spot,memory=spot]``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Assigned", "option_name", "parsed_option"]

_PART = re.compile(r"([^*+\[\]]+)\*(\d+)\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Assigned:
    """One pod set of an option.

    Attributes
    ----------
    name
        Of the pod set.
    count
        Pods.
    flavors
        Flavor by resource.
    """

    name: str
    count: int
    flavors: Mapping[str, str]


def option_name(parts: Iterable[Assigned]) -> str:
    """Return the name of an option.

    Examples
    --------
    >>> option_name([Assigned("main", 4, {"cpu": "spot"})])
    'main*4[cpu=spot]'
    """
    said = []
    for part in parts:
        flavors = ",".join(f"{resource}={flavor}" for resource, flavor in sorted(part.flavors.items()))
        said.append(f"{part.name}*{part.count}[{flavors}]")
    return "+".join(said)


def parsed_option(name: str) -> tuple[Assigned, ...] | None:
    """Return what an option's name says, ``None`` for a name of another make.

    Examples
    --------
    >>> parsed_option("main*4[cpu=spot]")
    (Assigned(name='main', count=4, flavors={'cpu': 'spot'}),)
    """
    found = []
    for part in name.split("+"):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        pairs = [pair.split("=", 1) for pair in match[3].split(",") if pair]
        if any(len(pair) != 2 for pair in pairs):
            return None
        found.append(Assigned(match[1], int(match[2]), dict(pairs)))
    return tuple(found)
