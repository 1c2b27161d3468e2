"""Where cells run: threads that each guard one process here, or a Dask cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from apportion.core.errors import BackendUnavailable, InvalidOption

__all__ = ["CannotExecute", "opened"]


class CannotExecute(Exception):
    """There is no such executor here; the message says what to do."""


@contextmanager
def opened(name: str, workers: int) -> Iterator[Executor]:
    """Yield the executor of a name: ``process[:N]``, ``dask[:N]`` or ``dask://HOST:PORT``.

    Raises
    ------
    CannotExecute
        If it is unknown or needs what is not installed.
    """
    local = re.fullmatch(r"process(?::([1-9]\d{0,3}))?", name)
    if local is not None:
        # a thread only waits: the cell's own process does the work
        with ThreadPoolExecutor(int(local[1] or workers)) as executor:
            yield executor
        return
    from apportion.scale.executors import open_executor

    try:
        with open_executor(f"dask:{workers}" if name == "dask" else name) as remote:
            assert remote is not None
            yield remote
    except (InvalidOption, BackendUnavailable) as error:
        raise CannotExecute(str(error)) from error
