"""Progress on a terminal: the incumbent and its bound while a solve lasts longer than a moment."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apportion.options import Incumbent

__all__ = ["Progress"]

_PATIENCE_S = 0.5
"""Solves that end sooner show nothing and load nothing."""


class Progress:
    """A status line on standard error; silent unless it is a terminal.

    Parameters
    ----------
    wanted
        Whether to show anything at all.
    """

    def __init__(self, wanted: bool) -> None:
        self._lock = threading.Lock()
        self._status: Any = None
        self._text = "solving"
        self._timer: threading.Timer | None = None
        if wanted and sys.stderr is not None and sys.stderr.isatty():
            self._timer = threading.Timer(_PATIENCE_S, self._show)
            self._timer.daemon = True

    @property
    def callback(self) -> Any:
        """``on_incumbent`` for the solve, ``None`` if nothing is shown."""
        return None if self._timer is None else self._update

    def __enter__(self) -> Progress:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            with self._lock:
                self._timer = None
                if self._status is not None:
                    self._status.stop()

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            if self._timer is not None:
                self._status = Console(stderr=True).status(self._text)
                self._status.start()

    def _update(self, incumbent: Incumbent) -> None:
        bound = "" if incumbent.bound is None else f", bound {incumbent.bound:.10g}"
        with self._lock:
            self._text = f"objective {incumbent.objective:.10g}{bound}, {incumbent.seconds:.1f} s"
            if self._status is not None:
                self._status.update(self._text)
