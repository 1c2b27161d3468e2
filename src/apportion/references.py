"""Objects by reference, ``"module:name"``, so that tables cost nothing until an entry is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["loaded"]


def loaded(reference: str) -> Any:
    """Return the object behind ``"module:name"``; its module is imported on first use."""
    module, name = reference.split(":")
    return getattr(import_module(module), name)
