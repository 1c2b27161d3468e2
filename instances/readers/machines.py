"""Formats of jobs and machines: generalised and linear assignment, unrelated parallel machines.

*Generalised assignment*, OR-Library (Chu and Beasley, *Computers & Operations Research* 24, 1997): the
number of problems; per problem ``m n`` (machines, jobs), m rows of n costs, m rows of n uses, m capacities.
A file of one problem may lack the leading number. The sense is not in the file: gap1 to gap12 maximise,
gapa to gape minimise; other names must say it.

*Linear assignment*, OR-Library (Beasley, *European Journal of Operational Research* 46, 1990): n, then n
rows of n costs; or n, then lines ``i j cost`` counted from 1, pairs not listed forbidden. Minimises unless
told otherwise. Every machine takes one job.

*Unrelated parallel machines* (Fanjul-Peyro and Ruiz, *European Journal of Operational Research* 207, 2010):
n jobs, m machines, then n rows of m processing times; or rows of m pairs ``machine time``, machines counted
from 0. Minimises the makespan.

*Gavel*: Gavel's throughput tables (Narayanan et al., OSDI 2020): steps per second of job types by GPU type.

Layout: ``{gpu type: {"('job type', gpus)": {"null": steps/s alone, "other job": [...]}}}``. Every job type
with its GPU count that runs alone on some type becomes one divisible job with an hour of work on the type
that is fastest for it; the cluster has of every type a quarter as many GPUs as there are jobs, at least as
many as the widest job. Types whose workers are spread over servers (``*_unconsolidated``) are left out.
"""

from __future__ import annotations

import json
import math
import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.instances.fields import LARGEST_NUMBER
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.readers.numbers import Numbers, select_problem, whole_uses

__all__ = [
    "read_assignment",
    "read_gavel",
    "read_generalised_assignment",
    "read_unrelated_machines",
    "throughputs",
]


def read_generalised_assignment(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MatchingInstance:
    """Read problem `index` of a file of OR-Library's generalised assignment.

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


def read_assignment(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MatchingInstance:
    """Read the one problem of a file of OR-Library's linear assignment.

    Raises
    ------
    InvalidInstance
        If the file is malformed or truncated, or `index` is not 0.
    """
    numbers = Numbers.parse(raw)
    select_problem(index, 1)
    size = numbers.count(0, "the number of jobs n")
    rows = _dense(numbers, size) if len(numbers) == 1 + size * size else _pairs(numbers, size)
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


def _pairs(numbers: Numbers, size: int) -> list[list[tuple[int, float]]]:
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


def read_unrelated_machines(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MatchingInstance:
    """Read the one problem of a file of unrelated parallel machines.

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


_WORK_S = 3600.0
_PAIR = re.compile(r"""\((?P<quote>['"])(?P<job>.*)(?P=quote), (?P<gpus>\d{1,9})\)""", re.DOTALL)
"""How Python writes a job type and its number of GPUs."""


def read_gavel(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MatchingInstance:
    """Read the one instance of a table.

    Raises
    ------
    InvalidInstance
        If the file is malformed, or `index` is not 0.
    InvalidOption
        If the sense is max.
    """
    if sense == "maximize":
        raise InvalidOption("sense must be min: a makespan is minimised")
    select_problem(index, 1)
    table = throughputs(raw)
    jobs: list[MatchingJob] = []
    for (job, gpus), speeds in table.items():
        fastest = max(speeds.values())
        on = {
            gpu: MatchingEntry(time_s=_WORK_S * fastest / speed, gpus=gpus) for gpu, speed in speeds.items()
        }
        jobs.append(MatchingJob(id=f"{job} x{gpus}", on=on))
    types = sorted({gpu for speeds in table.values() for gpu in speeds})
    widest = max((gpus for _, gpus in table), default=1)
    count = max(len(jobs) // 4, widest)
    return MatchingInstance(
        schema_version="1",
        objective="makespan",
        machines=tuple(MatchingMachine(id=gpu, count=count) for gpu in types),
        jobs=tuple(jobs),
        divisible=True,
        name=name,
    )


def throughputs(raw: bytes) -> dict[tuple[str, int], dict[str, float]]:
    """Return positive steps per second by (job type, GPUs) and GPU type, each job alone, workers together."""
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInstance(Problem("$", f"is no JSON: {error}")) from None
    if not isinstance(tree, dict):
        raise InvalidInstance(Problem("$", "must be an object of GPU types"))
    table: dict[tuple[str, int], dict[str, float]] = {}
    for gpu, jobs in tree.items():
        if gpu.endswith("_unconsolidated"):
            continue
        if not isinstance(jobs, dict):
            raise InvalidInstance(Problem(f"$.{gpu}", "must be an object of job types"))
        for key, measured in jobs.items():
            alone = measured.get("null") if isinstance(measured, dict) else None
            number = alone if isinstance(alone, int | float) and not isinstance(alone, bool) else math.nan
            if not abs(number) <= LARGEST_NUMBER:
                wrong = f"must be a number of steps per second up to {LARGEST_NUMBER:g}"
                raise InvalidInstance(Problem(f"$.{gpu}.{key}.null", wrong))
            if number > 0:
                table.setdefault(_job(gpu, key), {})[gpu] = float(number)
    return table


def _job(gpu: str, key: str) -> tuple[str, int]:
    pair = _PAIR.fullmatch(key)
    if pair is None:
        return key, 1  # Gavel's single-GPU tables use the bare job type
    job, gpus = pair["job"], int(pair["gpus"])
    if gpus < 1:
        raise InvalidInstance(Problem(f"$.{gpu}", f"{key!r} is no job type with a number of GPUs"))
    return job, gpus
