"""Solve many instances, in this process or on any `concurrent.futures.Executor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, Literal, overload

from apportion.core.interruption import uninterrupted
from apportion.core.solution import Planned, PlanT, Solution
from apportion.scale.executors import in_order, open_executor
from apportion.solving.api import solve

__all__ = ["solve_many"]


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
