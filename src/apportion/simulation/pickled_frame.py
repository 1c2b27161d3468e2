"""Reader of the BFTrainer authors' trace: a pickled pandas frame, read without pandas and without trust.

A pickle can run any code it names. This unpickler knows numpy's array constructors and nothing else; whatever
pandas class or function the file names becomes an inert box that only keeps what it was given, and any other
name is refused. From the boxes the arrays are taken: the table (rows: instants, columns: nodes, 1 = idle),
the instants and the node names.
"""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem
from apportion.simulation.idle_trace import IdleTrace

__all__ = ["read_pickled_frame"]


_INERT = (("builtins", "slice"), ("__builtin__", "slice"), ("functools", "partial"))


class _Box:
    """Stands for anything of pandas: keeps its arguments and state, does nothing."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.kept: list[Any] = [given, named]

    def __setstate__(self, state: Any) -> None:
        self.kept = [*getattr(self, "kept", []), state]

    def append(self, item: Any) -> None:
        """Keep a list item."""
        self.kept = [*getattr(self, "kept", []), item]

    def extend(self, items: Any) -> None:
        """Keep list items."""
        self.kept = [*getattr(self, "kept", []), *items]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.append((key, value))


class _Unpickler(pickle.Unpickler):
    """Loads arrays, containers, texts and numbers; refuses every other global."""

    def find_class(self, module: str, name: str) -> Any:
        """Return numpy's array constructors, an inert box for pandas, and nothing else."""
        root = module.split(".")[0]
        if root == "numpy":
            if name in ("ndarray", "dtype") and module == "numpy":
                return getattr(np, name)
            if name == "_reconstruct":
                return _array
            if name == "_frombuffer":
                return _from_buffer
        elif root == "pandas" or (module, name) in _INERT:
            return _Box
        elif (module, name) == ("_codecs", "encode"):  # how old protocols spell bytes
            return _latin1
        raise pickle.UnpicklingError(f"the file names {module}.{name}, which is neither an array nor a frame")


def _latin1(text: str, encoding: str) -> bytes:
    return text.encode("latin1")


def _array(*given: Any) -> NDArray[Any]:
    if given[:2] != (np.ndarray, (0,)):
        raise pickle.UnpicklingError("an array of a foreign kind")
    return np.ndarray((0,), dtype="b")


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype=dtype).reshape(shape, order=order)


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
        loaded = _Unpickler(io.BytesIO(_content(path))).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        message = f"cannot be read as a pickled frame: {str(error) or type(error).__name__}"
        raise InvalidInstance(Problem(str(path), message)) from error
    arrays: list[NDArray[Any]] = []
    _collect(loaded, arrays, set())
    tables = [array for array in arrays if array.ndim == 2 and array.dtype.kind in "biuf"]
    instants = [array for array in arrays if array.ndim == 1 and array.dtype.kind == "M"]
    texts = [array for array in arrays if array.ndim == 1 and _is_text(array)]
    if len(tables) != 1:
        raise InvalidInstance(Problem(str(path), f"expected one table of numbers, found {len(tables)}"))
    columns, rows = tables[0].shape  # pandas keeps blocks as columns x rows
    times = [array for array in instants if array.size == rows]
    names = [array for array in texts if array.size == columns]
    if not times or not names or rows < 2:
        message = (
            f"the table of {rows} rows and {columns} columns has no instants or no node names of that number"
        )
        raise InvalidInstance(Problem(str(path), message))
    return _trace(tables[0] != 0, times[0], [str(name) for name in names[0]], path.name.split(".")[0])


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    if tarfile.is_tarfile(io.BytesIO(raw)):
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            members = [member for member in archive.getmembers() if member.isfile() and ".pkl" in member.name]
            if len(members) != 1:
                raise ValueError(f"the archive holds {len(members)} pickles, expected one")
            file = archive.extractfile(members[0])
            raw = b"" if file is None else file.read()
    return raw


def _is_text(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "UT" or (
        array.dtype.kind == "O" and array.size > 0 and all(isinstance(item, str) for item in array)
    )


def _collect(item: Any, arrays: list[NDArray[Any]], seen: set[int]) -> None:
    """Gather the arrays in a graph of boxes and containers."""
    todo = [item]
    while todo:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            arrays.append(item)
            if item.dtype.kind == "O":
                todo.extend(element for element in item.ravel().tolist() if not isinstance(element, str))
        elif isinstance(item, _Box):
            todo.extend(getattr(item, "kept", []))
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            todo.extend(item)


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
