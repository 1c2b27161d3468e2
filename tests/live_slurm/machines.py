"""The machines of a site, as our processes there see them: a wall clock and a way to the controller for each.

The nodes of a cluster on one machine share its clock and its network. A program that pilots start in place
of Python gives the agents of a node, and the ranks and watchdogs they start, a clock and a way of their own.
The Debian package `faketime` would do for clocks but for three things: version 0.9.10 breaks the sleep of
Python 3.11 when steady clocks are left alone, what it leaves in shared memory outlives a process that is
killed, and a process killed at a bad moment makes others of its family wait for ever.
"""

from __future__ import annotations

import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.live_slurm.network import Way

__all__ = ["Clock", "Machines", "wall_clock"]

_SOURCE = Path(__file__).parent / "wall_clock.c"
_SECONDS = struct.Struct("=q")
_PYTHON = """#!/bin/sh
at={folder}/$SLURMD_NODENAME
{clock}
for word do
  shift
  if [ "$before" = --controller ]; then
    echo "$word" > "$at/controller"
    read -r word < "$at/way"
  fi
  before=$word
  set -- "$@" "$word"
done
exec {python} "$@"
"""


def wall_clock(folder: Path) -> Path | None:
    """Return a library that gives Python a wall clock of its own; ``None`` where no compiler makes it."""
    compiler, library = shutil.which("cc"), folder / "wall_clock.so"
    if compiler is None:
        return None
    made = subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)],
        capture_output=True,
        check=False,
    )
    return library if made.returncode == 0 else None


class Clock:
    """The wall clock of one machine.

    Parameters
    ----------
    file
        What the preloaded library reads.
    library
        As of `wall_clock`.
    """

    def __init__(self, file: Path, library: Path) -> None:
        self._file, self._library, self._ahead_s = file, library, 0
        file.write_bytes(_SECONDS.pack(0))

    def jump(self, seconds: int) -> None:
        """Set the clock forward, or back; what runs sees it at once."""
        self._ahead_s += seconds
        with self._file.open("r+b") as file:  # in place: it is mapped
            file.write(_SECONDS.pack(self._ahead_s))

    def environment(self) -> dict[str, str]:
        """Return the variables that give a process this clock, and those it starts."""
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK_FILE": str(self._file)}


class Machines:
    """The controller's machine and the nodes of a site.

    Parameters
    ----------
    folder
        An empty folder of its own.
    nodes
        Their names.
    library
        As of `wall_clock`; ``None``: all have the one clock.

    Attributes
    ----------
    ways
        Every node's way to the controller.
    clocks
        Those of nodes.
    controller
        The controller's clock.
    python
        What pilots are to start in place of Python.
    """

    def __init__(self, folder: Path, nodes: Sequence[str], library: Path | None) -> None:
        self.python = folder / "python"
        self.ways: dict[str, Way] = {}
        self.clocks: list[Clock] = []
        for node in nodes:
            (at := folder / node).mkdir(parents=True)
            self.ways[node] = Way(lambda at=at: _address(at / "controller"))  # type: ignore[misc]
            (at / "way").write_text(f"127.0.0.1:{self.ways[node].port}\n")
            if library is not None:
                self.clocks.append(Clock(at / "clock", library))
        self.controller = None if library is None else Clock(folder / "clock", library)
        clock = f"export LD_PRELOAD={library} WALL_CLOCK_FILE=$at/clock" if library is not None else ""
        python = shlex.quote(sys.executable)
        self.python.write_text(_PYTHON.format(folder=shlex.quote(str(folder)), clock=clock, python=python))
        self.python.chmod(0o755)

    def close(self) -> None:
        """End every way."""
        for way in self.ways.values():
            way.close()


def _address(told: Path) -> tuple[str, int] | None:
    """Return the address that the last pilot of a node was told."""
    host, _, port = (told.read_text() if told.exists() else "").strip().rpartition(":")
    return (host, int(port)) if host and port.isdecimal() else None
