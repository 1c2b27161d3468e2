"""Calls on a `dask.distributed` cluster: one that listens somewhere, or one of our own on this machine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from apportion.core import __version__
from apportion.core.errors import BackendUnavailable
from apportion.scale.surviving import WorkerDied

__all__ = ["DaskExecutor", "local_dask", "remote_dask"]

_PATIENT = {"distributed.deploy.lost-worker-timeout": "1d"}
"""Read at every death: after the usual 15 s a busy machine's new worker would be given up for good."""

P = ParamSpec("P")
T = TypeVar("T")

_MISSING = "the executor 'dask' needs the package distributed: pip install 'apportion[dask]'"


class DaskExecutor(Executor):
    """Run calls on a dask client.

    Unlike ``Client.get_executor()`` it fetches every answer as soon as there is one and lets go of it on the
    cluster, so that the death of the worker that computed it does not have it computed again.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._pending: set[Future[Any]] = set()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand in a call; arguments and result travel by pickle."""
        outer: Future[T] = Future()
        inner = self._client.submit(fn, *args, **kwargs, pure=False)
        with self._lock:
            self._pending.add(outer)

        def cancelled(done: Future[T]) -> None:
            with self._lock:
                self._pending.discard(done)
            if done.cancelled():
                inner.cancel()

        outer.add_done_callback(cancelled)
        inner.add_done_callback(lambda done: _hand_over(done, outer))
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the calls handed in, or cancel them; the client is its owner's to close."""
        from concurrent.futures import wait as wait_for

        with self._lock:
            pending = set(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            wait_for(pending)


def _hand_over(inner: Any, outer: Future[Any]) -> None:
    if not outer.set_running_or_notify_cancel():
        return
    try:
        if inner.status == "cancelled":
            outer.set_exception(
                BackendUnavailable("the dask cluster gave the call up; is its scheduler alive?")
            )
        elif (error := inner.exception()) is not None:
            killed = type(error).__name__ == "KilledWorker"
            outer.set_exception(WorkerDied(str(error)) if killed else error)
        else:
            outer.set_result(inner.result())
    except Exception as error:  # the connection is gone, or the answer cannot be read here
        outer.set_exception(error)
    finally:
        inner.release()


@contextmanager
def local_dask(workers: int, attempts: int = 3) -> Iterator[DaskExecutor]:
    """Start a scheduler and worker processes of one thread on this machine, each watched by a nanny.

    Raises
    ------
    BackendUnavailable
        If ``distributed`` is not installed.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise BackendUnavailable(_MISSING) from error
    # Read when the scheduler starts: how many deaths a call may cause, and no call queued behind another on
    # a worker, where it would be blamed for the other's deaths.
    rules = {
        "distributed.scheduler.allowed-failures": attempts - 1,
        "distributed.scheduler.worker-saturation": 1.0,
    }
    with dask.config.set(_PATIENT):  # type: ignore[attr-defined, no-untyped-call, unused-ignore]
        with dask.config.set(rules):  # type: ignore[attr-defined, no-untyped-call, unused-ignore]
            cluster: Any = LocalCluster(  # type: ignore[no-untyped-call, unused-ignore]
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            )
        with cluster, Client(cluster) as client:  # type: ignore[no-untyped-call, unused-ignore]
            yield from _executor(client)


@contextmanager
def remote_dask(address: str, timeout_s: float = 10.0) -> Iterator[DaskExecutor]:
    """Connect to a scheduler that already runs.

    Parameters
    ----------
    address
        ``HOST:PORT`` of the scheduler.
    timeout_s
        Seconds to wait for the scheduler, and again for a first worker.

    Raises
    ------
    BackendUnavailable
        If ``distributed`` is not installed, no scheduler answers, it has no worker, or its workers have
        another version of this package or none.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise BackendUnavailable(_MISSING) from error
    try:
        client: Any = Client(f"tcp://{address}", timeout=timeout_s)  # type: ignore[no-untyped-call, unused-ignore]
    except (OSError, ValueError) as error:
        message = (
            f"no dask scheduler answers at {address}: start one with 'dask scheduler', or use 'dask' alone"
        )
        raise BackendUnavailable(message) from error
    with client:
        _demand_workers(client, address, timeout_s)
        yield from _executor(client)


def _executor(client: Any) -> Iterator[DaskExecutor]:
    executor = DaskExecutor(client)
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()


def _demand_workers(client: Any, address: str, timeout_s: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout_s)
    except TimeoutError as error:
        message = f"the dask scheduler at {address} has no workers: start some with 'dask worker {address}'"
        raise BackendUnavailable(message) from error
    for worker, version in _versions(client).items():
        if version != __version__:
            message = (
                f"dask worker {worker} has apportion {version}, this process has {__version__}"
                if isinstance(version, str)
                else f"dask worker {worker} cannot import apportion"
            )
            raise BackendUnavailable(f"{message}: install apportion=={__version__} where the workers run")


def _versions(client: Any) -> dict[str, Any]:
    """Return the version of this package on every worker, or what it answers where there is none."""

    def ask() -> str | None:  # a nested function travels by value, also to workers without this package
        try:
            from apportion.core import __version__ as found
        except ImportError:
            return None
        return found

    found: dict[str, Any] = client.run(ask, on_error="return")
    return found
