"""Checkpoints named by the generation that wrote them and the samples they hold.

The newest is the one of the newest generation that saved any, and among those the one with the most
samples: ranks that lose a peer may each save what they have, in any order. No file ever takes the place
of another, and a generation that has a successor publishes nothing any more
(`apportion.live.trainer_protocol`).

Synthetic regression data by sample number: who draws it, and in which order, makes no difference.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import secrets
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray

from apportion.live.trainer_protocol import STOPPED, newest_generation

__all__ = ["INPUTS", "Superseded", "draw", "durable_samples", "restore", "save", "share", "targets"]


INPUTS = 8
_DRAWS_A_BLOCK = 4  # doubles per block of Philox


def draw(seed: int, begin: int, end: int) -> NDArray[np.float64]:
    """Return float64 [end - begin, INPUTS] in (-1, 1): the inputs of samples `begin` to `end`."""
    source = np.random.Philox(key=seed)
    source.advance(begin * INPUTS // _DRAWS_A_BLOCK)
    return 2.0 * np.random.Generator(source).random((end - begin, INPUTS)) - 1.0


def targets(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 [samples, 1]: a smooth function of the inputs that a linear model cannot be."""
    return np.asarray(
        np.sin(2.0 * inputs[:, :1]) + inputs[:, 1:2] * inputs[:, 2:3] + 0.5 * np.cos(3.0 * inputs[:, 3:4])
    )


def share(begin: int, end: int, rank: int, world_size: int) -> tuple[int, int]:
    """Return the part of samples `begin` to `end` that a rank takes; sizes differ by one at most."""
    count = end - begin
    return begin + rank * count // world_size, begin + (rank + 1) * count // world_size


KEPT = 2
_NAME = re.compile(r"state-(?:([0-9]{10})-)?([0-9]{20})\Z")
"""Earlier versions wrote no generation: such a file is older than any that has one."""
State = TypeVar("State")


class Superseded(SystemExit):
    """A later generation of this job has begun: this process saves nothing and ends as if told to stop."""


def save(folder: Path, generation: int, samples: int, write: Callable[[IO[bytes]], None]) -> int:
    """Write a checkpoint whole or not at all, unless this one is there already; return `samples`.

    Raises
    ------
    Superseded
        If a later generation has begun.
    OSError
        If the folder cannot be written to.
    """
    target = folder / f"state-{generation:010d}-{samples:020d}"
    if target.exists():
        return samples
    temporary = folder / f".saving-{secrets.token_hex(8)}"
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if newest_generation(folder) > generation:
            raise Superseded(STOPPED)
        with contextlib.suppress(FileExistsError):  # a peer has saved the same
            os.link(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    for old in list(_newest_first(folder))[KEPT:]:
        with contextlib.suppress(OSError):
            old.unlink()
    return samples


def durable_samples(folder: Path) -> int | None:
    """Return the samples of the newest checkpoint, ``None`` if there is none."""
    newest = next(_newest_first(folder), None)
    return None if newest is None else _rank(newest)[1]


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
    return iter(
        sorted((path for path in folder.glob("state-*") if _NAME.match(path.name)), key=_rank, reverse=True)
    )


def _rank(path: Path) -> tuple[int, int]:
    """Return the generation and the samples of a checkpoint, by its name."""
    found = _NAME.match(path.name)
    assert found is not None
    return int(found[1] or 0), int(found[2])
