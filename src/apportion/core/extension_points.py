"""References to objects by name, and the one table of those that lead from a lower room to a higher one.

A reference is ``"module:name"``; its module is imported when it is first used, so that tables cost nothing.
Outside this table and the registry (`apportion.solving.registry`) a reference leads down, as imports do; a
test holds that.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

__all__ = ["EXTENSION_POINTS", "extension", "loaded"]

EXTENSION_POINTS: Mapping[str, str] = MappingProxyType(
    {
        "document": "apportion.io.stored:document",
        "drawing": "apportion.draw:drawing",
        "encoded drawing": "apportion.draw:encoded",
        "plan columns": "apportion.instances.tables:plan_columns",
        "under floors": "apportion.instances.tenants.ledger:under_floors",
    }
)
"""What a method of a value does in a higher room: `apportion.Solution` is written and drawn there."""


def extension(name: str) -> Any:
    """Return the function of an extension point; its module is imported on first use."""
    return loaded(EXTENSION_POINTS[name])


def loaded(reference: str) -> Any:
    """Return the object behind ``"module:name"``; its module is imported on first use."""
    module, name = reference.split(":")
    return getattr(import_module(module), name)
