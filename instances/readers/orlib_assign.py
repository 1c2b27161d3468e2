"""OR-Library's linear assignment files (Beasley, *European Journal of Operational Research* 46, 1990).

Layout: n, then n rows of n costs; or n, then lines ``i j cost`` counted from 1, pairs not listed forbidden.
Minimises unless told otherwise. Every machine takes one job.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.readers.numbers import Numbers, select_problem

__all__ = ["read"]


def read(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MatchingInstance:
    """Read the one problem of a file.

    Raises
    ------
    InvalidInstance
        If the file is malformed or truncated, or `index` is not 0.
    """
    numbers = Numbers.parse(raw)
    select_problem(index, 1)
    size = numbers.count(0, "the number of jobs n")
    rows = _dense(numbers, size) if len(numbers) == 1 + size * size else _listed(numbers, size)
    maximise = sense == "maximize"
    names = [f"m{i}" for i in range(size)]
    return MatchingInstance(
        schema_version="1",
        objective="value" if maximise else "cost",
        machines=tuple(MatchingMachine(id=machine, capacity=1) for machine in names),
        jobs=tuple(
            MatchingJob(
                id=f"j{job}",
                on={
                    names[machine]: MatchingEntry(value=cost) if maximise else MatchingEntry(cost=cost)
                    for machine, cost in row
                },
            )
            for job, row in enumerate(rows)
        ),
        name=name,
    )


def _dense(numbers: Numbers, size: int) -> list[list[tuple[int, float]]]:
    matrix: NDArray[np.float64] = numbers.values[1:].reshape(size, size)
    return [list(enumerate(row)) for row in matrix.tolist()]


def _listed(numbers: Numbers, size: int) -> list[list[tuple[int, float]]]:
    if (len(numbers) - 1) % 3:
        message = (
            f"n = {size} needs {size * size} costs or lines of i j cost; found {len(numbers) - 1} numbers"
        )
        raise InvalidInstance(Problem("end of file", message))
    if size > (len(numbers) - 1) // 3:
        message = f"has {(len(numbers) - 1) // 3} pairs for {size} jobs; every job needs one"
        raise InvalidInstance(Problem("end of file", message))
    rows: list[dict[int, float]] = [{} for _ in range(size)]
    for at in range(1, len(numbers), 3):
        job = numbers.count(at, f"a job from 1 to {size}")
        machine = numbers.count(at + 1, f"a machine from 1 to {size}")
        if job > size or machine > size:
            raise InvalidInstance(Problem(numbers.place(at), f"expected numbers from 1 to {size}"))
        if machine - 1 in rows[job - 1]:
            raise InvalidInstance(Problem(numbers.place(at), f"pair {job} {machine} stands twice"))
        rows[job - 1][machine - 1] = float(numbers.values[at + 2])
    return [list(row.items()) for row in rows]
