"""The field types that every kind of instance is built from, their limits, and the one check of both.

Decoding checks annotations; an instance made in Python is checked by `normalise`, which reads the same ones
and notes every field that is not as its type says. What is right is found right column by column: all values
of a field at once, over all jobs and options.

Instances hold plain numbers, texts and tuples, whoever made them: what decoding would convert is converted.
Whoever makes one with other fields by `remade`, which checks nothing, checks what is new.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import attrgetter
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, UnsetType
from msgspec.structs import force_setattr

from apportion.core.errors import InvalidInstance, Problem, did_you_mean

__all__ = [
    "LARGEST_CAPACITY",
    "LARGEST_COUNT",
    "LARGEST_NUMBER",
    "LARGEST_USE",
    "SMALLEST_POSITIVE",
    "Amount",
    "AtLeastOne",
    "Capacity",
    "Count",
    "Name",
    "Number",
    "PositiveAmount",
    "Proportion",
    "Rule",
    "Use",
    "as_number",
    "check_distinct",
    "elsewhere",
    "normalise",
    "plain_value",
    "quoted",
    "refuse",
    "remade",
]


_S = TypeVar("_S", bound=Struct)


def remade(struct: _S, **fields: Any) -> _S:
    """Return a struct with some fields replaced; unlike ``msgspec.structs.replace`` this checks nothing."""
    made = copy(struct)
    for name, value in fields.items():
        force_setattr(made, name, value)
    return made


_PLAIN = frozenset({str, int, float, bool, NoneType})


def plain_value(value: Any) -> Any:
    """Return a value with numpy numbers as Python's, arrays and sequences as lists; structs stay."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(name): plain_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [item if type(item) in _PLAIN else plain_value(item) for item in value]
    listed = getattr(value, "tolist", None)  # arrays, their numbers, and the columns of tables
    return listed() if callable(listed) else value


LARGEST_COUNT = 10**9
"""Largest number of nodes or GPUs anywhere in an instance."""
LARGEST_USE = 10**12
"""Largest use of a capacity by one option; a million jobs of it still add up in 64 bits."""
LARGEST_CAPACITY = 10**18
"""Largest capacity."""
LARGEST_NUMBER = 1e18
"""Largest magnitude of a rate, a duration, a weight or a value."""
SMALLEST_POSITIVE = 1e-30
"""Smallest magnitude that is not zero, so that products never fall below what a double resolves."""

Name = Annotated[str, Meta(min_length=1, max_length=1000)]
"""A string of 1 to 1,000 characters."""
Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
"""A whole number of things, nodes or GPUs for instance: 0 to 10^9."""
AtLeastOne = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
"""A whole number of things, of which there is one: 1 to 10^9."""
Use = Annotated[int, Meta(ge=0, le=LARGEST_USE)]
"""How much of a capacity an option takes, a whole number: 0 to 10^12."""
Capacity = Annotated[int, Meta(ge=0, le=LARGEST_CAPACITY)]
"""How much there is of something, a whole number: 0 to 10^18."""
Number = Annotated[float, Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
"""Any finite number from -10^18 to 10^18; between -1e-30 and 1e-30 only 0."""
Amount = Annotated[float, Meta(ge=0.0, le=LARGEST_NUMBER)]
"""A finite number from 0 to 10^18, of seconds, samples or weight as its field says; below 1e-30 only 0."""
Proportion = Annotated[float, Meta(ge=0.0, le=1.0)]
"""A number from 0 to 1."""
PositiveAmount = Annotated[float, Meta(gt=0.0, le=LARGEST_NUMBER)]
"""A finite number from 1e-30 to 10^18."""

Rule = Callable[[list[Problem]], object]
"""Notes what breaks one rule of an instance."""


def refuse(instance: Struct, rules: Iterable[Rule]) -> None:
    """Leave the fields of an instance as decoding does, and raise unless all are right and no rule is broken.

    Rules need not look at types: where a field is wrong they come as far as they come, and what they say of
    that field does not count.

    Parameters
    ----------
    instance
        A new instance; changed in place.
    rules
        Every rule, one after the other.

    Raises
    ------
    InvalidInstance
        With every problem found.
    """
    wrong, found = normalise(instance), list[Problem]()
    odd = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) if wrong else ()
    with suppress(*odd):
        for rule in rules:
            with suppress(*odd):
                rule(found)
    problems = [*wrong, *elsewhere(found, [problem.path for problem in wrong])]
    if problems:
        raise InvalidInstance(problems)


