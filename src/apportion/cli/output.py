"""Where answers go: standard output or a whole file, and nothing else on standard output."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

__all__ = [
    "CLOCK",
    "OutputClosed",
    "check_target",
    "counted",
    "emit",
    "quiet_stdout",
    "say",
    "stop_clock",
    "write_file",
]

CLOCK = "apportion.cli.clock"
"""Where the context of a command keeps what stops its clock."""


class OutputClosed(Exception):
    """Standard output takes no more; the message is empty where its reader has simply gone.

    It is no ``OSError``, because click would answer that by itself.
    """


def emit(data: bytes, path: str = "-") -> None:
    """Write data and a newline to a file, whole, or to standard output for ``-``."""
    if path == "-":
        stop_clock()
        if sys.stdout is None:
            raise OutputClosed("standard output is closed")
        stream, left = sys.stdout.buffer, memoryview(data + b"\n")
        try:
            while left:  # an unbuffered stream may take only a part
                left = left[stream.write(left) or 0 :]
            stream.flush()
        except OSError as error:
            why = "" if isinstance(error, BrokenPipeError) else f"standard output: {error.strerror}"
            raise OutputClosed(why) from None
        return
    write_file(path, data + b"\n")


def write_file(path: str, data: bytes) -> None:
    """Write a file, whole or not at all, and say so where a person looks on."""
    from apportion.core.files import write_whole

    write_whole(path, data)
    stop_clock()
    from apportion.cli.settings import is_quiet, is_verbose

    if is_verbose() or (sys.stderr is not None and sys.stderr.isatty() and not is_quiet()):
        click.echo(f"wrote {path}", err=True)


def stop_clock() -> None:
    """Take the clock of the running command off the terminal, before anything else is shown there."""
    context = click.get_current_context(silent=True)
    stop = None if context is None else context.meta.pop(CLOCK, None)
    if stop is not None:
        stop()


def check_target(path: str | None) -> None:
    """Check a file to be written later, before any work is done.

    Raises
    ------
    NotADirectoryError
        If its folder does not exist.
    click.UsageError
        If the command line names it twice: nothing is written over an input, or over another output.
    """
    if path is None or path == "-":
        return
    if not Path(path).absolute().parent.is_dir():
        raise NotADirectoryError(None, f"cannot write {path}: its folder does not exist")
    context = click.get_current_context(silent=True)
    named = () if context is None else _words(context.params.values())
    if sum(_is_same(path, word) for word in named) > 1:
        raise click.UsageError(
            f"{path} is to be written and is named a second time, as an input or another output: "
            "name another file, for nothing is written over what was read"
        )


def _words(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from _words(value)


def _is_same(path: str, word: str) -> bool:
    try:
        return os.path.realpath(path) == os.path.realpath(word) or Path(path).samefile(word)
    except (OSError, ValueError):
        return False


def counted(number: int, thing: str) -> str:
    """Return ``1 job`` or ``2 jobs``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def say(text: str) -> None:
    """Write readable text to standard output, whatever characters it holds."""
    emit(text.encode(errors="backslashreplace"))


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Send to standard error what Python, native code or a child process prints on file descriptor 1."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        saved = os.dup(1)
    except (OSError, ValueError):  # standard output is closed: there is nothing to keep clean
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        _flush_printed()
        os.dup2(saved, 1)
        os.close(saved)


def _flush_printed() -> None:
    """Empty the buffers of Python and of native solvers before file descriptor 1 is standard output again."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
    if {"highspy", "ortools"} & sys.modules.keys():
        import ctypes

        ctypes.CDLL(None).fflush(None)
