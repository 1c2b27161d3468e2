"""Small menus and schedules in Python's integers: the last word where doubles or 64 bits leave a claim open.

Values are wholes over a common denominator, so sums, comparisons and capacities are exact whatever their
sizes. Job after job, states that leave the same are merged, and those that cannot beat the incumbent even
with the best of every job to come are dropped. It is meant for what is small and hostile (1e16 beside 0.4,
uses of 60 bits); anything larger runs into the limit, and nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

__all__ = ["STEPS", "ExactOptimum", "Option", "best_choice", "least_makespan"]

STEPS = 200_000
"""States times options that are looked at before the search gives up: some tenths of a second."""


class Option(NamedTuple):
    """One option of a job.

    Attributes
    ----------
    value
        What it is worth, what it costs, or how long it takes.
    uses
        What it takes of every capacity.
    """

    value: Fraction
    uses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExactOptimum:
    """The optimum of small menus, in Python's integers.

    Attributes
    ----------
    choice
        The position of each job's option in its menu, ``None`` for none; absent where no choice is feasible.
    value
        Its exact value; 0 without one.
    order
        The jobs in the order in which they were decided.
    """

    choice: tuple[int | None, ...] | None
    value: Fraction
    order: tuple[int, ...] = ()


class _Node(NamedTuple):
    """A state: its worth so far, the job decided last and its option, and the state before."""

    worth: int
    step: tuple[int, int | None] | None
    before: _Node | None


def best_choice(
    menus: Sequence[Sequence[Option]],
    capacities: Sequence[int],
    required: Sequence[bool],
    *,
    maximize: bool,
    steps: int = STEPS,
) -> ExactOptimum | None:
    """Return the exact optimum of a sum under capacities, ``None`` where the steps end before.

    Parameters
    ----------
    menus
        The options of every job.
    capacities
        int [capacities].
    required
        bool [jobs]; a job that is not may be left out, worth 0.
    maximize
        Whether more is better.
    steps
        States times options at most.
    """
    unit = _unit(menus)
    kept = _deciding(menus, capacities)
    lines: list[list[tuple[int | None, int, tuple[int, ...]]]] = []
    for menu, must in zip(menus, required, strict=True):
        line: list[tuple[int | None, int, tuple[int, ...]]] = [
            (at, _in(option.value, unit) * (1 if maximize else -1), tuple(option.uses[k] for k in kept))
            for at, option in enumerate(menu)
        ]
        lines.append(line if must else [*line, (None, 0, (0,) * len(kept))])
    if not all(lines):
        return ExactOptimum(None, Fraction(0))
    need = _needed(lines, len(kept))
    states = {tuple(capacities[k] for k in kept): _Node(0, None, None)}
    for job, line in enumerate(lines):
        steps -= len(states) * len(line)
        if steps < 0:
            return None
        after: dict[tuple[int, ...], _Node] = {}
        for left, node in states.items():
            for at, worth, use in line:
                rest = tuple(map(int.__sub__, left, use))
                if any(map(int.__lt__, rest, need[job + 1])):
                    continue
                known, total = after.get(rest), node.worth + worth
                if known is None or known.worth < total:
                    after[rest] = _Node(total, (job, at), node)
        states = after
    if not states:
        return ExactOptimum(None, Fraction(0))
    best = max(states.values(), key=lambda node: node.worth)
    return _best_of(best, Fraction(best.worth if maximize else -best.worth, unit))


def least_makespan(
    menus: Sequence[Sequence[Option]],
    held: Sequence[Sequence[tuple[int, ...]]],
    capacities: Sequence[int],
    required: Sequence[bool],
    steps: int = STEPS,
) -> ExactOptimum | None:
    """Return the least makespan, ``None`` where the steps end before.

    Every schedule can be pushed to the left without ending later, and is then what this builds in the order
    of its starts. Without gangs the order decides nothing, and the jobs are taken as they are listed.

    Parameters
    ----------
    menus
        The options of every job: how long it takes and what it uses.
    held
        The machines of every option, counted from 0.
    capacities, required, steps
        As for `best_choice`.
    """
    unit = _unit(menus)
    count = 1 + max((k for job in held for on in job for k in on), default=-1)
    gangs = any(len(on) > 1 for job in held for on in job)
    kept = _deciding(menus, capacities)
    start = (frozenset(range(len(menus))), (0,) * count, tuple(capacities[k] for k in kept))
    states = {start: _Node(0, None, None)}
    for depth in range(len(menus)):
        after: dict[tuple[frozenset[int], tuple[int, ...], tuple[int, ...]], _Node] = {}
        for (jobs, loads, left), node in states.items():
            for job in jobs if gangs else (depth,):
                steps -= len(menus[job]) + 1
                if steps < 0:
                    return None
                if not required[job]:
                    _keep(after, (jobs - {job}, loads, left), _Node(node.worth, (job, None), node))
                for at, (option, on) in enumerate(zip(menus[job], held[job], strict=True)):
                    rest = tuple(a - option.uses[k] for a, k in zip(left, kept, strict=True))
                    if rest and min(rest) < 0:
                        continue
                    end = max(loads[k] for k in on) + _in(option.value, unit)
                    ends = tuple(end if k in on else load for k, load in enumerate(loads))
                    _keep(after, (jobs - {job}, ends, rest), _Node(max(node.worth, end), (job, at), node))
        states = after
    if not states:
        return ExactOptimum(None, Fraction(0))
    best = min(states.values(), key=lambda node: node.worth)
    return _best_of(best, Fraction(best.worth, unit))


def _keep(
    states: dict[tuple[frozenset[int], tuple[int, ...], tuple[int, ...]], _Node],
    state: tuple[frozenset[int], tuple[int, ...], tuple[int, ...]],
    node: _Node,
) -> None:
    """Keep a state, the one that ends first of equal ones."""
    if state not in states or states[state].worth > node.worth:
        states[state] = node


def _unit(menus: Sequence[Sequence[Option]]) -> int:
    """Return a common denominator of all values."""
    return math.lcm(*(option.value.denominator for menu in menus for option in menu), 1)


def _in(value: Fraction, unit: int) -> int:
    return value.numerator * (unit // value.denominator)


def _deciding(menus: Sequence[Sequence[Option]], capacities: Sequence[int]) -> list[int]:
    """Return the capacities that some choice exceeds; of the others what is left decides nothing."""
    return [
        k
        for k, capacity in enumerate(capacities)
        if sum(max((option.uses[k] for option in menu), default=0) for menu in menus) > capacity
    ]


def _needed(
    lines: Sequence[Sequence[tuple[int | None, int, tuple[int, ...]]]], count: int
) -> list[tuple[int, ...]]:
    """Return what the jobs from each on use at least."""
    need = [(0,) * count]
    for line in reversed(lines):
        least = (min(use[k] for _, _, use in line) for k in range(count))
        need.append(tuple(map(int.__add__, need[-1], least)))
    return need[::-1]


def _best_of(node: _Node, value: Fraction) -> ExactOptimum:
    steps = []
    while node.before is not None and node.step is not None:
        steps.append(node.step)
        node = node.before
    order = tuple(job for job, _ in reversed(steps))
    return ExactOptimum(tuple(at for _, at in sorted(steps, key=lambda step: step[0])), value, order)
