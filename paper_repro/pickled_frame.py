"""``python -m paper_repro.pickled_frame FRAME.pkl TRACE.npz``: the BFTrainer authors' trace, converted once.

Reader of a pickled pandas frame, without pandas and without trust.

A pickle can run any code it names. Here nothing is run: names of numpy and pandas are kept as names, any
other is refused, and arrays are built from their bytes. From these are taken the table (rows: instants,
columns: nodes, 1 = idle), the instants and the node names.

The arrays in an inert pickle, built from plain bytes and lists: no class of numpy is in the file's hands.

An array is written as ``_reconstruct(...)`` with the state ``(version, shape, dtype, fortran, data)``, or as
``_frombuffer(data, dtype, shape, order)``. The dtype must be a plain one (numbers, texts of fixed length, or
instants), the data exactly as many bytes as shape and dtype ask for, or a list where the dtype is ``O``.

Read a pickle without executing it: containers, texts and numbers, and calls that are only written down.

A pickle is a program for a stack machine; the ordinary loader runs whatever the file names. This one imports
nothing, calls nothing and makes no object of a class the file names: a call is kept as a `Call`, a name as a
`Name`. Opcodes that no table needs are refused. Memory stays within a small multiple of the file's length,
because every opcode makes at most one object that refers to others.
"""

from __future__ import annotations

import argparse
import io
import math
import pickletools
import re
import tarfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cli.running import in_one_line
from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.core.errors import InvalidInstance, Problem
from apportion.core.files import unpacked, write_whole

__all__ = ["Call", "Name", "arrays_in", "main", "read_inert", "read_pickled_frame"]


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
    with warnings.catch_warnings(action="error", category=DeprecationWarning):
        try:
            for opcode, argument, _ in pickletools.genops(raw):
                if opcode.name == "STOP":
                    break
                machine.step(opcode.name, argument)
        except DeprecationWarning as warning:  # of texts with escapes that Python does not know
            raise ValueError(str(warning)) from warning
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


_PLAIN = re.compile(r"[biufSU][1-9][0-9]{0,5}\Z")
_UNITS = ("D", "h", "m", "s", "ms", "us", "ns")


def arrays_in(item: Any) -> Iterator[NDArray[Any] | list[str]]:
    """Yield every array in a graph of calls and containers; an array of texts may come as a list.

    Raises
    ------
    ValueError
        If an array contradicts itself.
    """
    todo, seen = [item], set()
    while todo:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Call):
            found = _array(item)
            if found is not None:
                yield found
            if not isinstance(found, np.ndarray):
                todo += [item.given, *item.later]
        elif isinstance(item, list | tuple):
            todo.extend(part for part in item if isinstance(part, Call | list | tuple))


def _array(call: Call) -> NDArray[Any] | list[str] | None:
    """Return the array that a call describes, ``None`` if it describes something else."""
    if not isinstance(call.function, Name) or not call.function.module.startswith("numpy"):
        return None
    if call.function.name == "_frombuffer":
        data, dtype, shape, order = _parts(call.given, 4)
        return _filled(data, dtype, shape, fortran=order == "F")
    if call.function.name == "_reconstruct" and call.later:
        _, shape, dtype, fortran, data = _parts(call.later[0], 5)
        return _filled(data, dtype, shape, fortran=fortran is True)
    return None


def _parts(value: Any, count: int) -> tuple[Any, ...]:
    if not isinstance(value, tuple) or len(value) != count:
        raise ValueError("an array is described in a way no version of numpy writes")
    return value


def _filled(data: Any, dtype: Any, shape: Any, *, fortran: bool) -> NDArray[Any] | list[str] | None:
    if not isinstance(shape, tuple) or not all(type(size) is int and 0 <= size < 2**40 for size in shape):
        raise ValueError("an array has a shape that is none")
    if isinstance(data, list):
        texts = all(isinstance(item, str) for item in data)
        return data if texts and math.prod(shape) == len(data) and len(shape) == 1 else None
    code = _dtype(dtype)
    raw = _bytes(data)
    if code is None or raw is None:
        return None
    if math.prod(shape) * code.itemsize != len(raw):
        raise ValueError("an array has another number of bytes than its shape and type ask for")
    return np.frombuffer(raw, dtype=code).reshape(shape, order="F" if fortran else "C")


def _bytes(data: Any) -> bytes | None:
    """Return bytes; old protocols spell them as a text and its encoding, older ones as a text alone."""
    if isinstance(data, Call) and data.function == Name("_codecs", "encode"):
        data = _parts(data.given, 2)[0]
    if isinstance(data, str):
        return data.encode("latin-1")
    return bytes(data) if isinstance(data, bytes | bytearray) else None


def _dtype(value: Any) -> np.dtype[Any] | None:
    """Return a plain dtype, ``None`` for any other: nothing is built from those."""
    named = (
        isinstance(value, Call)
        and value.function == Name("numpy", "dtype")
        and isinstance(value.given, tuple)
    )
    if not named or not value.given or not isinstance(value.given[0], str):
        return None
    code, state = value.given[0], value.later[0] if value.later else (3, "|")
    order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
    if order not in ("<", ">", "|", "="):
        return None
    if code == "M8":
        unit = _unit(state[-1])
        return None if unit is None else np.dtype(f"{order}M8[{unit}]")
    try:
        return np.dtype(order + code) if _PLAIN.match(code) else None
    except TypeError:  # a size that numpy has no number of
        return None


