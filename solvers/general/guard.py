"""Refuse engine versions that answer wrongly or crash each other, before they are imported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from apportion.errors import BackendUnavailable

__all__ = ["check_engines"]


def check_engines(package: str) -> None:
    """Raise unless the installed versions can be used together.

    highspy 1.14.0 returns wrong optima (a MIP presolve regression, fixed in 1.15.0). highspy 1.15 and
    OR-Tools up to 9.15 ship shared libraries of the same name, so whichever is imported second fails.

    Parameters
    ----------
    package
        The distribution about to be imported: ``highspy`` or ``ortools``.

    Raises
    ------
    BackendUnavailable
        With what to install instead.
    """
    highspy, ortools = _release("highspy"), _release("ortools")
    if package == "highspy" and highspy is not None and highspy[:2] == (1, 14):
        raise BackendUnavailable(
            f"highspy {version('highspy')} returns wrong optima; pip install 'highspy>=1.13.1,<1.14'"
        )
    if highspy is not None and ortools is not None and highspy >= (1, 15) and ortools < (9, 16):
        raise BackendUnavailable(
            f"highspy {version('highspy')} and ortools {version('ortools')} cannot be loaded in one process "
            "(both ship libhighs.so.1); pip install 'highspy>=1.13.1,<1.14'"
        )


def _release(package: str) -> tuple[int, ...] | None:
    try:
        text = version(package)
    except PackageNotFoundError:
        return None
    numbers = []
    for part in text.split(".")[:3]:
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
