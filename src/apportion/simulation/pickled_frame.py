"""Reader of the BFTrainer authors' trace: a pickled pandas frame, read without pandas and without trust.

A pickle can run any code it names. Here nothing is run (`apportion.simulation.inert_pickle`): names of numpy
and pandas are kept as names, any other is refused, and arrays are built from their bytes. From these are
taken the table (rows: instants, columns: nodes, 1 = idle), the instants and the node names.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem
from apportion.simulation.idle_trace import IdleTrace
from apportion.simulation.inert_pickle import read_inert
from apportion.simulation.packed import content
from apportion.simulation.pickled_arrays import arrays_in

__all__ = ["read_pickled_frame"]

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
    raw = content(path)
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
