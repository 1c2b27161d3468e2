"""Which compiled parts there are, and the random numbers that they and their twins draw.

Each part is optional, and an environment variable switches all of them off.
"""

from __future__ import annotations

import os
import warnings
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

__all__ = ["NAMES", "SWITCH", "Xorshift", "import_compiled", "load", "outdated", "switched_off"]

SWITCH = "APPORTION_UNCOMPILED"
"""This environment variable, set to anything but ``0`` or nothing, switches the compiled parts off."""

NAMES = (
    "knapsack.costates_c",
    "makespan.list_search_c",
    "multiknapsack.dual_c",
    "multiknapsack.local_search_c",
    "search.assignment_tree_c",
    "search.depth_first_c",
    "search.schedule_tree_c",
)
"""The compiled modules below `apportion.solvers`; each stands as a C file beside the Python that calls it."""


_WORD = 2**64 - 1


class Xorshift:
    """Random numbers of 64 bits by shifts (Marsaglia, *Journal of Statistical Software* 8(14), 2003).

    Parameters
    ----------
    word
        The state, not 0.

    Attributes
    ----------
    word
        The state after the numbers drawn so far; the last one is the same.
    """

    __slots__ = ("word",)

    def __init__(self, word: int) -> None:
        self.word = word

    @classmethod
    def seeded(cls, seed: int) -> Xorshift:
        """Return the numbers of a seed."""
        return cls((seed * 2654435761 + 88172645463325252) & _WORD or 1)

    def draw(self) -> int:
        """Return the next number, from 1 to 2^64 - 1."""
        word = self.word
        word ^= (word << 13) & _WORD
        word ^= word >> 7
        word ^= (word << 17) & _WORD
        self.word = word
        return word

    def share(self) -> float:
        """Return the next number as one from 0 to below 1."""
        return (self.draw() >> 11) * 2.0**-53


def switched_off() -> bool:
    """Whether the environment variable asks for the uncompiled roads."""
    return os.environ.get(SWITCH, "0") not in ("", "0")


def load(name: str) -> ModuleType | None:
    """Return a compiled module of `NAMES`, ``None`` where it is not built, outdated or switched off."""
    return None if switched_off() else _kept(name)


def import_compiled(name: str) -> ModuleType | None:
    """Import a compiled module; one whose checksum differs from its C file is reported and ignored."""
    try:
        module = import_module(f"apportion.solvers.{name}")
    except ImportError:
        return None
    if not outdated(module):
        return module
    warnings.warn(
        f"the compiled part {name} was built from another version of its source and is not used; "
        "build it again: python setup.py build_ext --inplace --force",
        RuntimeWarning,
        stacklevel=3,
    )
    return None


_kept = cache(import_compiled)


def outdated(module: ModuleType) -> bool:
    """Whether a compiled module does not come from the C file beside it; without such a file it is current.

    A module's docstring is the checksum of the source it was built from (``setup.py`` hands it over).
    """
    source = Path(module.__file__ or "").parent / (module.__name__.rpartition(".")[2] + ".c")
    return source.is_file() and module.__doc__ != f"{zlib.crc32(source.read_bytes()):08x}"
