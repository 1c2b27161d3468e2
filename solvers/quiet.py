"""Keep native output off standard output: solvers print on file descriptor 1 whatever they are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["native_output_to_stderr"]


@contextmanager
def native_output_to_stderr() -> Iterator[None]:
    """Send what native code writes on fd 1 to fd 2 while the block runs.

    Where either descriptor is closed, nothing is redirected.
    """
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:
        yield
        return
    try:
        try:
            os.dup2(2, 1)
        except OSError:
            yield
            return
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
