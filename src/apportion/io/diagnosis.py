"""Everything that is wrong with an instance file, not only the first thing.

Three views are merged: the text (repeated keys, NaN), the fields that objects lack or do not have, and what
the instance says of itself, built as far as that goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from apportion.core.errors import InvalidInstance, Problem, did_you_mean
from apportion.instances.fields import elsewhere, normalise, quoted
from apportion.instances.kinds import any_instance, kinds
from apportion.io.places import located
from apportion.io.text import REPEATED, parse

__all__ = ["problems_of", "problems_of_part"]

_SOLUTION = frozenset({"kind", "plan", "termination"})
"""Fields of every stored solution; no instance has the last two."""


def problems_of(raw: bytes) -> list[Problem]:
    """Return every problem of an instance in JSON, with JSON paths; empty if it is valid.

    Parameters
    ----------
    raw
        The whole file.
    """
    try:
        tree, problems = parse(raw)
    except InvalidInstance as error:
        return list(error.problems)
    wrong_kind = _kind_problem(tree)
    if wrong_kind is not None:
        return located(raw, tree, [*problems, wrong_kind])
    unusable = {problem.path for problem in problems if problem.message != REPEATED}
    within = problems_of_part(kinds()[tree["kind"]].type, tree, "$")
    found = [*problems, *(problem for problem in within if problem.path not in unusable)]
    return located(raw, tree, found) if found else _last_word(raw)


def problems_of_part(
    wanted: type[Any],
    tree: Mapping[str, Any],
    path: str,
    rules: Callable[[str, Any, list[Problem]], None] | None = None,
) -> list[Problem]:
    """Return what is wrong with an instance or a part of one, a job for instance.

    Parameters
    ----------
    wanted
        The part's type.
    tree
        The part, as decoded from JSON.
    path
        Where it stands.
    rules
        ``rules(path, part, problems)``: notes what else is wrong with a part whose fields are right.
    """
    builder = _Builder()
    try:
        built = builder.build(wanted, tree, path)
        found = normalise(built, path)
        if rules is not None and not (found or builder.problems):
            rules(path, built, found)
    except InvalidInstance as error:
        found = [replace(problem, path=f"{path}{problem.path[1:]}") for problem in error.problems]
    return [*builder.problems, *elsewhere(found, builder.places)]


def _kind_problem(tree: Any) -> Problem | None:
    known = ", ".join(kinds())
    if not isinstance(tree, dict):
        return Problem("$", f"must be one JSON object, not {_noun(tree)}")
    if tree.keys() >= _SOLUTION:
        return Problem("$", "is a solution, not an instance: `apportion check INSTANCE SOLUTION` verifies it")
    if "kind" not in tree:
        return Problem("$.kind", f"is missing; the kinds are {known}")
    kind = tree["kind"]
    if not isinstance(kind, str) or kind not in kinds():
        meant = did_you_mean(kind, kinds())
        return Problem("$.kind", f"{quoted(kind)} is no kind of instance; the kinds are {known}{meant}")
    return None


class _Builder:
    """Constructs Structs from a tree whatever its values are; notes what objects lack or have too much.

    Attributes
    ----------
    problems
        What is wrong with the shape of objects.
    places
        Paths at and below which nothing else is said.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.places: list[str] = []

    def build(self, expected: Any, value: Any, path: str) -> Any:
        """Return a Struct, a tuple or dict of them, or the value itself; absent ones are ``None``."""
        expected = self._member(expected, value, path)
        if isinstance(expected, type) and issubclass(expected, msgspec.Struct):
            return self._struct(expected, value, path)
        if get_origin(expected) is tuple and isinstance(value, list | tuple):
            member = get_args(expected)[0]
            return tuple([self.build(member, one, f"{path}[{at}]") for at, one in enumerate(value)])
        if get_origin(expected) is dict and isinstance(value, dict):
            member = get_args(expected)[1]
            return {name: self.build(member, one, f"{path}.{name}") for name, one in value.items()}
        return value

    def _struct(self, expected: type[msgspec.Struct], value: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            self._note(path, f"must be an object, not {quoted(value)}")
            value = {}
        elif unknown := value.keys() - {*expected.__struct_encode_fields__, _config(expected).tag_field}:
            known = expected.__struct_encode_fields__
            for name in filter(unknown.__contains__, value):
                self._note(f"{path}.{name}", f"is an unknown field{did_you_mean(name, known)}")
        given = {}
        for field in msgspec.structs.fields(expected):
            where = f"{path}.{field.encode_name}"
            if field.encode_name in value:
                given[field.name] = self.build(field.type, value[field.encode_name], where)
            elif field.required:
                given[field.name] = None
                self._note(where, "is missing")
        return expected(**given)

    def _note(self, path: str, said: str) -> None:
        self.problems += elsewhere([Problem(path, said)], self.places)
        self.places.append(path)

    def _member(self, expected: Any, value: Any, path: str) -> Any:
        """Return the member of a union that objects, or arrays, are built from; other types as they are."""
        if get_origin(expected) is Annotated:
            expected = get_args(expected)[0]
        if get_origin(expected) not in (Union, UnionType):
            return expected
        members = [self._member(member, value, path) for member in get_args(expected)]
        tagged = [one for one in members if getattr(_config(one), "tag", None) is not None]
        if tagged and isinstance(value, dict):
            by_tag = {_config(one).tag: one for one in tagged}
            said = value.get(field := _config(tagged[0]).tag_field)
            if isinstance(said, str) and said in by_tag:
                return by_tag[said]
            meant = did_you_mean(said, by_tag)
            self._note(f"{path}.{field}", f"must be one of {', '.join(by_tag)}, not {quoted(said)}{meant}")
            self.places.append(path)
            return expected
        for member in members:
            origin = get_origin(member)
            is_object = origin is dict or (isinstance(member, type) and issubclass(member, msgspec.Struct))
            if (is_object and isinstance(value, dict)) or (
                origin is tuple and isinstance(value, list | tuple)
            ):
                return member
        alone = [member for member in members if member not in (NoneType, UnsetType)]
        return alone[0] if len(alone) == 1 and value is not None else expected


def _config(member: Any) -> Any:
    return getattr(member, "__struct_config__", None)


def _last_word(raw: bytes) -> list[Problem]:
    """Return msgspec's own message where nothing else found a reason."""
    try:
        msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"), type=any_instance())
    except InvalidInstance as error:
        return list(error.problems)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return [Problem.of_decoding(error)]
    return []


def _noun(value: Any) -> str:
    if value is None:
        return "null"
    names = {list: "an array", str: "a string", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
