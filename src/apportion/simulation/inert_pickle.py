"""Read a pickle without executing it: containers, texts and numbers, and calls that are only written down.

A pickle is a program for a stack machine; the ordinary loader runs whatever the file names. This one imports
nothing, calls nothing and makes no object of a class the file names: a call is kept as a `Call`, a name as a
`Name`. Opcodes that no table needs are refused. Memory stays within a small multiple of the file's length,
because every opcode makes at most one object that refers to others.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

__all__ = ["Call", "Name", "read_inert"]


@dataclass(frozen=True, slots=True)
class Name:
    """A global that the file names; never looked up."""

    module: str
    name: str


@dataclass(slots=True, eq=False)
class Call:
    """A call that the file asks for; never made.

    Attributes
    ----------
    function
        What would be called: a `Name` in a sound file.
    given
        The arguments.
    later
        State and items that would be given to the result afterwards.
    """

    function: Any
    given: Any
    later: list[Any] = field(default_factory=list)


_Stack = list[Any]
_CONSTANTS: Mapping[str, Any] = MappingProxyType({"NONE": None, "NEWTRUE": True, "NEWFALSE": False})
_WHOLE = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
_TEXTS = (
    "UNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE",
    "BINUNICODE8",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
)
_BYTES = ("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8")
_VALUES = frozenset((*_WHOLE, "FLOAT", "BINFLOAT", *_TEXTS, *_BYTES))
"""Opcodes whose argument is the value that goes onto the stack."""
_TUPLES: Mapping[str, int] = MappingProxyType({"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3})
_LISTS = ("EMPTY_LIST", "EMPTY_DICT")
"""A dictionary becomes the list of its keys and values by turns: keys of any kind are harmless there."""


def read_inert(raw: bytes, allowed: Callable[[str, str], bool]) -> Any:
    """Return what a pickle describes.

    Parameters
    ----------
    raw
        The pickle.
    allowed
        Whether a global of this module and name may stand in it.

    Raises
    ------
    ValueError
        If the file is damaged, uses an opcode that no table needs, or names what is not allowed.
    """
    machine = _Machine(allowed)
    for opcode, argument, _ in pickletools.genops(raw):
        if opcode.name == "STOP":
            break
        machine.step(opcode.name, argument)
    if len(machine.stack) != 1 or machine.marks:
        raise ValueError("the pickle ends in the middle")
    return machine.stack[0]


class _Machine:
    """The stack machine: the stack, the marks on it, and the memo."""

    def __init__(self, allowed: Callable[[str, str], bool]) -> None:
        self.stack: _Stack = []
        self.marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._allowed = allowed

    def step(self, name: str, argument: Any) -> None:
        """Carry out one opcode."""
        stack = self.stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            stack.append(tuple(self._top(_TUPLES[name])))
        elif name in _LISTS:
            stack.append([])
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in ("TUPLE", "LIST", "DICT"):
            items = self._since_mark()
            stack.append(tuple(items) if name == "TUPLE" else items)
        elif name in ("APPENDS", "SETITEMS"):
            self._add(self._since_mark())
        elif name in ("APPEND", "SETITEM"):
            self._add(self._top(1 if name == "APPEND" else 2))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if name == "MEMOIZE" else int(argument)] = self._last()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            if int(argument) not in self._memo:
                raise ValueError("the pickle refers to what it never said")
            stack.append(self._memo[int(argument)])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(self._name(argument.split(" ", 1) if name == "GLOBAL" else self._top(2)))
        elif name in ("REDUCE", "NEWOBJ"):
            stack.append(Call(*self._top(2)))
        elif name == "BUILD":
            self._add(self._top(1))
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"the pickle uses {name}, which no table needs")

    def _top(self, count: int) -> list[Any]:
        """Take that many off the stack; not from below a mark."""
        start = len(self.stack) - count
        if start < (self.marks[-1] if self.marks else 0):
            raise ValueError("the pickle takes what is not there")
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def _last(self) -> Any:
        taken = self._top(1)
        self.stack.extend(taken)
        return taken[0]

    def _since_mark(self) -> list[Any]:
        if not self.marks:
            raise ValueError("the pickle ends a list that it never began")
        taken = self.stack[self.marks[-1] :]
        del self.stack[self.marks.pop() :]
        return taken

    def _add(self, items: list[Any]) -> None:
        """Give items or a state to what is on top of the stack."""
        target = self._last()
        if isinstance(target, Call):
            target.later.extend(items)
        elif isinstance(target, list):
            target.extend(items)
        else:
            raise ValueError("the pickle adds to something that is no container")

    def _name(self, parts: list[Any]) -> Name:
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise ValueError("the pickle names something that is no name")
        module, name = parts
        if not self._allowed(module, name):
            raise ValueError(f"the file names {module}.{name}, which is neither an array nor a frame")
        return Name(module, name)
