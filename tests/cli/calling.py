"""Run a command in this process, or in a fresh one, and return what it wrote."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

SOLVE = "from apportion.cli.solve_instance import main; main()"
GROUP = "from apportion.cli.main import main; main()"


@dataclass(frozen=True)
class Called:
    code: int | None
    out: str
    err: str


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def call(
    main: Callable[[list[str]], object], *arguments: object, stdin: bytes = b"", terminal: bool = False
) -> Called:
    """Call an entry point with arguments and standard input."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = (_Terminal if terminal else io.TextIOWrapper)(
        io.BytesIO(), encoding="utf-8", errors="backslashreplace"
    )
    streams = {"stdin": io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"), "stdout": out, "stderr": err}
    code: int | None = 0
    with mock.patch.multiple(sys, **streams):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) or leaving.code is None else 1
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Called(code, *texts)


def process(
    root: Path, source: str, *arguments: object, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run Python source in a fresh process that sees the package and keeps what it prints in a buffer."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    environment.pop("PYTHONUNBUFFERED", None)  # some machines set it, and hide what is written too late
    return subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=environment,
        timeout=300,
        check=False,
    )
