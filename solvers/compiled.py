"""Which compiled parts there are: each is optional, and an environment variable switches all of them off."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

__all__ = ["NAMES", "SWITCH", "load", "switched_off"]

SWITCH = "APPORTION_UNCOMPILED"
"""This environment variable, set to anything but ``0`` or nothing, switches the compiled parts off."""

NAMES = ("search.assignment_tree_c", "search.depth_first_c")
"""The compiled modules below `apportion.solvers`; each stands as a C file beside the Python that calls it."""


def switched_off() -> bool:
    """Whether the environment variable asks for the uncompiled roads."""
    return os.environ.get(SWITCH, "0") not in ("", "0")


def load(name: str) -> ModuleType | None:
    """Return a compiled module of `NAMES`, ``None`` where it was not built or is switched off."""
    if switched_off():
        return None
    try:
        return import_module(f"apportion.solvers.{name}")
    except ImportError:
        return None
