"""The search in whole numbers, against trying everything in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction
from random import Random

import pytest

from apportion.solvers.search.in_integers import Option, best_choice, least_makespan

VALUES = (1e16, -1e16, 0.4, 0.1, 1.0, -0.7, 1e-30, 0.0, 2.0**53 + 2)


def drawn(rng: Random, count: int) -> tuple[list[list[Option]], list[int], list[bool]]:
    menus = [
        [
            Option(Fraction(rng.choice(VALUES)), tuple(rng.choice((0, 1, 2, 2**60)) for _ in range(count)))
            for _ in range(rng.randint(0, 3))
        ]
        for _ in range(rng.randint(0, 4))
    ]
    return (
        menus,
        [rng.choice((0, 2, 3, 2**60 + 1)) for _ in range(count)],
        [rng.random() < 0.5 for _ in menus],
    )


def choices(menus: list[list[Option]], required: list[bool]) -> itertools.product[tuple[int | None, ...]]:
    return itertools.product(
        *([*range(len(menu)), *([] if must else [None])] for menu, must in zip(menus, required, strict=True))
    )


def chosen(menus: list[list[Option]], choice: tuple[int | None, ...]) -> list[Option]:
    return [menu[at] for menu, at in zip(menus, choice, strict=True) if at is not None]


def keeps(options: list[Option], capacities: list[int]) -> bool:
    return all(sum(option.uses[k] for option in options) <= most for k, most in enumerate(capacities))


@pytest.mark.parametrize("seed", range(150))
def test_sums_that_cancel_are_decided_exactly(seed: int) -> None:
    rng = Random(seed)
    menus, capacities, required = drawn(rng, rng.randint(0, 3))
    maximize = rng.random() < 0.5
    worths = [
        sum((option.value for option in options), Fraction(0))
        for options in (chosen(menus, choice) for choice in choices(menus, required))
        if keeps(options, capacities)
    ]
    best = best_choice(menus, capacities, required, maximize=maximize)
    assert best is not None
    if not worths:
        assert best.choice is None
        return
    assert best.value == (max(worths) if maximize else min(worths))
    assert best.choice is not None and keeps(chosen(menus, best.choice), capacities)
    assert sum((option.value for option in chosen(menus, best.choice)), Fraction(0)) == best.value


@pytest.mark.parametrize("seed", range(150))
def test_the_least_makespan_on_single_machines(seed: int) -> None:
    rng = Random(seed)
    menus, capacities, required = drawn(rng, rng.randint(0, 2))
    menus = [[Option(abs(option.value), option.uses) for option in menu] for menu in menus]
    held = [[(rng.randrange(3),) for _ in menu] for menu in menus]
    ends = []
    for choice in choices(menus, required):
        if keeps(chosen(menus, choice), capacities):
            loads = [Fraction(0)] * 3
            for job, at in enumerate(choice):
                if at is not None:
                    loads[held[job][at][0]] += menus[job][at].value
            ends.append(max(loads))
    best = least_makespan(menus, held, capacities, required)
    assert best is not None
    assert (best.choice is None) is not bool(ends)
    if ends:
        assert best.value == min(ends)


def test_gangs_wait_for_all_their_machines() -> None:
    """Two jobs of one machine each beside a gang of both: the order decides."""
    second, third = Option(Fraction(2), ()), Option(Fraction(3), ())
    best = least_makespan(
        [[third], [second], [second, second]], [[(0, 1)], [(0,)], [(0,), (1,)]], [], [True] * 3
    )
    assert best is not None and best.value == 5 and best.choice == (0, 0, 1)
    assert sorted(best.order) == [0, 1, 2]


def test_what_is_too_large_is_left_alone() -> None:
    menus = [[Option(Fraction(3**j * k), (2**j * k,)) for k in range(8)] for j in range(12)]
    assert best_choice(menus, [10_000], [True] * 12, maximize=True, steps=1_000) is None
    assert (
        least_makespan(menus, [[(k % 2,) for k in range(8)]] * 12, [10_000], [True] * 12, steps=1_000) is None
    )


def test_a_required_job_without_options_leaves_nothing() -> None:
    best = best_choice([[], []], [1], [False, True], maximize=True)
    assert best is not None and best.choice is None
