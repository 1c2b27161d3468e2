"""`apportion.solve` for measurements: after Ctrl-C there is no figure."""

from __future__ import annotations

from typing import Any

import apportion
from apportion.core.interruption import uninterrupted

__all__ = ["solved"]


def solved(instance: Any, **options: Any) -> apportion.Solution:
    """Return the solution of an instance; Ctrl-C raises ``KeyboardInterrupt`` instead of ending the solve."""
    return uninterrupted(apportion.solve(instance, **options))
