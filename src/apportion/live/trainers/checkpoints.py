"""Checkpoints named by the samples they hold: the newest is the one with the most, whoever wrote it.

Ranks that lose a peer may each save what they have, in any order: a file never takes the place of one that
holds more.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

__all__ = ["durable_samples", "restore", "save"]

KEPT = 2
State = TypeVar("State")


def save(folder: Path, samples: int, write: Callable[[IO[bytes]], None]) -> int:
    """Write a checkpoint whole or not at all, unless one with as many samples is there; return `samples`.

    Raises
    ------
    OSError
        If the folder cannot be written to.
    """
    target = folder / f"state-{samples:020d}"
    if target.exists():
        return samples
    temporary = folder / f".saving-{secrets.token_hex(8)}"
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    for old in list(_newest_first(folder))[KEPT:]:
        with contextlib.suppress(OSError):
            old.unlink()
    return samples


def durable_samples(folder: Path) -> int | None:
    """Return the samples of the newest checkpoint, ``None`` if there is none."""
    newest = next(_newest_first(folder), None)
    return None if newest is None else int(newest.name.removeprefix("state-"))


def restore(folder: Path, read: Callable[[IO[bytes]], State]) -> State | None:
    """Read the newest checkpoint that can be read; ``None`` if there is none.

    One that cannot be read is put aside under another name: it holds nothing that is safe.
    """
    for path in _newest_first(folder):
        try:
            with path.open("rb") as file:
                return read(file)
        except (ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, pickle.UnpicklingError):
            with contextlib.suppress(OSError):
                path.rename(folder / f"broken-{path.name}")
    return None


def _newest_first(folder: Path) -> Iterator[Path]:
    names = [path for path in folder.glob("state-*") if path.name.removeprefix("state-").isdecimal()]
    return iter(sorted(names, reverse=True))
