"""Menus that are asked beside menus that are listed, dense and sparse, and the enumeration of all choices.

    python -m tests.hunt.implicit_menus --count 20000 --seed 1

Drawn are jobs that run in spans of periods, and jobs with options of any uses; in a part of the rounds so few
options may be listed that most are proved otherwise or not at all. The best choice must be found wherever
that is not so, no bound may cut it off, and where nothing fits it must be said. The exit code is 1 where one
differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from random import Random
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

import apportion
from apportion.models.implicit_menus import Menu, MenuOption, Span, SpanMenu
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving import implicit_menus as module
from tests.hunt.hunting import compared
from tests.oracles import enumerate_knapsack

__all__ = ["Options", "Round", "drawn", "wrong"]


@dataclass(frozen=True)
class Options(Menu):
    """A menu that is a list."""

    options: tuple[MenuOption, ...]

    def all_keys(self) -> Iterator[int]:
        return iter(range(len(self.options)))

    def option(self, key: Hashable) -> MenuOption:
        assert isinstance(key, int)
        return self.options[key]


@dataclass(frozen=True)
class Round:
    """Menus under capacities."""

    menus: list[Menu]
    rooms: list[int]
    required: list[bool]

    def knapsack(self, sparse: bool) -> MultipleChoiceKnapsack:
        """Return the same menus as a list."""
        options = [[menu.option(key) for key in menu.all_keys()] for menu in self.menus]
        uses = np.zeros((sum(map(len, options)), len(self.rooms)), dtype=np.int64)
        for row, option in enumerate(option for menu in options for option in menu):
            for capacity, use in option.uses.items():
                uses[row, capacity] = use
        return MultipleChoiceKnapsack.from_arrays(
            [option.value for menu in options for option in menu],
            csr_array(uses) if sparse else uses,
            np.cumsum([0, *map(len, options)]),
            self.rooms,
            required=self.required,
        )


def drawn(rng: Random) -> Round:
    """Draw up to six jobs whose options a person could write down."""
    rooms = [rng.randint(0, 8) for _ in range(rng.randint(1, 6))]
    whole = rng.random() < 0.5

    def worth() -> float:
        return float(rng.randint(-2, 9)) if whole else rng.uniform(-1.0, 9.0)

    menus = list[Menu]()
    for _ in range(rng.randint(1, 6)):
        if rng.random() < 0.6:
            spans = [
                Span(
                    rng.randint(0, 5),
                    rng.randint(1, len(rooms) + 1),
                    [rng.choice((-np.inf, worth(), worth())) for _ in range(rng.randint(0, len(rooms)))],
                )
                for _ in range(rng.randint(0, 2))
            ]
            menus.append(SpanMenu(spans, rooms))
            continue
        options = [
            MenuOption(
                worth(),
                {k: rng.randint(0, min(room, 4)) for k, room in enumerate(rooms) if rng.random() < 0.5},
            )
            for _ in range(rng.randint(0, 4))
        ]
        menus.append(Options(tuple(options)))
    return Round(menus, rooms, [rng.random() < 0.2 for _ in menus])


def wrong(asked: Round, rng: Random) -> Iterator[str]:
    """Yield what differs."""
    truth = enumerate_knapsack(asked.knapsack(sparse=False))
    least = -np.inf if truth is None else truth[0] - 1e-9 * max(1.0, abs(truth[0]))
    for sparse in (False, True):
        answer = apportion.solve(asked.knapsack(sparse))
        if (answer.plan is None) is not (truth is None):
            yield f"listed, sparse {sparse}: {answer.termination}"
        elif answer.objective is not None and answer.objective < least:
            yield f"listed, sparse {sparse}: {answer.objective} of {least}"
    few = rng.random() < 0.3
    with mock.patch.object(module, "_MOST_LISTED", rng.randint(0, 4) if few else 1_000):
        found = apportion.solve_menus(asked.menus, asked.rooms, required=asked.required)
    if found.bound is not None and found.bound < least:
        yield f"asked: no more than {found.bound} where {least} can be had"
    if truth is None:
        if found.keys is not None or not (few or found.termination.value == "infeasible"):
            yield f"asked: {found} where nothing fits"
    elif found.termination.value == "infeasible":
        yield "asked: infeasible, which it is not"
    elif not few and (found.objective is None or found.objective < least):
        yield f"asked: {found} where {least} can be had"
    elif found.termination.value == "optimal" and (found.objective is None or found.objective < least):
        yield f"asked: {found} is no optimum, {least} can be had"
    elif not few and found.termination.value != "optimal":
        yield f"asked: {found} is not proved"


def main() -> int:
    """Draw, compare, print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()

    def round_of(number: int) -> Iterator[str]:
        rng = Random(f"implicit menus {asked.seed} {number}")
        return wrong(drawn(rng), rng)

    return compared(asked.count, round_of)


if __name__ == "__main__":
    sys.exit(main())
