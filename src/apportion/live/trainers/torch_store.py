"""Where PyTorch ranks meet: a file in the job's private folder, not a port that anybody can reach.

PyTorch's usual stores listen on a port and know no secret: whoever reaches it can join, read and write, and
what ``torchrun`` keeps there is pickled state, so a stranger could run code as the user who trains. A
`FileStore` in a folder of mode 0700 is open to that user alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.live.trainer_protocol import Assignment

if TYPE_CHECKING:
    from torch.distributed import Store

__all__ = ["meet_at_the_file", "open_store", "store_path"]

_FOLDER = ".rendezvous"


def store_path(assignment: Assignment) -> Path:
    """Return the file at which the ranks of one generation meet, in a folder that only its user can enter."""
    folder = assignment.checkpoint / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise PermissionError(f"{folder} must belong to this user and be closed to others (mode 0700)")
    for old in folder.glob("*"):
        number = old.name.partition("-")[0]
        if number.isdecimal() and int(number) < assignment.generation:
            with contextlib.suppress(OSError):
                old.unlink()
    secret = hashlib.sha256(assignment.token.encode()).hexdigest()[:32]
    return folder / f"{assignment.generation:010d}-{secret}"


def open_store(assignment: Assignment, world: int) -> Store:
    """Return the store of a generation for `world` ranks."""
    from torch.distributed import FileStore

    return FileStore(str(store_path(assignment)), world)


def meet_at_the_file(assignment: Assignment) -> None:
    """Let ``init_process_group`` without an address, or at ``env://``, use the file of this generation.

    The table of rendezvous handlers is PyTorch's own; it has no public way to replace one.
    """
    rendezvous = import_module("torch.distributed.rendezvous")  # the package has a function of this name

    def handler(
        url: str, timeout: timedelta = timedelta(minutes=30), **_: Any
    ) -> Iterator[tuple[Store, int, int]]:
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = open_store(assignment, world)
        store.set_timeout(timeout)
        yield store, rank, world
        raise RuntimeError("the ranks of a generation meet once")

    rendezvous._rendezvous_handlers["env"] = handler  # noqa: SLF001
