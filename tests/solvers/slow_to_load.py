"""A backend whose import outlasts a short limit, as a large solver's does on a busy machine."""

from __future__ import annotations

import time

from apportion.solvers.general.highs import solve

__all__ = ["preload", "solve"]


def preload() -> None:
    """Take longer than the shortest limits leave."""
    time.sleep(0.3)