def elsewhere(problems: Iterable[Problem], paths: Iterable[str]) -> list[Problem]:
    """Return the problems that are neither at nor below any of some JSON paths."""
    taken = tuple(f"{path}{mark}" for path in paths for mark in (".", "["))
    return [problem for problem in problems if not f"{problem.path}.".startswith(taken)]


def normalise(struct: Struct, path: str = "$") -> list[Problem]:
    """Leave the fields of a struct, in place, as decoding does; return what is wrong with them.

    Whole numbers in fields of real ones become floats, lists and arrays tuples, numpy's numbers Python's.
    """
    kind, problems = _record(type(struct)), list[Problem]()
    if not kind.fits([struct]):
        kind.normalised(path, struct, problems)
    return problems


class _Type(Protocol):
    """The type of a field."""

    def fits(self, values: Collection[Any]) -> bool:
        """Return whether all of many values are right, and as decoding leaves them."""

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        """Return one value as decoding leaves it; note what is wrong with it."""


@dataclass(frozen=True, slots=True)
class _String:
    least: int = 0
    most: int | None = None

    def fits(self, values: Collection[Any]) -> bool:
        if not {*map(type, values)} <= {str}:
            return False
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            return False
        lengths = {*map(len, values)}
        return (not lengths or min(lengths) >= self.least) and (
            self.most is None or max(lengths, default=0) <= self.most
        )

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        if isinstance(value, str) and self.fits([exact := "".join([value])]):
            return exact
        if isinstance(value, str) and value and (self.most is None or len(value) <= self.most):
            problems.append(Problem(path, f"must be valid Unicode text, not {quoted(value)}"))
        else:
            size = "" if self.most is None else f" of {self.least} to {self.most} characters"
            problems.append(Problem(path, f"must be a string{size}, not {quoted(value)}"))
        return value


@dataclass(frozen=True, slots=True)
class _Integer:
    least: int
    most: int

    def fits(self, values: Collection[Any]) -> bool:
        return {*map(type, values)} <= {int} and (
            not values or (min(values) >= self.least and max(values) <= self.most)
        )

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            exact = isinstance(value, float) and value.is_integer()
            meant = f"; write {int(value)} (in Python: int(value))" if exact else as_number(path, value)
            problems.append(Problem(path, f"must be an integer, not {quoted(value)}{meant}"))
        elif not self.least <= value <= self.most:
            problems.append(Problem(path, f"must be from {self.least} to {self.most}, not {quoted(value)}"))
        return value


@dataclass(frozen=True, slots=True)
class _Float:
    least: float
    most: float
    positive: bool = False

    def fits(self, values: Collection[Any]) -> bool:
        if not {*map(type, values)} <= {float}:
            return False
        if not values:
            return True
        low, high = min(values), max(values)
        if not (math.isfinite(sum(values)) and self.least <= low and high <= self.most):
            return False
        sizes = filter(None, values if low >= 0 else map(abs, values))
        return min(sizes, default=1.0) >= SMALLEST_POSITIVE and not (self.positive and low <= 0)

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            said = f"must be a number, not {quoted(value)}{as_number(path, value)}"
        elif isinstance(value, float) and not math.isfinite(value):
            said = f"must be finite, not {value}"
        elif value != 0 and not SMALLEST_POSITIVE <= abs(value) <= LARGEST_NUMBER:
            said = (
                f"must be 0 or of magnitude {SMALLEST_POSITIVE:g} to {LARGEST_NUMBER:g}, not {quoted(value)}"
            )
        elif self.positive and value <= 0:
            said = f"must be positive, is {value:g}"
        elif self.least <= value <= self.most:
            return float(value)
        elif self.least == 0 and value < 0:
            said = f"must not be negative, is {value:g}"
        else:
            said = f"must be from {self.least:g} to {self.most:g}, not {value:g}"
        problems.append(Problem(path, said))
        return value


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple[Any, ...]

    def fits(self, values: Collection[Any]) -> bool:
        return {*map(type, values)} <= {*map(type, self.options)} and {*values} <= {*self.options}

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        if not self.fits([value]):
            meant = did_you_mean(value, [option for option in self.options if isinstance(option, str)])
            listed = " or ".join(map(quoted, self.options))
            problems.append(Problem(path, f"must be {listed}, not {quoted(value)}{meant}"))
        return value


