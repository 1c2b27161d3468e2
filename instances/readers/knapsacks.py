"""Formats of knapsacks: multiple-choice multidimensional ones, and multidimensional 0-1 ones.

*mmkp*: Multiple-choice multidimensional knapsack files in both layouts found in public sets.

- *Counted*: ``N M``, M capacities, then per class the number of its items and a row ``value w1 .. wM`` each.
- *Khan's* (PhD thesis, Victoria, 1998): ``n l m``, m capacities, then per class its index, from 1, and
  l rows.

The layout is recognised by the file's length and class indices. Exactly one item per class: classes become
required jobs class0, class1, ..., their items options item0, item1, ...; capacities are c0, c1, ...
Maximises unless told otherwise. Where a weight or a capacity has decimals, that capacity and all its weights
are multiplied by the smallest power of ten that makes them whole, exactly.

*orlib-mknap*: OR-Library's multidimensional 0-1 knapsack files (Chu and Beasley, *Journal of Heuristics* 4,
1998).

Layout: the number of problems K; per problem ``n m best`` (best known value, 0 for unknown), n profits,
m rows of n weights, m capacities. Files of one problem without the leading K, and without ``best``, are
recognised by their length. Maximises unless told otherwise.

An item becomes a job that is not required, with the one option ``take``; capacities are c0, c1, ...
The best value is not kept. Where a weight or a capacity has decimals, that capacity and all its weights are
multiplied by the smallest power of ten that makes them whole, exactly.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.readers.numbers import Numbers, select_problem, whole_uses

__all__ = [
    "read_mknap",
    "read_mmkp",
]


def read_mmkp(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MultipleChoiceKnapsackInstance:
    """Read the one problem of a file; `index` must be 0.

    Raises
    ------
    InvalidInstance
        If the file follows neither layout (what each of them expected is said), or `index` is not 0.
    """
    numbers = Numbers.parse(raw)
    try:
        sizes, capacity_at, rows_at = _counted(numbers)
    except InvalidInstance as counted:
        try:
            sizes, capacity_at, rows_at = _khan(numbers)
        except InvalidInstance as khan:
            problems = [
                Problem(problem.path, f"{problem.message} (as {layout})")
                for layout, error in (("N M with item counts", counted), ("Khan's n l m", khan))
                for problem in error.problems
            ]
            raise InvalidInstance(problems) from None
    select_problem(index, 1)
    uses, limits = whole_uses(numbers, rows_at[:, 1:], capacity_at)
    names = [f"c{k}" for k in range(capacity_at.size)]
    values = numbers.values[rows_at[:, 0]].tolist()
    menus = [{name: use for name, use in zip(names, row, strict=True) if use} for row in uses.tolist()]
    ends = np.cumsum(sizes).tolist()
    jobs = tuple(
        KnapsackJob(
            id=f"class{job}",
            options=tuple(
                KnapsackOption(id=f"item{row - end + size}", value=values[row], uses=menus[row])
                for row in range(end - size, end)
            ),
            required=True,
        )
        for job, (size, end) in enumerate(zip(sizes, ends, strict=True))
    )
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense=sense or "maximize",
        capacities=dict(zip(names, limits.tolist(), strict=True)),
        jobs=jobs,
        name=name,
    )


_Layout = tuple[list[int], NDArray[np.int64], NDArray[np.int64]]
"""Items per class, positions of the capacities, positions of the rows [items, 1 + capacities]."""


def _counted(numbers: Numbers) -> _Layout:
    classes = numbers.count(0, "the number of classes N")
    capacities = numbers.count(1, "the number of capacities M")
    width = 1 + capacities
    position = 2 + capacities
    sizes: list[int] = []
    headers: list[int] = []
    for job in range(classes):
        try:
            size = numbers.count(position, "the number of items of the class")
        except InvalidInstance as error:
            raise InvalidInstance(Problem(f"$.class[{job}]", str(error))) from None
        left = len(numbers) - position - 1
        if left < size * width:
            message = (
                f"{size} items of 1 + {capacities} numbers need {size * width}; the file has {left} left"
            )
            raise InvalidInstance(Problem(f"$.class[{job}]", message))
        sizes.append(size)
        headers.append(position)
        position += 1 + size * width
    return sizes, _span(2, capacities), _rows(numbers, headers, position, width)


def _khan(numbers: Numbers) -> _Layout:
    classes = numbers.count(0, "the number of classes n")
    size = numbers.count(1, "the number of items per class l")
    capacities = numbers.count(2, "the number of capacities m")
    width = 1 + capacities
    block = 1 + size * width
    position = 3 + capacities + classes * block
    if position > len(numbers):
        message = (
            f"{classes} classes of {size} items of 1 + {capacities} numbers need {position} numbers in all"
        )
        raise InvalidInstance(Problem("end of file", f"{message}; the file has {len(numbers)}"))
    headers = [3 + capacities + job * block for job in range(classes)]
    for job, header in enumerate(headers):
        if numbers.values[header] != job + 1:
            found = numbers.tokens[header].decode()
            raise InvalidInstance(
                Problem(
                    f"$.class[{job}]",
                    f"{numbers.place(header)}: expected class index {job + 1}, found {found}",
                )
            )
    return [size] * classes, _span(3, capacities), _rows(numbers, headers, position, width)


def _span(start: int, length: int) -> NDArray[np.int64]:
    return np.arange(start, start + length, dtype=np.int64)


def _rows(numbers: Numbers, headers: list[int], end: int, width: int) -> NDArray[np.int64]:
    """Return the positions of all rows: everything from the first header to `end` but the headers."""
    if end != len(numbers):
        more = len(numbers) - end
        message = f"expected the end of the file after {len(headers)} classes, found {more} more numbers"
        raise InvalidInstance(Problem(numbers.place(end), message))
    inside = np.ones(end - headers[0], dtype=np.bool_)
    inside[np.array(headers, dtype=np.int64) - headers[0]] = False
    positions: NDArray[np.int64] = np.flatnonzero(inside).reshape(-1, width) + headers[0]
    return positions


def read_mknap(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MultipleChoiceKnapsackInstance:
    """Read problem `index` of a file.

    Raises
    ------
    InvalidInstance
        If the file is malformed or truncated, or has no such problem.
    """
    numbers = Numbers.parse(raw)
    headers = _headers(numbers)
    select_problem(index, len(headers))
    start, items, capacities = headers[index]
    profits = numbers.values[start : start + items]
    weights_at = np.arange(start + items, start + items + capacities * items).reshape(capacities, items)
    capacity_at = np.arange(capacities) + start + items + capacities * items
    uses, limits = whole_uses(numbers, weights_at.T, capacity_at)
    names = [f"c{k}" for k in range(capacities)]
    jobs = tuple(
        KnapsackJob(
            id=f"item{item}",
            options=(
                KnapsackOption(
                    id="take",
                    value=value,
                    uses={name: use for name, use in zip(names, row, strict=True) if use},
                ),
            ),
            required=False,
        )
        for item, (value, row) in enumerate(zip(profits.tolist(), uses.tolist(), strict=True))
    )
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense=sense or "maximize",
        capacities=dict(zip(names, limits.tolist(), strict=True)),
        jobs=jobs,
        name=f"{name}[{index}]" if name and len(headers) > 1 else name,
    )


def _headers(numbers: Numbers) -> list[tuple[int, int, int]]:
    """Return (position of the first profit, items, capacities) of every problem."""
    try:
        return _several(numbers)
    except InvalidInstance:
        single = _single(numbers)
        if single is None:
            raise
        return [single]


def _several(numbers: Numbers) -> list[tuple[int, int, int]]:
    headers = []
    position = 1
    for problem in range(numbers.count(0, "the number of problems", low=0)):
        try:
            items = numbers.count(position, "the number of items n")
            capacities = numbers.count(position + 1, "the number of capacities m")
        except InvalidInstance as error:
            raise InvalidInstance(Problem(f"$.problem[{problem}]", str(error))) from None
        needed = 3 + items + capacities * items + capacities
        left = len(numbers) - position
        if left < needed:
            message = (
                f"n = {items} and m = {capacities} need {needed} numbers "
                f"(n m best, n profits, m x n weights, m capacities); the file has {left} left"
            )
            raise InvalidInstance(Problem(f"$.problem[{problem}]", message))
        headers.append((position + 3, items, capacities))
        position += needed
    if position != len(numbers):
        more = len(numbers) - position
        message = f"expected the end of the file after {len(headers)} problems, found {more} more numbers"
        raise InvalidInstance(Problem(numbers.place(position), message))
    return headers


def _single(numbers: Numbers) -> tuple[int, int, int] | None:
    """Return the one problem of a file that starts with ``n m [best]``, if its length says so."""
    try:
        items, capacities = numbers.count(0, "n"), numbers.count(1, "m")
    except InvalidInstance:
        return None
    header = len(numbers) - (items + capacities * items + capacities)
    return (header, items, capacities) if header in (2, 3) else None
