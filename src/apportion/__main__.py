"""What the installed commands and ``python -m apportion`` call.

Ctrl-C while a command is being loaded is a message, not a traceback.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module
from types import FrameType

__all__ = ["apportion", "solve_instance"]

_INTERRUPTED = 130


def apportion() -> None:
    """Run ``apportion``."""
    _run("apportion", "apportion.cli.main")


def solve_instance() -> None:
    """Run ``solve-instance``."""
    _run("solve-instance", "apportion.cli.solve_instance")


def _run(name: str, module: str) -> None:
    def leave(number: int, frame: FrameType | None) -> None:
        """End at once: an exception would come out of the middle of somebody's import."""
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(_INTERRUPTED)  # nothing has been begun

    before = signal.signal(signal.SIGINT, leave)
    main = import_module(module).main
    signal.signal(signal.SIGINT, before)
    main()


if __name__ == "__main__":
    apportion()
