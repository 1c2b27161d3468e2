"""The menu of one job as flat arrays: what validation, meaning and formulation read again and again.

A job object keeps them, so that a round built from last round's jobs forms only those of the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MenuArrays"]


class MenuArrays:
    """A menu, one entry a depth of a row, rows in the order they are listed.

    Parameters
    ----------
    menu
        Rows of right fields; columns that differ in length raise ``ValueError``.

    Attributes
    ----------
    types
        The names of its GPU types.
    type_index
        int64 [rows]: place in `types`.
    gpus, sizes
        int64 [rows]: GPUs, and how many depths the row has.
    depth
        int64 [entries].
    progress
        float64 [entries].
    penalty
        int64 [entries], millionths; ``None`` if no row gives one.
    least
        The least positive progress, ``None`` without one.
    """

    __slots__ = (
        "depth",
        "gpus",
        "least",
        "penalty",
        "progress",
        "sizes",
        "type_index",
        "types",
    )

    def __init__(self, menu: Sequence[Any]) -> None:
        columns = [row.effective_progress for row in menu]
        lengths = list(map(len, columns))
        if lengths != [len(row.depths) for row in menu]:
            raise ValueError("depths and effective_progress differ in length")
        self.sizes = np.array(lengths, dtype=np.int64)
        entries = sum(lengths)
        self.progress = np.fromiter(chain.from_iterable(columns), np.float64, entries)
        self.depth = _integers([row.depths for row in menu], entries)
        penalties = [row.penalty_millionths for row in menu]
        if any(map(len, penalties)):
            rows = zip(penalties, lengths, strict=True)
            self.penalty: NDArray[np.int64] | None = _integers(
                [part or (0,) * length for part, length in rows], entries
            )
        else:
            self.penalty = None
        counts = [row.gpus for row in menu]
        self.gpus = _integers([counts], len(counts))
        names = [row.gpu_type for row in menu]
        self.types = tuple(dict.fromkeys(names))
        place = {name: index for index, name in enumerate(self.types)}
        self.type_index = np.array([place[name] for name in names], dtype=np.int64)
        positive = self.progress[self.progress > 0]
        self.least = float(positive.min()) if positive.size else None


def _integers(parts: list[Sequence[int]], count: int) -> NDArray[np.int64]:
    """Return the parts one after another; parts that are one and the same object are read once."""
    if len(parts) > 1 and all(part is parts[0] for part in parts):
        array = np.tile(_integers(parts[:1], len(parts[0])), len(parts))
    else:
        array = np.fromiter(chain.from_iterable(parts), np.int64)
    if array.size != count:
        raise ValueError("columns differ in length")
    return array
