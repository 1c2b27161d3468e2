"""Everything that is wrong with an instance file, not only the first thing.

Three views are merged: the text (repeated keys, NaN), the JSON Schema of its kind, and the kind's own rules
run over as much of the instance as can be built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from apportion.core.errors import InvalidInstance, Problem, did_you_mean
from apportion.instances.kinds import ProblemType, any_instance, kinds
from apportion.io.places import located
from apportion.io.text import REPEATED, parse

__all__ = ["as_number", "problems_of", "problems_of_part"]


_QUANTITY = re.compile(r"\s*([-+]?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z%/]*)\s*")
_SECONDS: Mapping[str, float] = MappingProxyType(
    {
        "ms": 0.001,
        "s": 1.0,
        "sec": 1.0,
        "second": 1.0,
        "m": 60.0,
        "min": 60.0,
        "minute": 60.0,
        "h": 3600.0,
        "hour": 3600.0,
        "d": 86400.0,
        "day": 86400.0,
    }
)


def as_number(path: str, text: object) -> str:
    """Return a hint how a quantity is written as the number that its field asks for; empty where it is none.

    Parameters
    ----------
    path
        The field; one whose name ends in ``_s`` is in seconds.
    text
        What stands there.

    Examples
    --------
    >>> as_number("$.round_s", "2 min")
    '; write 120, the field is in seconds'
    >>> as_number("$.capacities.v100", "8 GPUs")
    "; write 8, without 'GPUs'"
    """
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return ""
    number, unit = match.groups()
    word = unit.lower()
    seconds = _SECONDS.get(word, _SECONDS.get(word.removesuffix("s")))
    if path.endswith("_s") and (not unit or seconds is not None):
        return f"; write {float(number) * (seconds or 1.0):g}, the field is in seconds"
    return f"; write {number}, without {unit!r}" if unit else f"; write {number}, without quotes"


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
    kind = kinds()[tree["kind"]]
    unusable = {problem.path for problem in problems if problem.message != REPEATED}
    by_rule = [problem for problem in _rule_problems(kind.type, tree) if problem.path not in unusable]
    ruled = {problem.path for problem in by_rule}
    by_schema = [
        problem
        for problem, vague in _schema_problems(kind.name, tree)
        if problem.path not in unusable and not (vague and problem.path in ruled)
    ]
    shaped = {problem.path for problem in by_schema}
    found = [*problems, *by_schema, *(problem for problem in by_rule if problem.path not in shaped)]
    return located(raw, tree, found) if found else _last_word(raw)


def problems_of_part(
    kind: ProblemType,
    wanted: type[Any],
    tree: Any,
    path: str,
    rules: Callable[[str, Any, list[Problem]], None],
) -> list[Problem]:
    """Return what is wrong with one part of an instance, a job for instance.

    Parameters
    ----------
    kind
        The kind of the instance.
    wanted
        The part's type.
    tree
        The part, as decoded from JSON.
    path
        Where it stands.
    rules
        ``rules(path, part, problems)``: notes what else is wrong with whatever can be built of it.
    """
    shaped = [
        (Problem(f"{path}{problem.path[1:]}", problem.message), vague)
        for problem, vague in _schema_problems(kind.name, tree, wanted.__name__)
    ]
    by_rule: list[Problem] = []
    if isinstance(tree, Mapping):
        try:
            rules(path, _Builder().build(wanted, tree), by_rule)
        except InvalidInstance as error:
            by_rule = [replace(found, path=f"{path}{found.path[1:]}") for found in error.problems]
    ruled = {problem.path for problem in by_rule}
    by_schema = [problem for problem, vague in shaped if not (vague and problem.path in ruled)]
    places = {problem.path for problem in by_schema}
    return [*by_schema, *(problem for problem in by_rule if problem.path not in places)]


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
        return Problem(
            "$.kind", f"{_quoted_value(kind)} is no kind of instance; the kinds are {known}{meant}"
        )
    return None


def _schema_problems(kind: str, tree: Any, part: str | None = None) -> list[tuple[Problem, bool]]:
    """Return what the schema finds; ``True`` marks messages that a rule at the same place says better."""
    import jsonschema_rs

    from apportion.io.schemas import committed

    found: list[tuple[Problem, bool]] = []
    schema = committed(kind)
    if part is not None:
        schema = {**schema, "$ref": f"#/$defs/{part}"}
    fields = _fields_of(schema)
    for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(tree):
        found.extend(_worded(_path(error.instance_path), error, fields))
    return found


def _fields_of(schema: Any) -> tuple[str, ...]:
    """Return the names of all fields that a schema knows, at any depth."""
    parts = [schema, *schema.get("$defs", {}).values()]
    return tuple(dict.fromkeys(name for part in parts for name in part.get("properties", {})))


def _unknown(name: str, fields: tuple[str, ...]) -> str:
    """Return what to say of a field that a schema does not know."""
    return f"is an unknown field{did_you_mean(name, fields)}"


def _worded(path: str, error: Any, fields: tuple[str, ...]) -> list[tuple[Problem, bool]]:
    what = error.kind
    if what.name == "required":
        return [(Problem(f"{path}.{what.property}", "is missing"), False)]
    if what.name == "additionalProperties":
        return [(Problem(f"{path}.{name}", _unknown(name, fields)), False) for name in what.unexpected]
    shown = _quoted_value(error.instance)
    if what.name == "type":
        hint = as_number(path, error.instance) if {"number", "integer"} & set(what.types) else ""
        return [(Problem(path, f"must be of type {' or '.join(what.types)}, not {shown}{hint}"), False)]
    if what.name == "enum":
        options = (
            " or ".join(map(_quoted_value, what.options)) if isinstance(what.options, list) else what.options
        )
        words = what.options if isinstance(what.options, list) else ()
        meant = did_you_mean(error.instance, [word for word in words if isinstance(word, str)])
        return [(Problem(path, f"must be {options}, not {shown}{meant}"), False)]
    if what.name == "minimum":
        return [(Problem(path, f"must be at least {what.limit:g}, not {shown}"), True)]
    if what.name == "maximum":
        return [(Problem(path, f"must be at most {what.limit:g}, not {shown}"), True)]
    if what.name == "anyOf" and isinstance(error.instance, dict):
        return _of_the_named(path, error, fields)
    if what.name == "anyOf":
        inner = next((errors[0] for errors in what.context if not _wants_null(errors[0])), None)
        return [] if inner is None else [(problem, True) for problem, _ in _worded(path, inner, fields)]
    return [(Problem(path, f"{shown} is not valid here"), True)]


def _of_the_named(path: str, error: Any, fields: tuple[str, ...]) -> list[tuple[Problem, bool]]:
    """Return what is wrong with an object that says which of several types it is."""
    depth, known = len(error.instance_path), dict[str, str]()
    for errors in error.kind.context:
        names = [one for one in errors if one.kind.name == "enum" and len(one.instance_path) == depth + 1]
        if not names and not any(
            one.kind.name == "type" and len(one.instance_path) == depth for one in errors
        ):
            return [found for one in errors for found in _worded(_path(one.instance_path), one, fields)]
        known |= {option: names[0].instance_path[-1] for one in names for option in one.kind.options}
    for field in dict.fromkeys(known.values()):
        said = error.instance.get(field)
        meant = did_you_mean(said, known)
        return [
            (Problem(f"{path}.{field}", f"must be one of {', '.join(known)}, not {said!r}{meant}"), False)
        ]
    return [(Problem(path, "is not valid here"), True)]


def _path(parts: Iterable[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _wants_null(error: Any) -> bool:
    return bool(error.kind.name == "type" and error.kind.types == ["null"])


def _rule_problems(kind_type: type[Any], tree: Mapping[str, Any]) -> list[Problem]:
    """Return what the kind's own rules find in whatever of the tree can be built, valid or not."""
    try:
        _Builder().build(kind_type, tree)
    except InvalidInstance as error:
        return list(error.problems)
    return []


