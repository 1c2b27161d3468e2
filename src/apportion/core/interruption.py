"""Ctrl-C, heard once and for all: a loop stops where it is whole, whatever a solver made of the signal.

An engine answers Ctrl-C by giving what it has, and some native code swallows it. A loop that took such an
answer for a decision would go on with another result. So the signal's handler remembers it: work that must
not be torn is `defer_interrupt`, the long calls inside it are `released`, and a loop asks
`raise_if_interrupted`. Only the main thread hears signals, and a handler of the caller's own is left alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from apportion.core.outcome import Termination

__all__ = [
    "DeferredInterrupt",
    "defer_interrupt",
    "heard",
    "listening",
    "raise_if_interrupted",
    "released",
    "uninterrupted",
]

_INSISTENT = 3
"""Presses of Ctrl-C after which it is raised wherever the program is, held or not."""


class _Answer(Protocol):
    @property
    def termination(self) -> Termination: ...


_A = TypeVar("_A", bound=_Answer)


class _Listener:
    """A handler of SIGINT that remembers; it raises at the first signal unless held, and at the third."""

    def __init__(self) -> None:
        self.heard = 0
        self.depth = 0
        self.yields = False

    @property
    def waits(self) -> bool:
        return self.depth > 0 or self.yields

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.heard += 1
        if self.heard >= _INSISTENT or (self.heard == 1 and not self.waits):
            raise KeyboardInterrupt


class DeferredInterrupt:
    """What a `defer_interrupt` stretch of work knows of Ctrl-C."""

    def __init__(self, listener: _Listener | None) -> None:
        self._listener = listener

    @property
    def struck(self) -> bool:
        """Whether Ctrl-C was heard and no stretch around this one answers for it."""
        return self._listener is not None and self._listener.heard > 0 and self._listener.depth == 1


def _listener() -> _Listener | None:
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, _Listener) else None


@contextmanager
def listening() -> Iterator[_Listener | None]:
    """Remember every Ctrl-C from here on, where Python's own handler would only raise it.

    Yields what remembers them, ``None`` where nobody does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    standing = signal.getsignal(signal.SIGINT)
    if standing is not signal.default_int_handler:
        yield standing if isinstance(standing, _Listener) else None
        return
    listener = _Listener()
    signal.signal(signal.SIGINT, listener)
    try:
        yield listener
    finally:
        signal.signal(signal.SIGINT, standing)


@contextmanager
def defer_interrupt(yields: bool = False) -> Iterator[DeferredInterrupt]:
    """Let Ctrl-C wait until the work inside is whole; the caller acts on `DeferredInterrupt.struck`.

    Parameters
    ----------
    yields
        Leave it to a `solve` inside to release its long calls and to say that it was interrupted: for
        whoever has to write that answer.
    """
    with listening() as listener:
        if listener is None:
            yield DeferredInterrupt(None)
            return
        before = listener.depth, listener.yields
        listener.depth, listener.yields = (before[0], True) if yields else (before[0] + 1, before[1])
        try:
            yield DeferredInterrupt(listener)
        finally:
            listener.depth, listener.yields = before


@contextmanager
def released() -> Iterator[None]:
    """Let Ctrl-C raise inside `defer_interrupt`, also one heard before, unless an outer one defers it."""
    listener = _listener()
    if listener is None or not listener.depth:
        yield
        return
    before = listener.depth, listener.yields
    listener.depth = before[0] - 1
    listener.yields = before[1] and listener.depth > 0
    try:
        if listener.heard and not listener.waits:
            raise KeyboardInterrupt
        yield
    finally:
        listener.depth, listener.yields = before


def heard() -> bool:
    """Whether Ctrl-C was heard since the outermost `listening` or `defer_interrupt` began."""
    listener = _listener()
    return listener is not None and listener.heard > 0


def raise_if_interrupted() -> None:
    """Raise ``KeyboardInterrupt`` if Ctrl-C was heard, whoever took it, unless it is held."""
    listener = _listener()
    if listener is not None and listener.heard and not listener.waits:
        raise KeyboardInterrupt


def uninterrupted(answer: _A) -> _A:
    """Return a `Solution` or an `Outcome`, unless Ctrl-C ended it: no loop may take that for a decision.

    Raises
    ------
    KeyboardInterrupt
        If the answer was interrupted, or Ctrl-C was heard while it was looked for.
    """
    from apportion.core.outcome import Termination

    if answer.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    raise_if_interrupted()
    return answer
