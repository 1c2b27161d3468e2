"""Progress on a terminal: the incumbent and its bound while a solve lasts longer than a moment."""

from __future__ import annotations

import sys
import threading
import time
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import CLOCK, stop_clock
from apportion.cli.settings import is_quiet, is_verbose

if TYPE_CHECKING:
    from apportion.core.options import Incumbent

__all__ = ["Progress", "clocked"]

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