class _Builder:
    """Constructs Structs from a tree without validating; the fields of a type are looked up once."""

    def __init__(self) -> None:
        self._fields: dict[type[Any], tuple[msgspec.structs.FieldInfo, ...]] = {}

    def build(self, expected: Any, value: Any) -> Any:
        """Return a Struct, a tuple or dict of them, or the value itself; absent ones are ``None``."""
        expected = _member(expected, value)
        if isinstance(expected, type) and issubclass(expected, msgspec.Struct) and isinstance(value, dict):
            if expected not in self._fields:
                self._fields[expected] = msgspec.structs.fields(expected)
            given = {}
            for field in self._fields[expected]:
                if field.encode_name in value:
                    given[field.name] = self.build(field.type, value[field.encode_name])
                elif field.required:
                    given[field.name] = None
            return expected(**given)
        if get_origin(expected) is tuple and isinstance(value, list | tuple):
            member = get_args(expected)[0]
            return tuple([self.build(member, item) for item in value])
        if get_origin(expected) is dict and isinstance(value, dict):
            member = get_args(expected)[1]
            return {name: self.build(member, item) for name, item in value.items()}
        return value


def _member(expected: Any, value: Any) -> Any:
    """Return the member of a union that objects, or arrays, are built from; other types as they are."""
    if get_origin(expected) is Annotated:
        expected = get_args(expected)[0]
    if get_origin(expected) not in (Union, UnionType):
        return expected
    members = [_member(member, value) for member in get_args(expected)]
    tagged = [one for one in members if getattr(_config(one), "tag", None) is not None]
    if tagged and isinstance(value, dict):
        said = value.get(_config(tagged[0]).tag_field)
        return next((one for one in tagged if _config(one).tag == said), expected)
    for member in members:
        origin = get_origin(member)
        is_object = origin is dict or (isinstance(member, type) and issubclass(member, msgspec.Struct))
        if (is_object and isinstance(value, dict)) or (origin is tuple and isinstance(value, list | tuple)):
            return member
    return expected


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


def _quoted_value(value: Any) -> str:
    if isinstance(value, dict | list) and value:
        return "an object" if isinstance(value, dict) else "an array"
    text = msgspec.json.encode(value).decode() if not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