@dataclass(frozen=True, slots=True)
class _Array:
    members: tuple[_Type, ...]
    """One for all, or one for each of a fixed number."""
    of_any_length: bool

    def fits(self, values: Collection[Any]) -> bool:
        if not {*map(type, values)} <= {tuple}:
            return False
        if self.of_any_length:
            return self.members[0].fits([*chain.from_iterable(values)])
        return {*map(len, values)} <= {len(self.members)} and all(
            member.fits(column)
            for member, column in zip(self.members, zip(*values, strict=True), strict=bool(values))
        )

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        if not isinstance(value, list | tuple):
            problems.append(Problem(path, f"must be a list, not {quoted(value)}"))
            return value
        record = self.members[0] if self.of_any_length else None
        if isinstance(record, _Record) and {*map(type, value)} <= {record.type}:
            record.normalise_all([f"{path}[{at}]" for at in range(len(value))], value, problems)
            return tuple(value)
        members = self.members * len(value) if self.of_any_length else self.members
        if len(members) != len(value):
            problems.append(Problem(path, f"must be a list of {len(members)}, not of {len(value)}"))
            return value
        each = enumerate(zip(members, value, strict=True))
        return tuple([_normalised(member, f"{path}[{at}]", one, problems) for at, (member, one) in each])


@dataclass(frozen=True, slots=True)
class _Mapping:
    key: _Type
    member: _Type

    def fits(self, values: Collection[Any]) -> bool:
        return (
            {*map(type, values)} <= {dict}
            and self.key.fits({*chain.from_iterable(values)})
            and self.member.fits([*chain.from_iterable(map(dict.values, values))])
        )

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(Problem(path, f"must be an object, not {quoted(value)}"))
            return value
        return {
            _normalised(self.key, path, name, problems): _normalised(
                self.member, f"{path}.{name}", one, problems
            )
            for name, one in value.items()
        }


@dataclass(frozen=True, slots=True)
class _Record:
    type: type[Struct]
    fields: tuple[tuple[str, _Type], ...]

    def fits(self, values: Collection[Any]) -> bool:
        return {*map(type, values)} <= {self.type} and all(
            kind.fits([*map(attrgetter(name), values)]) for name, kind in self.fields
        )

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        if type(value) is not self.type:
            given = quoted(value) if type(value) in _PLAIN else type(value).__name__
            problems.append(Problem(path, f"must be a {self.type.__name__}, not {given}"))
            return value
        self.normalise_all([path], [value], problems)
        return value

    def normalise_all(self, paths: Sequence[str], values: Sequence[Any], problems: list[Problem]) -> None:
        """Normalise many structs of this type in place, field by field: most fields fit all at once."""
        for name, kind in self.fields:
            column = [*map(attrgetter(name), values)]
            if kind.fits(column):
                continue
            for path, value, given in zip(paths, values, column, strict=True):
                made = _normalised(kind, f"{path}.{name}", given, problems)
                if made is not given:
                    force_setattr(value, name, made)


