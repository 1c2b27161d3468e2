"""Instances with other fields, made without checking them: whoever does that checks what is new."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

__all__ = ["remade"]

_S = TypeVar("_S", bound=Struct)


def remade(struct: _S, **fields: Any) -> _S:
    """Return a struct with some fields replaced; unlike ``msgspec.structs.replace`` this checks nothing."""
    made = copy(struct)
    for name, value in fields.items():
        force_setattr(made, name, value)
    return made
