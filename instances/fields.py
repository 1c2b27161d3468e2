"""The field types every instance kind is built from, and the same limits as checks that collect problems.

msgspec enforces the annotations while decoding only; an instance constructed in Python is checked by the
functions here. Both read the same constants.

Instances hold plain numbers, texts and arrays, whoever made them: numpy's become Python's (`make_plain`).
Whoever makes one with other fields by `remade`, which checks nothing, checks what is new.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from apportion.core.errors import Problem

__all__ = [
    "LARGEST_CAPACITY",
    "LARGEST_COUNT",
    "LARGEST_NUMBER",
    "LARGEST_USE",
    "SMALLEST_POSITIVE",
    "Amount",
    "Capacity",
    "Count",
    "Name",
    "Number",
    "Use",
    "check_amount",
    "check_count",
    "check_distinct",
    "check_header",
    "check_name",
    "check_number",
    "make_plain",
    "plain_value",
    "remade",
    "settle_numbers",
]


_S = TypeVar("_S", bound=Struct)


def remade(struct: _S, **fields: Any) -> _S:
    """Return a struct with some fields replaced; unlike ``msgspec.structs.replace`` this checks nothing."""
    made = copy(struct)
    for name, value in fields.items():
        force_setattr(made, name, value)
    return made


_PLAIN = frozenset({str, int, float, bool, type(None)})


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


def make_plain(struct: Struct) -> None:
    """Make the values of a struct and of those below it plain, in place: arrays become tuples.

    Other values stay as they are: whether they may stand there is for the rules of the instance to say.
    """
    try:
        msgspec.json.encode(struct)  # what can be written is plain: the quickest way to look at all of it
    except TypeError:
        _make_fields_plain(struct)
    except (ValueError, RecursionError):
        pass


def _make_fields_plain(struct: Struct) -> None:
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        made = _made_plain(value)
        if made is not value:
            force_setattr(struct, name, made)


def _made_plain(value: Any) -> Any:
    """Return a value plain; structs are changed where they are, anything else is made anew."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Struct):
        _make_fields_plain(value)
        return value
    if isinstance(value, Mapping):
        return {_made_plain(name): _made_plain(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_made_plain, value))
    if not hasattr(value, "tolist"):
        return value
    listed = value.tolist()
    return tuple(map(_made_plain, listed)) if isinstance(listed, list) else listed


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
Use = Annotated[int, Meta(ge=0, le=LARGEST_USE)]
"""How much of a capacity an option takes, a whole number: 0 to 10^12."""
Capacity = Annotated[int, Meta(ge=0, le=LARGEST_CAPACITY)]
"""How much there is of something, a whole number: 0 to 10^18."""
Number = Annotated[float, Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
"""Any finite number from -10^18 to 10^18; between -1e-30 and 1e-30 only 0."""
Amount = Annotated[float, Meta(ge=0.0, le=LARGEST_NUMBER)]
"""A finite number from 0 to 10^18, of seconds, samples or weight as its field says; below 1e-30 only 0."""


def check_name(path: str, value: Any, problems: list[Problem]) -> bool:
    """Note a problem unless `value` is a string of 1 to 1000 characters that can be written as UTF-8."""
    if not isinstance(value, str) or not 1 <= len(value) <= 1000:
        problems.append(
            Problem(path, f"must be a string of 1 to 1000 characters, not {_quoted_value(value)}")
        )
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        problems.append(Problem(path, f"must be valid Unicode text, not {_quoted_value(value)}"))
        return False
    return True


def check_count(
    path: str, value: Any, problems: list[Problem], low: int = 0, high: int = LARGEST_COUNT
) -> bool:
    """Note a problem unless `value` is an integer from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int):
        whole = isinstance(value, float) and value.is_integer()
        meant = f"; write {int(value)} (in Python: int(value))" if whole else ""
        problems.append(Problem(path, f"must be an integer, not {_quoted_value(value)}{meant}"))
    elif not low <= value <= high:
        problems.append(Problem(path, f"must be from {low} to {high}, not {value}"))
    else:
        return True
    return False


def check_number(path: str, value: Any, problems: list[Problem]) -> bool:
    """Note a problem unless `value` is 0 or a finite number of magnitude 1e-30 to 1e18."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        problems.append(Problem(path, f"must be a number, not {_quoted_value(value)}"))
    elif not math.isfinite(value):
        problems.append(Problem(path, f"must be finite, not {value}"))
    elif value != 0 and not SMALLEST_POSITIVE <= abs(value) <= LARGEST_NUMBER:
        problems.append(
            Problem(
                path, f"must be 0 or of magnitude {SMALLEST_POSITIVE:g} to {LARGEST_NUMBER:g}, not {value:g}"
            )
        )
    else:
        return True
    return False


def check_amount(path: str, value: Any, problems: list[Problem]) -> bool:
    """Note a problem unless `value` is a number (see `check_number`) that is not negative."""
    if not check_number(path, value, problems):
        return False
    if value < 0:
        problems.append(Problem(path, f"must not be negative, is {value:g}"))
        return False
    return True


def are_names(values: Collection[Any]) -> bool:
    """Return whether `check_name` passes every one of many values, quicker than one by one."""
    try:
        "".join(values).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    lengths = [*map(len, values)]
    return min(lengths, default=1) >= 1 and max(lengths, default=1) <= 1000


def are_counts(values: Collection[Any], high: int = LARGEST_COUNT) -> bool:
    """Return whether `check_count` passes every one of many values."""
    return set(map(type, values)) <= {int} and min(values, default=0) >= 0 and max(values, default=0) <= high


def are_floats(values: Collection[Any]) -> bool:
    """Return whether many values are floats, and `check_number` passes every one."""
    if not (set(map(type, values)) <= {float} and all(map(math.isfinite, values))):
        return False
    least = min(filter(None, map(abs, values)), default=SMALLEST_POSITIVE)
    return least >= SMALLEST_POSITIVE and max(map(abs, values), default=0.0) <= LARGEST_NUMBER


def check_header(instance: Any, problems: list[Problem]) -> None:
    """Note a problem unless `schema_version` and `name`, which every kind has, are what they must be."""
    if instance.schema_version != "1":
        problems.append(Problem("$.schema_version", f'must be "1", not {instance.schema_version!r}'))
    if not isinstance(instance.name, str):
        problems.append(Problem("$.name", "must be a string"))


def settle_numbers(struct: Struct, fields: tuple[str, ...]) -> None:
    """Turn integers in float fields into floats, as decoding does, so that equal instances encode alike."""
    for field in fields:
        value = getattr(struct, field)
        if type(value) is int:
            force_setattr(struct, field, float(value))
        elif type(value) in (tuple, list) and any(type(number) is int for number in value):
            force_setattr(struct, field, tuple(float(number) for number in value))


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


def _quoted_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
