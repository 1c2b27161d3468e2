"""OR-Library's generalised assignment files (Chu and Beasley, *Computers & Operations Research* 24, 1997).

Layout: the number of problems; per problem ``m n`` (machines, jobs), m rows of n costs, m rows of n uses,
m capacities. A file of one problem may lack the leading number. The sense is not in the file: gap1 to gap12
maximise, gapa to gape minimise; other names must say it.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.readers.numbers import Numbers, select_problem, whole_uses

__all__ = ["read"]


def read(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MatchingInstance:
    """Read problem `index` of a file.

    Raises
    ------
    InvalidInstance
        If the file is malformed or truncated, or has no such problem.
    InvalidOption
        If neither `sense` nor the name says whether to maximise.
    """
    numbers = Numbers.parse(raw)
    headers = _headers(numbers)
    select_problem(index, len(headers))
    position, machines, jobs = headers[index]
    size = machines * jobs
    values = numbers.values[position : position + size].reshape(machines, jobs)
    use_at = np.arange(position + size, position + 2 * size).reshape(machines, jobs)
    room_at = np.arange(machines) + position + 2 * size
    uses, rooms = whole_uses(numbers, use_at.T, room_at)
    maximise = (sense or _sense(name)) == "maximize"
    names = [f"m{i}" for i in range(machines)]
    return MatchingInstance(
        schema_version="1",
        objective="value" if maximise else "cost",
        machines=tuple(
            MatchingMachine(id=machine, capacity=room)
            for machine, room in zip(names, rooms.tolist(), strict=True)
        ),
        jobs=tuple(
            MatchingJob(
                id=f"j{job}",
                on={
                    machine: MatchingEntry(value=value, uses=use)
                    if maximise
                    else MatchingEntry(cost=value, uses=use)
                    for machine, value, use in zip(
                        names, values[:, job].tolist(), uses[job].tolist(), strict=True
                    )
                },
            )
            for job in range(jobs)
        ),
        name=f"{name}[{index}]" if name and len(headers) > 1 else name,
    )


def _sense(name: str) -> str:
    if re.match(r"gap\d", name, re.IGNORECASE):
        return "maximize"
    if re.match(r"gap_?[a-e]", name, re.IGNORECASE):
        return "minimize"
    raise InvalidOption(
        f"give the sense, max or min: the name {name!r} does not say it (gap1-12 max, gapa-e min)"
    )


def _headers(numbers: Numbers) -> list[tuple[int, int, int]]:
    """Return (position of the first cost, machines, jobs) of every problem."""
    if len(numbers) >= 2:
        first, second = numbers.values[:2].tolist()
        if len(numbers) == 2 + 2 * first * second + first and first >= 1:
            return [
                (2, numbers.count(0, "the number of machines m"), numbers.count(1, "the number of jobs n"))
            ]
    headers: list[tuple[int, int, int]] = []
    position = 1
    for problem in range(numbers.count(0, "the number of problems", low=0)):
        machines = numbers.count(position, "the number of machines m")
        jobs = numbers.count(position + 1, "the number of jobs n")
        needed = 2 * machines * jobs + machines
        left = len(numbers) - position - 2
        if left < needed:
            message = f"m = {machines} and n = {jobs} need {needed} more numbers; the file has {left} left"
            raise InvalidInstance(Problem(f"$.problem[{problem}]", message))
        headers.append((position + 2, machines, jobs))
        position += 2 + needed
    if position != len(numbers):
        message = f"expected the end of the file after {len(headers)} problems"
        raise InvalidInstance(Problem(numbers.place(position), message))
    return headers
