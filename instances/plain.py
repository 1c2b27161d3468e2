"""Numpy's numbers, texts and arrays as Python's: instances hold plain ones only, whoever made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

__all__ = ["make_plain", "plain"]

_PLAIN = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """Return a value with numpy numbers as Python's, arrays and sequences as lists; structs stay."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [item if type(item) in _PLAIN else plain(item) for item in value]
    listed = getattr(value, "tolist", None)  # arrays, their numbers, and the columns of tables
    return listed() if callable(listed) else value


def make_plain(struct: Struct) -> None:
    """Make what a struct and those below it hold plain, in place, as `plain` says; arrays become tuples.

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