@dataclass(frozen=True, slots=True)
class _Union:
    members: Mapping[type[Any], _Type | None]
    """By the type of a value; ``None`` where there is one of that type."""

    def fits(self, values: Collection[Any]) -> bool:
        by_type = defaultdict[Any, list[Any]](list)
        for value in values:
            by_type[type(value)].append(value)
        return by_type.keys() <= self.members.keys() and all(
            member is None or member.fits(by_type[kind])
            for kind, member in self.members.items()
            if kind in by_type
        )

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        kind: type[Any] = type(value)
        if kind not in self.members:  # what decoding makes of it
            kind = {list: tuple, int: float}.get(kind, kind)
        if kind in self.members:
            member = self.members[kind]
            return value if member is None else member.normalised(path, value, problems)
        said = [member for member in self.members.values() if member is not None]
        if len(said) == 1:
            return said[0].normalised(path, value, problems)
        names = ", ".join(kind.__name__ for kind in self.members if issubclass(kind, Struct))
        problems.append(Problem(path, f"must be one of {names}, not {quoted(value)}"))
        return value


class _Anything:
    def fits(self, values: Collection[Any]) -> bool:
        return {*map(type, values)} <= _PLAIN

    def normalised(self, path: str, value: Any, problems: list[Problem]) -> Any:
        return plain_value(value)


def _normalised(kind: _Type, path: str, value: Any, problems: list[Problem]) -> Any:
    """Return a value as decoding leaves it, numpy's as Python's; note what is wrong with it."""
    if type(value) not in _PLAIN and hasattr(value, "tolist"):
        value = value.tolist()
    return kind.normalised(path, value, problems)


@cache
def _record(struct: type[Struct]) -> _Record:
    fields = msgspec.structs.fields(struct)
    return _Record(struct, tuple((field.name, _type(field.type)) for field in fields))


def _type(expected: Any) -> _Type:
    """Return what an annotation says."""
    limits, arguments = Meta(), get_args(expected)
    if get_origin(expected) is Annotated:
        expected, limits = arguments
    origin, arguments = get_origin(expected) or expected, get_args(expected)
    if origin is str:
        return _String(limits.min_length or 0, limits.max_length)
    if origin is bool:
        return _Choice((True, False))
    if origin is int:
        least = -(2**63) if limits.ge is None else int(limits.ge)
        return _Integer(least, 2**63 - 1 if limits.le is None else int(limits.le))
    if origin is float:
        lowest = limits.ge if limits.gt is None else limits.gt
        highest = LARGEST_NUMBER if limits.le is None else limits.le
        return _Float(-LARGEST_NUMBER if lowest is None else lowest, highest, positive=limits.gt is not None)
    if origin is Literal:
        return _Choice(arguments)
    if origin is tuple:
        members = tuple(_type(one) for one in arguments if one is not Ellipsis)
        return _Array(members, of_any_length=Ellipsis in arguments)
    if origin is dict:
        return _Mapping(*map(_type, arguments))
    if origin in (Union, UnionType):
        return _Union(
            MappingProxyType(
                {_python_type(one): None if one in (NoneType, UnsetType) else _type(one) for one in arguments}
            )
        )
    return _record(origin) if isinstance(origin, type) and issubclass(origin, Struct) else _Anything()


def _python_type(expected: Any) -> type[Any]:
    """Return of which type values are, once decoded."""
    if get_origin(expected) is Annotated:
        expected = get_args(expected)[0]
    return str if get_origin(expected) is Literal else get_origin(expected) or expected


def check_distinct(path: str, values: Iterable[Any], what: str, problems: list[Problem]) -> bool:
    """Note a problem for every value that stands more than once; `path` is the list's own."""
    given = list(values)
    listed = [value for value in given if isinstance(value, str)]
    if len(set(listed)) == len(listed):
        return True
    for value, times in Counter(listed).items():
        if times > 1:
            first = given.index(value)
            again = given.index(value, first + 1)
            repeated = f"{what} {value!r} stands {times} times, first as [{first}], again as [{again}]"
            problems.append(Problem(path, f"{repeated}; each must be unique"))
    return False


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


def quoted(value: Any) -> str:
    """Return a value as JSON has it, short: lists and objects are only called so."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping | list | tuple) and value:
        return "an object" if isinstance(value, Mapping) else "an array"
    if isinstance(value, int) and abs(value) >= _LONG:
        return "a number of more than 60 digits"
    text = "[]" if isinstance(value, tuple) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_LONG = 10**60
