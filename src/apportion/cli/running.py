"""Run a command: its progress on a terminal, and one message and the documented exit code for its end.

The incumbent and its bound are shown while a solve lasts longer than a moment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import CLOCK, OutputClosed, stop_clock
from apportion.cli.settings import is_quiet, is_verbose
from apportion.core.errors import ApportionError, InvalidInstance
from apportion.core.interruption import listening

if TYPE_CHECKING:
    from apportion.core.options import Incumbent

__all__ = [
    "Progress",
    "clocked",
    "in_one_line",
    "run",
]

_INTERNAL, _USAGE, _INTERRUPTED, _BROKEN_PIPE = 1, 2, 130, 141
_WRONG_PATH = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_SHOWN_PROBLEMS = 50


def run(
    command: click.Command,
    name: str,
    arguments: Sequence[str] | None = None,
    settings: Callable[[], Mapping[str, Any]] | None = None,
) -> int:
    """Run a command and return its exit code; nothing is raised.

    Parameters
    ----------
    command
        The click command; its return value is the exit code, ``None`` for 0.
    name
        What the command calls itself.
    arguments
        Its arguments, those of the process by default.
    settings
        Returns more settings of its click context.
    """
    with _as_loud_as_before():
        return _ran(command, name, arguments, settings)


@contextlib.contextmanager
def in_one_line(name: str) -> Iterator[None]:
    """Leave a script that meets a wrong or missing file as a command would: one message, its exit code.

    Parameters
    ----------
    name
        What the script calls itself.
    """
    try:
        yield
    except click.BadParameter as error:
        _say(name, error.format_message())
        raise SystemExit(error.exit_code) from None
    except (ApportionError, OSError, click.ClickException) as error:
        raise SystemExit(_failed(name, error)) from None
    except KeyboardInterrupt:
        _say(name, "interrupted")
        raise SystemExit(_INTERRUPTED) from None


@contextlib.contextmanager
def _as_loud_as_before() -> Iterator[None]:
    """Undo what ``-q`` and ``-v`` of one command set for the process."""
    logger, debug = logging.getLogger("apportion"), os.environ.get("APPORTION_DEBUG")
    level = logger.level
    try:
        yield
    finally:
        logger.setLevel(level)
        if debug is None:
            os.environ.pop("APPORTION_DEBUG", None)


def _ran(
    command: click.Command,
    name: str,
    arguments: Sequence[str] | None,
    settings: Callable[[], Mapping[str, Any]] | None,
) -> int:
    try:
        with listening():
            code = command.main(
                args=None if arguments is None else list(arguments),
                prog_name=name,
                standalone_mode=False,
                **({} if settings is None else settings()),
            )
    except OutputClosed as closed:
        _silence_stdout()
        if not str(closed):
            return _BROKEN_PIPE
        _say(name, str(closed))
        return _INTERNAL
    except (KeyboardInterrupt, click.Abort):
        _say(name, "interrupted")
        return _INTERRUPTED
    except SystemExit as leaving:  # click's own answer to a closed pipe while it prints help
        _silence_stdout()
        return leaving.code if isinstance(leaving.code, int) else _INTERNAL
    except Exception as error:
        return _failed(name, error)
    return code if isinstance(code, int) else 0


def _failed(name: str, error: Exception) -> int:
    if os.environ.get("APPORTION_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, InvalidInstance):
        file = "" if error.file is None else f"{error.file}: "
        for problem in error.problems[:_SHOWN_PROBLEMS]:
            _say(name, f"{file}{problem.located()}")
        if len(error.problems) > _SHOWN_PROBLEMS:
            more = len(error.problems) - _SHOWN_PROBLEMS
            _say(name, f"and {more} more problems; `apportion validate` lists them all")
        elif len(error.problems) > 1:
            _say(name, f"{len(error.problems)} problems")
        return error.exit_code
    if isinstance(error, ApportionError):
        _say(name, str(error))
        return error.exit_code
    if isinstance(error, OSError):
        _say(name, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return _USAGE if isinstance(error, _WRONG_PATH) else _INTERNAL
    if isinstance(error, MemoryError):
        _say(name, "out of memory")
        return _INTERNAL
    _say(name, f"internal error: {type(error).__name__}: {error} (APPORTION_DEBUG=1 shows where)")
    return _INTERNAL


def _say(name: str, message: str) -> None:
    """Write one line to stderr, whatever characters the message holds."""
    line = message.encode(errors="backslashreplace").decode()
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    click.echo(f"{name}: {escaped}", err=True)


def _silence_stdout() -> None:
    """Point fd 1 at nothing, so that the interpreter's last flush cannot fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


_PATIENCE_S = 0.5
"""Solves that end sooner show nothing and load nothing."""


class Progress:
    """A status line with a clock that runs, on standard error; silent unless that is a terminal.

    With ``-q`` it is silent there, too; with ``-v`` it is a line per news, whatever standard error is.

    Parameters
    ----------
    wanted
        Whether to show anything at all.
    text
        What is being done, until `say` knows more.
    """

    def __init__(self, wanted: bool, text: str = "solving") -> None:
        self._lock = threading.Lock()
        self._shown: Any = None
        self._text = text
        self._timer: threading.Timer | None = None
        self._lines = False
        self._began = time.monotonic()
        if sys.stderr is None or is_quiet():
            return
        self._lines = is_verbose()
        if wanted and sys.stderr.isatty() and not self._lines:
            self._timer = threading.Timer(_PATIENCE_S, self._show)
            self._timer.daemon = True

    @property
    def callback(self) -> Any:
        """``on_incumbent`` for the solve, ``None`` if nothing is shown."""
        return self._update if self._lines or self._timer is not None else None

    def __enter__(self) -> Progress:
        stop_clock()
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Show nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            with self._lock:
                self._timer = None
                if self._shown is not None:
                    self._shown.stop()

    def say(self, text: str) -> None:
        """Show another text."""
        if self._lines:
            click.echo(f"{time.monotonic() - self._began:8.2f} s  {text}", err=True)
        with self._lock:
            self._text = text
            if self._shown is not None:
                self._shown.update(0, description=text)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._timer is not None:
                columns = (
                    SpinnerColumn(),
                    TimeElapsedColumn(),
                    TextColumn("{task.description}", markup=False),
                )
                self._shown = Bar(*columns, console=Console(stderr=True), transient=True)
                self._shown.add_task(self._text, total=None)
                self._shown.start()

    def _update(self, incumbent: Incumbent) -> None:
        bound = "" if incumbent.bound is None else f", bound {incumbent.bound:.10g}"
        self.say(f"objective {incumbent.objective:.10g}{bound}")


def clocked(command: click.Command, text: str) -> click.Command:
    """Return a command that shows a clock with a text while it runs, until it says something itself."""
    whole = command.callback
    if whole is None or hasattr(whole, "__wrapped__"):
        return command

    @wraps(whole)
    def timed(*given: Any, **named: Any) -> Any:
        context = click.get_current_context()
        with Progress(True, text) as clock:
            context.meta[CLOCK] = clock.stop
            return whole(*given, **named)

    command.callback = timed
    return command
