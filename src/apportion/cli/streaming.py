"""``solve-instance --stream``: one instance per line in, one answer per line out, the process kept warm."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from apportion.cli.output import OutputClosed

__all__ = ["stream"]


def stream(**options: Any) -> int:
    """Answer standard input line by line until it ends; returns exit code 0.

    Parameters
    ----------
    **options
        Passed to every `solve` call.
    """
    from apportion.service.stream import serve

    with _answers() as out:

        def write(answer: bytes) -> None:
            try:
                out.write(answer)
                out.flush()
            except OSError as error:
                why = "" if isinstance(error, BrokenPipeError) else f"standard output: {error.strerror}"
                raise OutputClosed(why) from None

        serve(sys.stdin.buffer, write, **options)
    return 0


@contextmanager
def _answers() -> Iterator[BinaryIO]:
    """Yield what standard output was, while anything else printed on it goes to standard error."""
    if sys.stdout is None or sys.stdin is None:
        raise OutputClosed("standard input or output is closed")
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    out = os.fdopen(saved, "wb", closefd=False)
    try:
        yield out
    finally:
        os.dup2(saved, 1)
        os.close(saved)
