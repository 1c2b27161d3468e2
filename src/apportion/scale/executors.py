"""Many calls: here, on processes that may die, or on a `dask.distributed` cluster.

``--executor``: from what a person writes to a `concurrent.futures.Executor`. Each item has its answer or its
error, with few items in memory at a time; `solve_many` solves many instances so.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast, overload

from apportion.core.errors import InvalidOption
from apportion.core.interruption import uninterrupted
from apportion.core.solution import Planned, PlanT, Solution
from apportion.scale.surviving import SurvivingPool, WorkerDied, demand_main_guard
from apportion.solving.api import solve

__all__ = [
    "Row",
    "SurvivingPool",
    "WorkerDied",
    "as_done",
    "in_order",
    "open_executor",
    "solve_many",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """The result of one item, or the error that it raised.

    Attributes
    ----------
    index
        Its position among the items, from 0.
    value
        What the function returned; ``None`` if it raised.
    error
        What it raised, or ``None``.
    """

    index: int
    value: T | None
    error: Exception | None

    def require(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


def in_order(
    executor: Executor | None, function: Callable[..., T], items: Iterable[tuple[Any, ...]], ahead: int = 64
) -> Iterator[Row[T]]:
    """Yield ``function(*item)`` for every item, in the order given.

    Parameters
    ----------
    executor
        Where to call; ``None`` calls here, one after the other.
    function
        Must be picklable for processes, as must items and results.
    items
        The arguments; an iterator is read at most `ahead` items before the results taken.
    ahead
        How many items may be handed in, running or done but not yet taken, at least 1.

    Yields
    ------
    Row
        One per item. If the iteration is left, what has not started is cancelled.
    """
    if executor is None:
        yield from _here(function, items)
        return
    waiting: deque[tuple[int, Future[T]]] = deque()
    try:
        for index, item in enumerate(items):
            waiting.append((index, executor.submit(function, *item)))
            if len(waiting) >= ahead:
                yield _row(*waiting.popleft())
        while waiting:
            yield _row(*waiting.popleft())
    finally:
        for _, future in waiting:
            future.cancel()


def as_done(
    executor: Executor | None, function: Callable[..., T], items: Iterable[tuple[Any, ...]], ahead: int = 64
) -> Iterator[Row[T]]:
    """Yield ``function(*item)`` for every item as they finish; parameters as in `in_order`."""
    if executor is None:
        yield from _here(function, items)
        return
    waiting: dict[Future[T], int] = {}
    try:
        for index, item in enumerate(items):
            waiting[executor.submit(function, *item)] = index
            while len(waiting) >= ahead:
                yield from _finished(waiting)
        while waiting:
            yield from _finished(waiting)
    finally:
        for future in waiting:
            future.cancel()


def _finished(waiting: dict[Future[T], int]) -> Iterator[Row[T]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in sorted(done, key=waiting.__getitem__):
        yield _row(waiting.pop(future), future)


def _row(index: int, future: Future[T]) -> Row[T]:
    try:
        return Row(index, future.result(), None)
    except Exception as error:
        return Row(index, None, error)


def _here(function: Callable[..., T], items: Iterable[tuple[Any, ...]]) -> Iterator[Row[T]]:
    for index, item in enumerate(items):
        try:
            row: Row[T] = Row(index, function(*item), None)
        except Exception as error:
            row = Row(index, None, error)
        yield row


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
        If the name is none of these, or the program has no ``if __name__ == "__main__":`` for processes.
    BackendUnavailable
        If dask is not installed, or no usable cluster is at the address.

    Examples
    --------
    >>> from apportion.scale.executors import open_executor
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
        from apportion.scale.dask_cluster import remote_dask

        with remote_dask(_address(executor)) as remote:
            yield remote
        return
    name, workers = _parsed(executor)
    if name == "dask":
        demand_main_guard()
        from apportion.scale.dask_cluster import local_dask

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


@overload
def solve_many(
    instances: Iterable[Planned[PlanT]],
    executor: Executor | str | None = None,
    ahead: int = 64,
    *,
    return_exceptions: Literal[False] = False,
    **options: Any,
) -> Iterator[Solution[PlanT]]: ...
@overload
def solve_many(
    instances: Iterable[Planned[PlanT]],
    executor: Executor | str | None = None,
    ahead: int = 64,
    *,
    return_exceptions: Literal[True],
    **options: Any,
) -> Iterator[Solution[PlanT] | Exception]: ...
def solve_many(
    instances: Iterable[Planned[PlanT]],
    executor: Executor | str | None = None,
    ahead: int = 64,
    *,
    return_exceptions: bool = False,
    **options: Any,
) -> Iterator[Solution[PlanT] | Exception]:
    """Yield the solution of every instance, in the order given.

    Parameters
    ----------
    instances
        Instances or bare models; an iterator is read only a little ahead of the results.
    executor
        Where to solve: a name as `executors.open_executor` takes it (``process:4``, ``dask``,
        ``dask://HOST:PORT``), or an open executor such as ``mpi4py.futures``' (give a process pool the
        ``spawn`` start method); ``None`` solves here, one after the other.
    ahead
        How many instances may be waiting or running at a time on the executor.
    return_exceptions
        Yield the exception of a call in its place and go on.
    **options
        Passed to every `solve` call; on an executor they must be picklable, so no `on_incumbent`.

    Yields
    ------
    Solution
        One per instance. Unless exceptions are returned, the first one is raised when its turn comes and
        ends the iteration. Ctrl-C ends it too: the interrupted solve's best plan comes first, then
        ``KeyboardInterrupt``.

    Examples
    --------
    >>> import apportion
    >>> model = apportion.MultipleChoiceKnapsack.from_arrays([3.0, 4.0], [2, 4], [0, 2], [3])
    >>> [solution.objective for solution in apportion.solve_many([model, model])]
    [3.0, 3.0]
    """
    with open_executor(executor) as opened:
        for row in in_order(opened, _solve, ((instance, options) for instance in instances), ahead):
            if return_exceptions and row.error is not None:
                yield row.error
                continue
            yield (solution := row.require())
            uninterrupted(solution)


def _solve(instance: Any, options: dict[str, Any]) -> Solution:
    return solve(instance, **options)
