"""OR-Library's multidimensional 0-1 knapsack files (Chu and Beasley, *Journal of Heuristics* 4, 1998).

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

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.readers.numbers import Numbers, select_problem, whole_uses

__all__ = ["read"]


def read(
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
