"""What options use of capacities: an array, or a sparse one where options use few of many capacities.

A sparse one is a `scipy.sparse.csr_array` [options, capacities] of int64, its indices sorted, without an
entry of 0 or one that stands twice. What is said of uses is exact in both forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    SparseUses = csr_array[np.int64, tuple[int, int]]
    Uses = NDArray[np.int64] | SparseUses

__all__ = ["beside", "by_row", "dense", "in_blocks", "joined", "sparse", "total", "with_nothing"]

_MOST_CELLS = 2**29
"""Cells of the largest array that a sparse one is turned into: 4 GiB."""
_BLOCK = 2**22
"""Cells of a block."""


def sparse(raw: Any) -> SparseUses:
    """Return a sparse array of integers, in any format, in the form that models keep."""
    from scipy.sparse import csr_array

    found = csr_array(raw, dtype=np.int64, copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def total(uses: SparseUses, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64 [capacities]: what some options use together."""
    chosen, found = uses[rows], np.zeros(uses.shape[1], dtype=np.int64)
    np.add.at(found, chosen.indices, chosen.data)
    return found


def dense(uses: SparseUses, largest: int | None = None) -> NDArray[np.int64]:
    """Return uses as an array.

    Raises
    ------
    InvalidInstance
        If it would take more than 4 GiB, or hold more numbers than the largest allowed.
    """
    if uses.shape[0] * uses.shape[1] > min(_MOST_CELLS, largest or _MOST_CELLS):
        size = uses.shape[0] * uses.shape[1] * 8 / 2**30
        message = (
            f"are sparse, and what was asked for reads them as an array, which would take {size:.0f} GiB"
        )
        raise InvalidInstance(Problem("$.uses", f"{message}: give fewer options or capacities"))
    return uses.toarray()


def in_blocks(uses: Uses) -> Iterator[NDArray[np.int64]]:
    """Yield uses as arrays, some options after the other."""
    if isinstance(uses, np.ndarray):
        yield uses
        return
    step = max(1, _BLOCK // max(1, uses.shape[1]))
    for first in range(0, uses.shape[0], step):
        yield uses[first : first + step].toarray()


def joined(parts: list[Uses]) -> Uses:
    """Return uses one below the other; sparse where the first ones are."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate([part if isinstance(part, np.ndarray) else dense(part) for part in parts])
    from scipy.sparse import csr_array, vstack

    below: Any = parts
    return csr_array(vstack(below, format="csr"))


def beside(uses: Uses, columns: list[NDArray[np.int64]]) -> Uses:
    """Return uses of further capacities beside those there are, int64 [options] each."""
    if isinstance(uses, np.ndarray):
        return np.column_stack([uses, *columns])
    from scipy.sparse import csr_array, hstack

    parts: Any = [uses, *(csr_array(column[:, None]) for column in columns)]
    return csr_array(hstack(parts, format="csr"))


def with_nothing(uses: Uses, rows: NDArray[np.int64]) -> Uses:
    """Return the uses of some options in this order, -1 for one that uses nothing."""
    nothing: Any = np.zeros((1, uses.shape[1]), dtype=np.int64)
    if not isinstance(uses, np.ndarray):
        from scipy.sparse import csr_array

        nothing = csr_array(nothing)
    found: Uses = joined([uses, nothing])[np.where(rows < 0, uses.shape[0], rows)]
    return found


def by_row(uses: Uses) -> tuple[list[int], list[int], list[int]]:
    """Return where every option's part begins, and in it the capacities and amounts other than 0."""
    if not isinstance(uses, np.ndarray):
        return uses.indptr.tolist(), uses.indices.tolist(), uses.data.tolist()
    rows, columns = np.nonzero(uses)
    first = np.searchsorted(rows, np.arange(uses.shape[0] + 1))
    return first.tolist(), columns.tolist(), uses[rows, columns].tolist()
