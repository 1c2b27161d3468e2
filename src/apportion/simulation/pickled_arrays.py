"""The arrays in an inert pickle, built from plain bytes and lists: no class of numpy is in the file's hands.

An array is written as ``_reconstruct(...)`` with the state ``(version, shape, dtype, fortran, data)``, or as
``_frombuffer(data, dtype, shape, order)``. The dtype must be a plain one (numbers, texts of fixed length, or
instants), the data exactly as many bytes as shape and dtype ask for, or a list where the dtype is ``O``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.simulation.inert_pickle import Call, Name

__all__ = ["arrays_in"]

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
