"""Refuse engine versions that answer wrongly or crash each other, before their import; note which served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from apportion.errors import BackendUnavailable

__all__ = ["check_engines", "engines_noted", "usable"]

_ENGINES = ("highspy", "ortools")
_NOTED: ContextVar[set[str] | None] = ContextVar("engines noted", default=None)


@contextmanager
def engines_noted() -> Iterator[set[str]]:
    """Yield a set to which every engine that is opened in the block is added, by its distribution's name."""
    noted: set[str] = set()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def check_engines(package: str) -> None:
    """Raise unless the installed versions can be used together; every door to an engine calls it.

    highspy 1.14.0 returns wrong optima (a MIP presolve regression, fixed in 1.15.0). highspy 1.15 and
    OR-Tools up to 9.15 ship shared libraries of the same name, so whichever is imported second fails.

    Parameters
    ----------
    package
        The distribution about to be imported: ``highspy`` or ``ortools``; any other is let through.

    Raises
    ------
    BackendUnavailable
        With what to install instead.
    """
    if (reason := _refusal(package)) is not None:
        raise BackendUnavailable(reason)
    if package in _ENGINES and (noted := _NOTED.get()) is not None:
        noted.add(package)


def usable(package: str) -> bool:
    """Return whether a distribution is installed and may be used; nothing is imported."""
    return _release(package) is not None and _refusal(package) is None


def _refusal(package: str) -> str | None:
    if package not in _ENGINES:
        return None
    highspy, ortools = _release("highspy"), _release("ortools")
    if package == "highspy" and highspy is not None and highspy[:2] == (1, 14):
        return f"highspy {version('highspy')} returns wrong optima; pip install 'highspy>=1.13.1,<1.14'"
    if highspy is not None and ortools is not None and highspy >= (1, 15) and ortools < (9, 16):
        return (
            f"highspy {version('highspy')} and ortools {version('ortools')} cannot be loaded in one process "
            "(both ship libhighs.so.1); pip install 'highspy>=1.13.1,<1.14'"
        )
    return None


def _release(package: str) -> tuple[int, ...] | None:
    return _looked_up(package, version)


@cache
def _looked_up(package: str, find: Callable[[str], str]) -> tuple[int, ...] | None:
    """Return the release that `find` tells; kept, because it is asked for in every solve."""
    try:
        text = find(package)
    except PackageNotFoundError:
        return None
    numbers = []
    for part in text.split(".")[:3]:
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
