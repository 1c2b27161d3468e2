"""The fence of a checkpoint folder: the newest generation that began there is written down in it.

Every start of a job's ranks is a generation with a number that only grows. An agent claims the folder for
its generation before it starts a rank, and refuses to start one of a generation that is older than the
claim; whoever writes checkpoints asks again before each is published. So a rank that was thought to be
gone, and comes back, neither starts nor publishes anything once its successor has begun.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["claim", "newest_generation"]

_PREFIX = ".generation-"


def claim(folder: Path, generation: int) -> int:
    """Write down that a generation begins; return the newest one that has, its own number if all is well.

    Raises
    ------
    OSError
        If the folder cannot be written to.
    """
    newest = newest_generation(folder)
    if generation > newest:
        (folder / f"{_PREFIX}{generation:010d}").touch(mode=0o600)
        newest = newest_generation(folder)
        for path, older in _claims(folder):
            if older < newest:
                with contextlib.suppress(OSError):
                    path.unlink()
    return newest


def newest_generation(folder: Path) -> int:
    """Return the number of the newest generation that has begun in a folder, 0 for none."""
    return max((generation for _, generation in _claims(folder)), default=0)


def _claims(folder: Path) -> list[tuple[Path, int]]:
    found = [(path, path.name.removeprefix(_PREFIX)) for path in folder.glob(f"{_PREFIX}*")]
    return [(path, int(number)) for path, number in found if number.isdecimal()]
