"""Ragged menus put together from earlier and freshly compiled ones, so that only changed menus cost time.

Where every menu keeps its length, the fresh ones are written into the arrays of the earlier ones, which are
given up to them; else what stays is copied, one run of memory after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from apportion.models.uses import joined

if TYPE_CHECKING:
    from apportion.models.uses import Uses

__all__ = ["Splice", "difference"]


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class Splice:
    """Where the jobs of new menus come from.

    Attributes
    ----------
    runs
        Runs of jobs, in the order of the new menus: whether they are fresh, the first one's position among
        the earlier or the fresh jobs, and one past the last one's.
    fresh
        Positions of the fresh jobs among the new ones.
    """

    runs: tuple[tuple[bool, int, int], ...]
    fresh: tuple[int, ...]

    def fits(self, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]) -> bool:
        """Return whether every job has a menu where one of the same length was: nothing has to move."""
        at = 0
        for new, first, last in self.runs:
            sizes = np.diff(earlier_offsets[at : at + last - first + 1]) if new else None
            if (
                first != at
                if sizes is None
                else not np.array_equal(sizes, _sizes(fresh_offsets, first, last))
            ):
                return False
            at += last - first
        return at == earlier_offsets.size - 1

    def write(
        self,
        earlier: NDArray[Any],
        fresh: NDArray[Any],
        earlier_offsets: NDArray[np.int64] | None = None,
        fresh_offsets: NDArray[np.int64] | None = None,
    ) -> None:
        """Write the fresh part of an array where it fits.

        The array has one entry per option; without offsets, one per job.
        """
        target, at = earlier.view(), 0
        target.flags.writeable = True
        for new, first, last in self.runs:
            end = at + last - first
            if new and (earlier_offsets is None or fresh_offsets is None):
                target[at:end] = fresh[first:last]
            elif new and earlier_offsets is not None and fresh_offsets is not None:
                rows = slice(int(fresh_offsets[first]), int(fresh_offsets[last]))
                target[int(earlier_offsets[at]) : int(earlier_offsets[end])] = fresh[rows]
            at = end

    def jobs(self, earlier: NDArray[Any], fresh: NDArray[Any]) -> NDArray[Any]:
        """Return an array with one entry per job of the new menus."""
        parts = [(fresh if new else earlier)[first:last] for new, first, last in self.runs]
        return np.concatenate(parts) if parts else earlier[:0]

    def spliced_list(self, earlier: list[_T], fresh: list[_T]) -> list[_T]:
        """Return a list with one entry per job of the new menus."""
        found: list[_T] = []
        for new, first, last in self.runs:
            found += (fresh if new else earlier)[first:last]
        return found

    def rows(
        self,
        earlier: NDArray[Any],
        fresh: NDArray[Any],
        earlier_offsets: NDArray[np.int64],
        fresh_offsets: NDArray[np.int64],
    ) -> NDArray[Any]:
        """Return an array with one entry per option of the new menus."""
        parts = self._parts(earlier, fresh, earlier_offsets, fresh_offsets)
        return np.concatenate(parts) if parts else earlier[:0]

    def uses(
        self, earlier: Uses, fresh: Uses, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]
    ) -> Uses:
        """Return the uses of the new menus, sparse where the earlier ones are."""
        parts = self._parts(earlier, fresh, earlier_offsets, fresh_offsets)
        return joined([earlier[:0], *parts])

    def _parts(
        self, earlier: Any, fresh: Any, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]
    ) -> list[Any]:
        parts = list[Any]()
        for new, first, last in self.runs:
            offsets = fresh_offsets if new else earlier_offsets
            parts.append((fresh if new else earlier)[int(offsets[first]) : int(offsets[last])])
        return parts

    def offsets(
        self, earlier_offsets: NDArray[np.int64], fresh_offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the offsets of the new menus."""
        sizes = self.jobs(np.diff(earlier_offsets), np.diff(fresh_offsets))
        offsets = np.zeros(sizes.size + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return offsets


def difference(earlier: Sequence[Any], now: Sequence[Any], stale: NDArray[np.bool_] | None = None) -> Splice:
    """Return which jobs are the same objects as before, and where they were.

    Parameters
    ----------
    earlier, now
        The jobs before and now; frozen objects, so that the same one means the same menu.
    stale
        bool [earlier jobs]: whose menus are to be compiled again although the job is the same.
    """
    known, ids = np.append(_addresses(earlier), 0), _addresses(now)  # no object lies at 0
    if stale is not None:
        known[:-1][stale] = 0
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known, ids, sorter=order), known.size - 1)]
    is_fresh = known[at] != ids
    source = np.where(is_fresh, np.cumsum(is_fresh) - 1, at)
    begins = np.flatnonzero((np.diff(is_fresh, prepend=2) != 0) | (np.diff(source, prepend=-2) != 1))
    firsts, sizes = source[begins], np.diff(begins, append=ids.size)
    runs = zip(is_fresh[begins].tolist(), firsts.tolist(), (firsts + sizes).tolist(), strict=True)
    return Splice(tuple(runs), tuple(np.flatnonzero(is_fresh).tolist()))


def _addresses(jobs: Sequence[Any]) -> NDArray[np.int64]:
    return np.fromiter(map(id, jobs), np.int64, len(jobs))


def _sizes(offsets: NDArray[np.int64], first: int, last: int) -> NDArray[np.int64]:
    return np.diff(offsets[first : last + 1])
