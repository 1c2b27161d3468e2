"""Where cells run: threads that each guard one process here, or an existing Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

__all__ = ["CannotExecute", "opened"]


class CannotExecute(Exception):
    """There is no such executor here; the message says what to do."""


@contextmanager
def opened(name: str, workers: int) -> Iterator[Executor]:
    """Yield the executor of a name: ``process``, ``dask`` or ``dask://HOST:PORT``.

    Raises
    ------
    CannotExecute
        If it is unknown or needs what is not installed.
    """
    if name == "process":
        # a thread only waits: the cell's own process does the work
        with ThreadPoolExecutor(workers) as executor:
            yield executor
        return
    if name != "dask" and not name.startswith("dask://"):
        raise CannotExecute(f"executor must be process, dask or dask://HOST:PORT, not {name!r}")
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise CannotExecute("the executor dask needs apportion[dask]") from error
    if name == "dask":
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            yield client.get_executor(pure=False)
        return
    with Client(name.replace("dask://", "tcp://", 1)) as client:
        yield client.get_executor(pure=False)
