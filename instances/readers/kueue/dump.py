"""The objects of a dump by kind, and the list of what in them is not used."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from apportion.errors import InvalidInstance, Problem
from apportion.instances.readers.kueue.quantities import amount

__all__ = ["Notes", "by_kind", "integer", "listed", "mapping", "name_of", "whole"]

_GROUP = "kueue.x-k8s.io/"
_VERSIONS = ("v1beta1", "v1beta2", "v1alpha1")
_SPACE = re.compile(r"\s*")
_USED = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Workload")


class Notes:
    """What an instance does not say of a dump, a line for each field with how often it was met.

    Attributes
    ----------
    problems
        What is wrong with the dump.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._met: dict[str, list[str]] = {}

    def add(self, what: str, where: str) -> None:
        """Note that something of an object is not used."""
        self._met.setdefault(what, []).append(where)

    def unused(
        self, kind: str, name: str, path: str, given: Mapping[str, Any], used: Collection[str]
    ) -> None:
        """Note every field of an object that says something and is not used."""
        for field, value in given.items():
            if field not in used and value not in (None, "", [], {}, False):
                self.add(f"{kind} {path}.{field} is not used", name)

    def lines(self) -> list[str]:
        """Return the notes, sorted, with the first objects that they are about."""
        found = []
        for what, names in sorted(self._met.items()):
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            found.append(f"{what} ({len(names)}: {shown})")
        return found


def by_kind(raw: bytes, notes: Notes) -> dict[str, list[Mapping[str, Any]]]:
    """Return the objects of a dump by kind.

    Parameters
    ----------
    raw
        A ``List``, a single object, or several of them one after the other.
    notes
        Objects of other kinds and versions are noted.

    Raises
    ------
    InvalidInstance
        If it is no JSON, or not made of objects.
    """
    found: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _USED}
    for place, entry in enumerate(_entries(raw)):
        kind, version = str(entry.get("kind")), str(entry.get("apiVersion", ""))
        if not version.startswith(_GROUP) or version.removeprefix(_GROUP) not in _VERSIONS:
            notes.add(f"objects of kind {kind} ({version or 'no apiVersion'}) are not used", _called(entry))
        elif kind not in found:
            notes.add(f"objects of kind {kind} are not used", _called(entry))
        elif not isinstance(mapping(entry, "metadata").get("name"), str):
            notes.problems.append(Problem(f"$.items[{place}].metadata.name", "must be a name"))
        else:
            found[kind].append(entry)
    return found


def mapping(of: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the object at a path, an empty one where there is none."""
    at: Any = of
    for field in path:
        at = at.get(field) if isinstance(at, Mapping) else None
    return at if isinstance(at, Mapping) else {}


def listed(of: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list, an empty one where there is none."""
    value = of.get(field)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def name_of(entry: Mapping[str, Any]) -> str:
    """Return an object's name, with its namespace where it has one."""
    metadata = mapping(entry, "metadata")
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def whole(value: Any, resource: str, path: str, notes: Notes) -> int:
    """Return an amount of a resource; a wrong one is a problem and counts as 0."""
    try:
        found = int(amount(value, resource))
    except ValueError as error:
        notes.problems.append(Problem(path, str(error)))
        return 0
    if not 0 <= found < 2**63:
        notes.problems.append(Problem(path, f"must be from 0 to 2^63 - 1, is {value!r}"))
        return 0
    return found


def integer(value: Any, missing: int, path: str, notes: Notes) -> int:
    """Return a whole number, `missing` where there is none; a wrong one is a problem and counts as that."""
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int) or not -(10**9) <= value <= 10**9:
        notes.problems.append(Problem(path, f"must be a whole number up to 10^9, is {value!r}"))
        return missing
    return value


def _entries(raw: bytes) -> list[Mapping[str, Any]]:
    try:
        text, decoder, roots = raw.decode("utf-8-sig").strip(), json.JSONDecoder(), []
        at = 0
        while at < len(text):
            root, at = decoder.raw_decode(text, at)
            roots.append(root)
            gap = _SPACE.match(text, at)
            at = gap.end() if gap is not None else at
    except (ValueError, RecursionError) as error:
        raise InvalidInstance(Problem("$", f"cannot be read as JSON: {error}")) from None
    entries: list[Any] = []
    for root in roots:
        is_list = isinstance(root, Mapping) and isinstance(root.get("items"), list)
        entries.extend(root["items"] if is_list else root if isinstance(root, list) else [root])
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise InvalidInstance(Problem("$.items", "must be a list of Kubernetes objects"))
    return entries


def _called(entry: Mapping[str, Any]) -> str:
    return str(mapping(entry, "metadata").get("name", "without a name"))
