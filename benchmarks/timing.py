"""Best-of-n timing and the line that says where a figure was taken."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

__all__ = ["best_of", "provenance"]

T = TypeVar("T")


def best_of(repeats: int, call: Callable[[], T]) -> tuple[float, T]:
    """Return the least processor seconds of `repeats` calls, and the last result."""
    results: list[tuple[float, T]] = []
    for _ in range(repeats):
        began = time.process_time()
        result = call()
        results.append((time.process_time() - began, result))
    return min(seconds for seconds, _ in results), results[-1][1]


def provenance(*packages: str) -> str:
    """Return Python, machine and package versions in one line."""
    found = [f"{name} {_version(name)}" for name in ("apportion", "numpy", *packages)]
    return f"Python {platform.python_version()}, {platform.machine()}, " + ", ".join(found)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
