"""Menus that are asked: their answers, what is made of them, and menus that answer wrongly."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import apportion
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.core.outcome import Termination
from apportion.models.implicit_menus import Menu, MenuOption, Span, SpanMenu
from apportion.solving import implicit_menus as module
from tests.hunt.implicit_menus import Options, Round, drawn, wrong

GPUS = 64


def week(jobs: int, periods: int, seed: int) -> Round:
    """Make jobs with a choice of width and start, half of the GPUs away for a while."""
    rng, rooms = np.random.default_rng(seed), np.full(periods, GPUS)
    rooms[periods // 2 : periods // 2 + periods // 8] = GPUS // 2
    menus = list[Menu]()
    for _ in range(jobs):
        work, weight, release = rng.integers(8, 120), rng.uniform(0.5, 2.5), rng.integers(0, periods // 2)
        due, spans = release + rng.integers(periods // 6, periods // 2), list[Span]()
        for gpus in (1, 2, 4, 8, 16):
            length = int(np.ceil(work / gpus**0.9))
            start = np.arange(periods)
            worth = weight * work * (1.0 - 2.0 * np.maximum(0, start + length - due) / periods)
            spans.append(Span(gpus, length, np.where((start >= release) & (worth > 0.0), worth, -np.inf)))
        menus.append(SpanMenu(spans, rooms))
    return Round(menus, rooms.tolist(), [False] * jobs)


@given(st.integers(0, 2**32))
def test_answers_are_those_of_going_through_all_options(seed: int) -> None:
    rng = Random(seed)
    for menu in drawn(rng).menus:
        rooms = menu.rooms if isinstance(menu, SpanMenu) else [0] * 6
        prices = np.array([rng.randint(0, 20) / 8.0 for _ in rooms])
        best, slow = menu.best(prices), Menu.best(menu, prices)
        assert (best is None) is (slow is None)
        if best is not None and slow is not None:
            assert menu.option(best).at(prices) == menu.option(slow).at(prices)
        least = rng.randint(-4, 8) + 0.25
        assert {*menu.within(prices, least)} == {*Menu.within(menu, prices, least)}


@pytest.mark.parametrize("key", [(0, 3), (1, 0), (0, -1), (-1, 0), "a", (0,)])
def test_a_span_has_no_other_options(key: Hashable) -> None:
    menu = SpanMenu([Span(2, 2, [1.0, 1.0, -np.inf, 1.0])], [2, 2, 2, 1], first=3)
    assert [*menu.all_keys()] == [(0, 0), (0, 1)]
    assert menu.option((0, 1)) == MenuOption(1.0, {4: 2, 5: 2})
    with pytest.raises(KeyError):
        menu.option(key)


@pytest.mark.parametrize("seed", range(40))
def test_choices_are_those_of_enumeration(seed: int) -> None:
    """20,000 of them: `python -m tests.hunt.implicit_menus`."""
    rng = Random(seed)
    assert not [*wrong(drawn(rng), rng)]


def test_the_optimum_of_a_day_is_that_of_the_same_knapsack() -> None:
    for seed in (1, 2):
        asked = week(40, 24, seed)
        found = apportion.solve_menus(asked.menus, asked.rooms)
        knapsack = apportion.solve(asked.knapsack(sparse=True))
        assert found.termination is Termination.OPTIMAL
        assert found.objective == pytest.approx(knapsack.objective, rel=1e-9)


@pytest.mark.slow
def test_a_week_is_planned_near_its_bound_although_nobody_could_list_it() -> None:
    asked = week(200, 336, 3)
    options = sum(sum(1 for _ in menu.all_keys()) for menu in asked.menus)
    found = apportion.solve_menus(asked.menus, asked.rooms, time_limit=30.0)
    assert found.objective is not None and found.bound is not None
    assert found.bound - found.objective <= 0.02 * found.objective
    assert found.generated < options / 3


class Lying(Menu):
    """A menu that answers from another one, but for one thing."""

    def __init__(self, menu: Menu, **answers: Callable[..., Any]) -> None:
        self._menu, self._answers = menu, answers

    def _answer(self, name: str, *given: Any) -> Any:
        return self._answers.get(name, getattr(self._menu, name))(*given)

    def all_keys(self) -> Iterator[Hashable]:
        return iter(self._answer("all_keys"))

    def option(self, key: Hashable) -> MenuOption:
        found = self._answer("option", key)
        assert isinstance(found, MenuOption)
        return found

    def best(self, prices: NDArray[np.float64]) -> Hashable | None:
        found: Hashable | None = self._answer("best", prices)
        return found

    def within(self, prices: NDArray[np.float64], least: float) -> Iterable[Hashable]:
        return iter(self._answer("within", prices, least))


def tight() -> list[Menu]:
    """Return jobs of which the relaxation splits one: the options within reach are asked for."""
    options = [MenuOption(5.0, {0: 3}), MenuOption(4.0, {0: 2}), MenuOption(0.5, {1: 1})]
    return [Options(tuple(options)) for _ in range(3)]


def said(*menus: Menu, **options: Any) -> str:
    with pytest.raises(InvalidInstance) as caught:
        apportion.solve_menus(menus, [5, 1], **options)
    return str(caught.value)


def test_a_best_option_that_is_not_is_found_out() -> None:
    first, *others = tight()
    worse = Lying(first, best=lambda prices: 2)
    assert "$.menus[0].option(" in said(worse, *others) and "is said to be the best" in said(worse, *others)
    assert "is said to be the best" in said(Lying(first, best=lambda prices: None), *others)
    believed = apportion.solve_menus([worse, *others], [5, 1], recheck=False)
    assert believed.objective is not None


def test_an_option_within_reach_that_is_not_named_is_found_out() -> None:
    first, *others = tight()
    assert "is not named among all" in said(Lying(first, within=lambda prices, least: []), *others)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (MenuOption(np.nan, {}), "give a finite number"),
        (MenuOption(1.0, {-1: 1}), "uses capacity -1: there are 2"),
        (MenuOption(1.0, {2: 1}), "gives no answer: index 2 is out of bounds"),
        (MenuOption(1.0, {0: -1}), "from 0 to the 5"),
        (MenuOption(1.0, {0: 6}), "from 0 to the 5"),
        (MenuOption(1.0, {0: 1.5}), "give whole numbers"),  # type: ignore[dict-item]
    ],
)
def test_an_option_that_is_none_is_one_clear_error(option: MenuOption, words: str) -> None:
    assert words in said(Options((option,)))


def test_an_answer_that_is_no_key_is_a_clear_error() -> None:
    spans = SpanMenu([Span(1, 1, [1.0])], [5])
    assert "which it has no option of" in said(Lying(spans, best=lambda prices: "x"))


def test_an_option_that_changes_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    changed, solve = False, module.solve

    def solved(*given: Any, **options: Any) -> Any:
        nonlocal changed
        changed = True
        return solve(*given, **options)

    def option(key: int) -> MenuOption:
        return MenuOption(9.0, {0: 5 if changed else 1})

    monkeypatch.setattr(module, "solve", solved)
    one = Options((MenuOption(9.0, {0: 1}),))
    assert "is not what it was" in said(Lying(one, option=option), *tight())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"time_limit": -1.0}, InvalidOption),
        ({"gap": -1.0}, InvalidOption),
        ({"required": [1, 2]}, InvalidInstance),
    ],
)
def test_what_is_asked_wrongly_is_a_clear_error(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        apportion.solve_menus(tight(), [5, 1], **options)
    with pytest.raises(InvalidInstance, match=r"\$\.capacities"):
        apportion.solve_menus(tight(), [5.5, 1])


def test_required_jobs_are_served_whatever_it_costs_or_it_is_said_that_none_can() -> None:
    dear = Options((MenuOption(-1e6, {0: 5}), MenuOption(-1.0, {1: 1})))
    found = apportion.solve_menus([dear, dear], [5, 1], required=True)
    assert found.objective == -1e6 - 1.0 and found.termination is Termination.OPTIMAL
    found = apportion.solve_menus([dear, dear, dear], [5, 1], required=True)
    assert found.keys is None and found.termination is Termination.INFEASIBLE and found.bound is None
    nothing = apportion.solve_menus([Options(())], [5, 1], required=True)
    assert nothing.termination is Termination.INFEASIBLE
    assert apportion.solve_menus([Options(())], [5, 1]).objective == 0.0
    assert apportion.solve_menus([], [5, 1]).keys == ()


def test_a_limit_and_an_interruption_leave_the_incumbent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = week(60, 48, 5)
    found = apportion.solve_menus(asked.menus, asked.rooms, time_limit=0.01, recheck=False)
    assert found.keys is not None and found.bound is not None and found.objective is not None
    assert found.bound >= found.objective > 0.0

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(module._Search, "_list_within", interrupted)
    found = apportion.solve_menus(asked.menus, asked.rooms, time_limit=5.0, recheck=False)
    assert found.termination is Termination.INTERRUPTED and found.keys is not None


def test_a_gap_ends_the_search() -> None:
    asked = week(60, 48, 5)
    found = apportion.solve_menus(asked.menus, asked.rooms, gap=0.2, recheck=False)
    assert found.termination in (Termination.GAP_REACHED, Termination.OPTIMAL)
    assert found.objective is not None and found.bound is not None
    assert found.bound - found.objective <= 0.2 * found.objective


def test_menus_under_other_numbers_of_capacities_stand_side_by_side() -> None:
    """The periods of two kinds of GPUs behind one another: the second menu is of the second kind."""
    first = SpanMenu([Span(2, 2, [5.0, 4.0])], [2, 2, 2])
    second = replace(first, first=3)
    found = apportion.solve_menus([first, second, second], [2, 2, 2, 2, 2, 2])
    assert found.objective == 10.0
