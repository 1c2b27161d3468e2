"""Another user's attempts on the place where ranks meet; root starts it, who alone can become another user.

``python -m tests.live.stranger MEETING PORT SECRET`` gives up its rights, tries everything, and prints a JSON
object: by the name of every attempt ``null`` where it came through, else why it did not. What it would run
as the user of the job is pickled as ``torchrun``'s rendezvous pickles its state.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from torch.distributed import FileStore, TCPStore

__all__ = ["ATTEMPTS", "attempted"]

_NOBODY = 65534
_KEY = "torch.rendezvous.j1-1"
"""At which ``torchrun`` keeps what it unpickles."""
_PATIENCE = timedelta(seconds=3)


class _Attack:
    """What runs a command where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("id",)


_PICKLED = pickle.dumps(_Attack())


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(_PICKLED)


def _join_file(path: Path) -> None:
    store = FileStore(str(path), 3)
    store.set_timeout(_PATIENCE)
    store.set(_KEY, _PICKLED.hex())
    store.get(_KEY)


def _join_port(port: int) -> None:
    store = TCPStore("127.0.0.1", port, is_master=False, timeout=_PATIENCE, wait_for_workers=False)
    store.set(_KEY, _PICKLED.hex())
    store.get(_KEY)


ATTEMPTS = ("list", "read", "read the secret", "join by port", "join by file", "plant", "write", "take away")
"""In this order: whatever is written breaks the file at which ranks meet."""


def attempted(meeting: Path, port: int, secret: Path) -> dict[str, str | None]:
    """Return what came of every attempt of another user; `meeting` is the file at which ranks meet.

    Raises
    ------
    subprocess.CalledProcessError
        If this process is not root's.
    """
    command = [sys.executable, "-m", "tests.live.stranger", str(meeting), str(port), str(secret)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=240)
    told: dict[str, str | None] = json.loads(done.stdout)
    return told


def _main(meeting: Path, port: int, secret: Path) -> None:
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    attempts: dict[str, Callable[[], object]] = {
        "list": lambda: list(meeting.parent.iterdir()),
        "read": meeting.read_bytes,
        "read the secret": secret.read_bytes,
        "join by port": lambda: _join_port(port),
        "join by file": lambda: _join_file(meeting),
        "plant": lambda: meeting.with_name("0000000002-planted").write_bytes(_PICKLED),
        "write": lambda: _append(meeting),
        "take away": meeting.unlink,
    }
    told: dict[str, str | None] = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            told[name] = None
        except (OSError, RuntimeError) as error:
            told[name] = f"{type(error).__name__}: {error}"[:200]
    print(json.dumps(told))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
