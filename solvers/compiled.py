"""Which compiled parts there are: each is optional, and an environment variable switches all of them off."""

from __future__ import annotations

import os
import warnings
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

__all__ = ["NAMES", "SWITCH", "import_compiled", "load", "outdated", "switched_off"]

SWITCH = "APPORTION_UNCOMPILED"
"""This environment variable, set to anything but ``0`` or nothing, switches the compiled parts off."""

NAMES = (
    "knapsack.costates_c",
    "makespan.list_search_c",
    "multiknapsack.dual_c",
    "multiknapsack.ejection_c",
    "search.assignment_tree_c",
    "search.depth_first_c",
    "search.schedule_tree_c",
)
"""The compiled modules below `apportion.solvers`; each stands as a C file beside the Python that calls it."""


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