def _unit(metadata: Any) -> str | None:
    """Return the unit of an instant's dtype, told as ``({}, (unit, count, 1, 1))``."""
    value = metadata[1] if isinstance(metadata, tuple) and len(metadata) == 2 else None
    if not isinstance(value, tuple) or len(value) < 2 or value[1] != 1:
        return None
    unit = _bytes(value[0])
    name = "" if unit is None else unit.decode("latin-1")
    return name if name in _UNITS else None


_OF_NUMPY = ("ndarray", "dtype", "_reconstruct", "_frombuffer")
_OTHERS = (("builtins", "slice"), ("__builtin__", "slice"), ("functools", "partial"), ("_codecs", "encode"))


def _allowed(module: str, name: str) -> bool:
    """Return whether a frame may name this; it is not looked up in any case."""
    root = module.split(".")[0]
    return root == "pandas" or (root == "numpy" and name in _OF_NUMPY) or (module, name) in _OTHERS


def read_pickled_frame(path: str | Path) -> IdleTrace:
    """Read a pickled frame of one column per node and one row per instant, 1 where the node is idle.

    Parameters
    ----------
    path
        ``.pkl``, plain, gzipped, or in a ``.tar.gz`` with no other pickle. Only the first kind of table is
        read that has one numeric block, instants as index and texts as columns.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, names anything but arrays and frames, or holds no such table.
    """
    path = Path(path)
    try:
        arrays = list(arrays_in(read_inert(_content(path), _allowed)))
    except (ValueError, OSError, EOFError, tarfile.TarError, OverflowError) as error:
        message = f"cannot be read as a pickled frame: {str(error) or type(error).__name__}"
        raise InvalidInstance(Problem(str(path), message)) from error
    numbers = [array for array in arrays if isinstance(array, np.ndarray)]
    tables = [array for array in numbers if array.ndim == 2 and array.dtype.kind in "biuf"]
    instants = [array for array in numbers if array.ndim == 1 and array.dtype.kind == "M"]
    texts: list[Any] = [array for array in arrays if isinstance(array, list)]
    texts += [array.tolist() for array in numbers if array.ndim == 1 and array.dtype.kind == "U"]
    if len(tables) != 1:
        raise InvalidInstance(Problem(str(path), f"expected one table of numbers, found {len(tables)}"))
    columns, rows = tables[0].shape  # pandas keeps blocks as columns x rows
    times = [array for array in instants if array.size == rows]
    names = [listed for listed in texts if len(listed) == columns]
    if not times or not names or rows < 2:
        message = (
            f"the table of {rows} rows and {columns} columns has no instants or no node names of that number"
        )
        raise InvalidInstance(Problem(str(path), message))
    return _trace(tables[0] != 0, times[0], list(names[0]), path.name.split(".")[0])


def _content(path: Path) -> bytes:
    """Return the pickle in a plain, gzipped or archived file, unpacked up to a limit."""
    raw = unpacked(path.read_bytes())
    return _archived(raw) if raw[257:262] == b"ustar" else raw


def _archived(raw: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        members = [member for member in archive.getmembers() if member.isreg() and ".pkl" in member.name]
        if len(members) != 1 or members[0].issparse():
            raise ValueError(f"the archive holds {len(members)} pickles, expected one")
        file = archive.extractfile(members[0])
        return b"" if file is None else file.read()


def _trace(idle: NDArray[np.bool_], times: NDArray[Any], names: list[str], name: str) -> IdleTrace:
    """Return the trace of a table of nodes x instants."""
    seconds = (times - times[0]) / np.timedelta64(1, "s")
    padded = np.zeros((idle.shape[0], idle.shape[1] + 1), dtype=np.int8)
    padded[:, 1:] = idle
    padded[:, -1] = 0  # nobody knows what comes after the last row
    change = np.diff(padded, axis=1)
    node, begin = np.nonzero(change > 0)
    _, end = np.nonzero(change < 0)
    return IdleTrace.from_arrays(
        node, seconds[begin], seconds[end], seconds, names, str(times[0].astype("datetime64[s]")), name
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a frame and write the archive that `apportion replay --trace` takes."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.pickled_frame")
    parser.add_argument("frame", type=Path, help=".pkl, plain or gzipped, or .tar.gz with no other pickle")
    parser.add_argument("trace", type=Path, help=".npz")
    given = parser.parse_args(arguments)
    trace = read_pickled_frame(given.frame)
    names = ("node", "start_s", "end_s", "event_s")
    arrays = {name: getattr(trace, name) for name in names} | {"node_names": np.array(trace.names)}
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, t0=np.array(trace.t0), **arrays)
    write_whole(given.trace, packed.getvalue())


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.pickled_frame"):
        main()
