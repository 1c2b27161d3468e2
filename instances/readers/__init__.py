"""The table of foreign instance formats, and reading one of them from bytes.

A new format is a function ``(raw, index, sense, name)`` in a file here and one line in `FORMATS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import Literal, cast

from apportion.core.errors import InvalidInstance, Problem, one_of
from apportion.core.extension_points import loaded
from apportion.instances.kinds import Instance

__all__ = ["FORMATS", "Reader", "guess_format", "read_text"]

ReadFunction = Callable[[bytes, int, Literal["maximize", "minimize"] | None, str], Instance]

_SENSES: Mapping[str, Literal["maximize", "minimize"]] = MappingProxyType(
    {"max": "maximize", "maximize": "maximize", "min": "minimize", "minimize": "minimize"}
)


@dataclass(frozen=True, slots=True)
class Reader:
    """One foreign format.

    Attributes
    ----------
    name
        What ``--format`` calls it.
    description
        The layout in one line.
    function
        ``"module:name"`` of the function ``(raw, index, sense, name)`` that reads it; imported on first use.
    file_names
        Regular expressions (whole name without folder, case ignored) of the files usually found in it.
    """

    name: str
    description: str
    function: str
    file_names: tuple[str, ...] = ()

    def load(self) -> ReadFunction:
        """Import the reader and return it."""
        return cast(ReadFunction, loaded(self.function))

    def recognises(self, file_name: str) -> bool:
        """Whether the file's name is one this format usually has."""
        return any(re.fullmatch(pattern, file_name, re.IGNORECASE) for pattern in self.file_names)


FORMATS: Mapping[str, Reader] = MappingProxyType(
    {
        reader.name: reader
        for reader in (
            Reader(
                "orlib-mknap",
                "OR-Library multidimensional knapsack: K, then n m best, profits, weights, capacities",
                "apportion.instances.readers.knapsacks:read_mknap",
                (r"mknap.*",),
            ),
            Reader(
                "mmkp",
                "multiple-choice multidimensional knapsack, with item counts per class or in Khan's layout",
                "apportion.instances.readers.knapsacks:read_mmkp",
                (r"mmkp.*", r"I\d\d(\.txt)?", r"INST\d\d(\.txt)?"),
            ),
            Reader(
                "orlib-gap",
                "OR-Library generalised assignment: K, then m n, costs, uses, capacities; --sense decides",
                "apportion.instances.readers.machines:read_generalised_assignment",
                (r"gap_?([a-e]|\d+).*\.txt", r"gap([a-e]|\d+)"),
            ),
            Reader(
                "orlib-assign",
                "OR-Library linear assignment: n, then n x n costs or lines of i j cost",
                "apportion.instances.readers.machines:read_assignment",
                (r"assignp?\d+(\.txt)?",),
            ),
            Reader(
                "rcmax",
                "unrelated parallel machines: n, m, then n rows of m times",
                "apportion.instances.readers.machines:read_unrelated_machines",
                (r"fr\d{4}(\.txt)?",),
            ),
            Reader(
                "gavel",
                "Gavel's throughput table (JSON): an hour of work of every job type, divisible",
                "apportion.instances.readers.machines:read_gavel",
                (r".*throughputs.*\.gavel",),
            ),
            Reader(
                "csv",
                "a table of job, option, value and capacities, or of job, machine and time_s, cost or value",
                "apportion.instances.readers.csv_table:read",
                (r".*\.csv",),
            ),
        )
    }
)


def guess_format(path: str | PurePath) -> str | None:
    """Return the format that a file's name suggests; ``None`` if none or more than one does."""
    name = PurePath(path).name
    fitting = [reader.name for reader in FORMATS.values() if reader.recognises(name)]
    return fitting[0] if len(fitting) == 1 else None


def read_text(raw: bytes, format: str, index: int = 0, sense: str | None = None, name: str = "") -> Instance:
    """Read one problem of a file in a foreign format.

    Parameters
    ----------
    raw
        The whole file.
    format
        A key of `FORMATS`.
    index
        Which problem of the file, from 0.
    sense
        ``"max"`` or ``"min"`` (or spelt out); ``None`` for the format's own.
    name
        Name of the instance; the index is appended where the file holds several problems.

    Raises
    ------
    InvalidOption
        If the format or the sense is unknown.
    InvalidInstance
        If the file does not follow the format, with the place; or if it has no such problem.
    """
    one_of("format", format, FORMATS)
    if sense is not None:
        one_of("sense", sense, _SENSES)
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise InvalidInstance(Problem("$.problem", f"index counts from 0, not {index!r}"))
    return FORMATS[format].load()(raw, index, None if sense is None else _SENSES[sense], name)
