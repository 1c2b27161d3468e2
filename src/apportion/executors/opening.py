"""``--executor``: from what a person writes to a `concurrent.futures.Executor`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from apportion.errors import InvalidOption
from apportion.executors.surviving import SurvivingPool

__all__ = ["open_executor"]


@contextmanager
def open_executor(executor: str | Executor | None, attempts: int = 3) -> Iterator[Executor | None]:
    """Open what a name stands for and close it at the end; an executor that is given is passed on, left open.

    Parameters
    ----------
    executor
        ``"process"`` or ``"process:N"``: spawned processes on this machine, one per core or N;
        ``"dask"`` or ``"dask:N"``: a `dask.distributed` cluster of such processes, started here;
        ``"dask://HOST:PORT"``: the cluster whose scheduler listens there;
        ``None``: no executor, calls run here.
    attempts
        Deaths of its worker after which a call is given up (a cluster that already runs has its own rule).

    Yields
    ------
    Executor or None
        A worker that dies costs only the call it was running, which runs again elsewhere.

    Raises
    ------
    InvalidOption
        If the name is none of these.
    BackendUnavailable
        If dask is not installed, or no usable cluster is at the address.

    Examples
    --------
    >>> from apportion.executors import open_executor
    >>> with open_executor("process:2") as executor:
    ...     executor.submit(abs, -3).result()
    3
    """
    if executor is None or isinstance(executor, Executor):
        yield executor
        return
    if not isinstance(executor, str):
        meant = (
            "; a dask Client gives one: client.get_executor()" if hasattr(executor, "get_executor") else ""
        )
        raise InvalidOption(f"executor must be a name, an Executor or None, not {executor!r}{meant}")
    if executor.startswith("dask://"):
        from apportion.executors.dask_cluster import remote_dask

        with remote_dask(_address(executor)) as remote:
            yield remote
        return
    name, workers = _parsed(executor)
    if name == "dask":
        from apportion.executors.dask_cluster import local_dask

        with local_dask(workers, attempts) as local:
            yield local
        return
    pool = SurvivingPool(workers, attempts)
    try:
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _parsed(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(process|dask)(?::([1-9]\d{0,4}))?", text)
    if found is None:
        raise InvalidOption(
            f"executor must be process, process:N, dask, dask:N or dask://HOST:PORT, not {text!r}"
        )
    name, workers = found.groups()
    return name, int(workers) if workers else _cores()


def _address(text: str) -> str:
    found = re.fullmatch(r"dask://(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(\d{1,5})", text)
    if found is None:
        raise InvalidOption(f"executor: an address is written dask://HOST:PORT, not {text!r}")
    return text.removeprefix("dask://")


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
