"""Run one training script as one rank, its process group meeting at a file even if the script names a port.

Started by `apportion.live.trainers.torchrun` as ``python -m apportion.live.trainers.torch_entry [-m] SCRIPT
...``.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from apportion.live.trainer_protocol import Assignment
from apportion.live.trainers.torch_store import meet_at_the_file

__all__ = ["main"]


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
