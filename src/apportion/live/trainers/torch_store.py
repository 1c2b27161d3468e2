"""Where PyTorch ranks meet: a file in the job's private folder, not a port that anybody can reach.

PyTorch's usual stores listen on a port and know no secret: whoever reaches it can join, read and write, and
what ``torchrun`` keeps there is pickled state, so a stranger could run code as the user who trains. A
`FileStore` in a folder of mode 0700 is open to that user alone.

Started by `apportion.live.trainers.torchrun` as ``python -m apportion.live.trainers.torch_store [-m] SCRIPT
...`` it runs one training script as one rank, whose process group meets at that file even if the script names
a port.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import runpy
import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.live.trainer_protocol import Assignment

if TYPE_CHECKING:
    from torch.distributed import Store

__all__ = ["main", "meet_at_the_file", "open_store", "store_path"]

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


def main() -> None:
    """Set up where the ranks meet, then become the script."""
    meet_at_the_file(Assignment.from_environment())
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
