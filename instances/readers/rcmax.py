"""Unrelated parallel machines (Fanjul-Peyro and Ruiz, *European Journal of Operational Research* 207, 2010).

Layout: n jobs, m machines, then n rows of m processing times; or rows of m pairs ``machine time``, machines
counted from 0. Minimises the makespan.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
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
    InvalidOption
        If the sense is max.
    """
    if sense == "maximize":
        raise InvalidOption("sense must be min: a makespan is minimised")
    numbers = Numbers.parse(raw)
    select_problem(index, 1)
    jobs = numbers.count(0, "the number of jobs n")
    machines = numbers.count(1, "the number of machines m")
    size = jobs * machines
    if len(numbers) not in (2 + size, 2 + 2 * size):
        message = f"n = {jobs} and m = {machines} need {size} times; found {len(numbers) - 2} numbers"
        raise InvalidInstance(Problem("end of file", message))
    if len(numbers) == 2 + size:
        times = numbers.values[2:].reshape(jobs, machines)
    else:
        pairs = numbers.values[2:].reshape(jobs, machines, 2)
        if not (pairs[:, :, 0] == np.arange(machines)).all():
            raise InvalidInstance(Problem("$", f"expected pairs of machine (0 to {machines - 1}) and time"))
        times = pairs[:, :, 1]
    if (times < 0).any():
        raise InvalidInstance(Problem("$", "expected processing times of at least 0"))
    names = [f"m{i}" for i in range(machines)]
    return MatchingInstance(
        schema_version="1",
        objective="makespan",
        machines=tuple(MatchingMachine(id=machine) for machine in names),
        jobs=tuple(
            MatchingJob(
                id=f"j{job}",
                on={machine: MatchingEntry(time_s=time) for machine, time in zip(names, row, strict=True)},
            )
            for job, row in enumerate(times.tolist())
        ),
        name=name,
    )
