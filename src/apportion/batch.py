"""Solve many instances, in this process or on any `concurrent.futures.Executor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from apportion.api import solve
from apportion.solution import Solution

__all__ = ["solve_many"]


def solve_many(
    instances: Iterable[Any], executor: Executor | None = None, ahead: int = 64, **options: Any
) -> Iterator[Solution]:
    """Yield the solution of every instance, in the order given.

    Parameters
    ----------
    instances
        Instances or bare models; an iterator is read only a little ahead of the results.
    executor
        Where to solve: a process pool, ``dask`` through ``Client.get_executor()``, ``mpi4py.futures``;
        ``None`` solves here, one after the other. Give a process pool the ``spawn`` start method.
    ahead
        How many instances may be waiting or running at a time on the executor.
    **options
        Passed to every `solve` call; on an executor they must be picklable, so no `on_incumbent`.

    Yields
    ------
    Solution
        One per instance. An error of a call is raised when its turn comes; nothing later is lost on the
        executor, but the iteration ends.

    Examples
    --------
    >>> import apportion
    >>> model = apportion.MultipleChoiceKnapsack.from_arrays([3.0, 4.0], [2, 4], [0, 2], [3])
    >>> [solution.objective for solution in apportion.solve_many([model, model])]
    [3.0, 3.0]
    """
    if executor is None:
        for instance in instances:
            yield solve(instance, **options)
        return
    waiting: list[Future[Solution]] = []
    source = iter(instances)
    try:
        for instance in source:
            waiting.append(executor.submit(_solve, instance, options))
            if len(waiting) >= ahead:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for future in waiting:
            future.cancel()


def _solve(instance: Any, options: dict[str, Any]) -> Solution:
    return solve(instance, **options)
