"""Statements and proofs written by hand: the reference says true exactly where enumeration does."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pytest

from apportion.proofs import reference
from tests.proofs.by_hand import Statement, best_of, on, option, pool, said, stated, width_of


def _drawn(rng: Random, goal: str) -> tuple[Statement, int, list[int]]:
    """Return a statement of few jobs, a shift in which all its numbers are whole, and pools to take apart."""
    shift = rng.choice((0, 0, 1, 2, -1))
    unit = Fraction(1, 1 << shift) if shift >= 0 else Fraction(2)
    names = [f"c{k}" for k in range(rng.randint(0, 2))]
    pools = [pool(rng.randint(1, 3), rng.choice((None, 2, 4))) for _ in range(rng.randint(0, 2))]
    if goal == "makespan" and not pools:
        pools = [pool(rng.randint(1, 2))]
    menus = []
    for _ in range(rng.randint(1, 4)):
        menu = []
        for _ in range(rng.randint(1, 3)):
            uses = {name: rng.randint(0, 4) for name in names if rng.random() < 0.7}
            own = option(str(unit * rng.randint(-3, 9)), uses)
            if pools and (goal == "makespan" or rng.random() < 0.6):
                number = rng.randrange(len(pools))
                time = str(unit * rng.randint(0, 9))
                gang = rng.randint(1, pools[number]["count"])
                own |= {"pool": number, "time": time, "gang": gang, "use": rng.randint(0, 3)}
            menu.append(own)
        menus.append(menu)
    capacities = {name: rng.randint(0, 8) for name in names}
    sections = ["capacities", "pools", "cuts"]
    rng.shuffle(sections)
    apart = [k for k in range(len(pools)) if rng.random() < 0.5]
    return stated(goal, *menus, capacities=capacities, pools=pools, prices=sections), shift, apart


@pytest.mark.parametrize("goal", ["maximize", "minimize", "makespan"])
@pytest.mark.parametrize("seed", range(60))
def test_a_claim_is_true_exactly_where_no_choice_is_better(goal: str, seed: int) -> None:
    """Whatever prices, orders and rows a proof has: those make a walk shorter, never a claim true."""
    rng = Random(f"{goal} {seed}")
    statement, shift, apart = _drawn(rng, goal)
    best = best_of(statement, apart)
    jobs = len(statement["jobs"])
    order = rng.sample(range(jobs), rng.randint(0, jobs))

    def answer(bound: Any) -> bool | None:
        ends = goal == "makespan" and bound is not None
        width = width_of(statement, apart, ends)
        prices = [[rng.randint(0, 3) for _ in range(width)] for _ in range(rng.randint(0, 2))]
        rows = {
            "version": 2,
            "rows": [[rng.randint(-5, 9) for _ in range(jobs)] for _ in range(rng.randint(1, 2))],
        }
        more = rows if rng.random() < 0.5 else {}
        given = None if bound is None else float(bound)
        return said(statement, given, shift=shift, order=order, apart=apart, prices=prices, **more)[0]

    assert answer(None) is (best is None)
    unit = Fraction(1, 1 << shift) if shift >= 0 else Fraction(2)
    around = [Fraction(0), 5 * unit] if best is None else [best + k * unit for k in (-2, -1, 0, 1, 2)]
    for bound in around:
        holds = best is None or (bound >= best if goal == "maximize" else bound <= best)
        assert answer(bound) is holds, (statement, bound, best)


def test_a_machine_alone_must_have_room() -> None:
    """Two machines of 2 have room for 4 together, and none for one job that uses 3."""
    for count, use, holds in ((2, 3, True), (2, 2, False), (2, 1, False)):
        statement = stated("maximize", [on(0, 1, use=use)], pools=[pool(count, 2)])
        assert said(statement, None)[0] is holds
    without_time = stated("maximize", [option(5, pool=0, gang=1, use=1)], pools=[pool()])
    assert said(without_time, 5)[0] is True and said(without_time, None)[0] is False


def test_prices_alone_show_that_there_is_no_plan() -> None:
    """Three jobs of 2 in one of two capacities, 5 in all: a bound of prices by one unit."""
    menu = [option(1, {"a": 2}), option(1, {"b": 2})]
    for room, words in (
        ({"a": 2, "b": 3}, "a bound of prices"),
        ({"a": 2, "b": 4}, "a choice exceeds the threshold"),
    ):
        statement = stated("maximize", menu, menu, menu, capacities=room)
        assert said(statement, None, prices=[[1, 1]])[1].removeprefix("no plan: ") == words


def test_prices_of_machines_and_jobs_show_a_time() -> None:
    """Three jobs of 6 s on a pool of two, and of 12 on one: 7.2 s by prices 4 and 1 of the pools."""
    shares = stated("shares", *[[on(0, 6), on(1, 12)]] * 3, pools=[pool(2), pool()])
    for bound, vectors, holds in (
        (7.2, [[4, 1, 0, 0, 0]], False),  # 36 / 5 is a little less than the double 7.2
        (7.199999999999999, [[4, 1, 0, 0, 0]], True),
        (7.199999999999999, [], False),
        (7.199999999999999, [[0] * 5, [1] * 5, [4, 1, 0, 0, 0]], True),
        (7.199999999999999, [[8, 2, 0, 0, 0]], True),
        (7.199999999999999, [[2, 2, 0, 0, 0]], False),
        (7.199999999999999, [[4, 1, 1, 0, 0]], False),
        (6, [], True),
        (6.000000000000001, [], False),
        (6, [[0] * 5], True),
        (None, [[4, 1, 0, 0, 0]], False),
        (0, [[4, 1, 0, 0]], False),
        (0, [[4, 1, 0, 0, 0, 0]], False),
    ):
        assert said(shares, bound, prices=vectors)[0] is holds, (bound, vectors)
    assert said(shares, 6)[1] == "no plan is better than 6: prices of machines and jobs"
    gang = stated("shares", [on(0, 6, 2)], [on(0, 3, 1)], pools=[pool(2)])
    for bound, vector, holds in ((7.5, [1, 0, 0], True), (7.6, [1, 0, 0], False), (7, [2, 1, 0], True)):
        assert said(gang, bound, prices=[vector])[0] is holds
    assert said(gang, 6, prices=[[0, 1, 0]])[0] is True and said(gang, 6.1, prices=[[0, 1, 0]])[0] is False
    assert said(gang, 7, prices=[[3, 1, 0]])[0] is True  # (3 x 7.5 + 6) / 4 = 7.125
    assert said(gang, 7.125, prices=[[3, 1, 0]])[0] is True
    assert said(gang, 7.126, prices=[[3, 1, 0]])[0] is False
    assert said(stated("shares", [], pools=[pool()]), None)[0] is True
    assert said(stated("shares", pools=[pool()]), 0)[0] is True
    assert said(stated("shares", pools=[pool()]), 1)[0] is False
    assert said(stated("shares", pools=[pool()]), 1, prices=[[0]]) == (False, "no prices show it")
    assert said(shares, None) == (False, "no prices show it")
    assert said(shares, 0, prices=[[4, 1, 0, 0]]) == (False, "a price vector of another length")
    for changes in (
        {"order": [0]},
        {"apart": [0]},
        {"cuts": [{}]},
        {"shift": 1},
        {"version": 2, "rows": [[0]]},
    ):
        assert said(shares, 6, **changes) == (False, "prices alone prove shares")


def _menus(*menus: Sequence[tuple[int, tuple[int, ...]]]) -> reference.Menus:
    return [list(menu) for menu in menus]


def _walked(menus: reference.Menus, rooms: list[int], threshold: int, **proof: Any) -> str:
    given = {"prices": [], "order": [], "rows": [], **proof}
    try:
        return reference.closed([list(menu) for menu in menus], list(rooms), threshold, given)
    except ValueError as wrong:
        return str(wrong)


FIVE = _menus(*([(worth, (gpus,)), (0, (0,))] for gpus, worth in ((7, 9), (3, 7), (6, 7), (7, 10), (2, 6))))
"""The five jobs by hand of ``docs/certificate.md``."""


def test_the_walk_by_hand_of_the_page_ends_as_it_says() -> None:
    assert (
        _walked(FIVE, [13], 23, prices=[[1]]) == "6 states closed"
    )  # four, and two of a job that is decided before
    assert _walked(FIVE, [13], 22, prices=[[1]]) == "a choice exceeds the threshold"
    assert _walked(FIVE, [13], 27, prices=[[1]]) == "a bound of prices"


def test_every_means_makes_the_walk_as_short_as_it_can() -> None:
    pair = [(3, (0,)), (0, (0,))]
    for threshold, words in ((6, "a bound of prices"), (5, "a choice exceeds the threshold")):
        assert _walked(_menus(pair, pair), [0], threshold) == words
    # losses of 3 add up to multiples of 3: a slack of 2 is none
    assert _walked(_menus(pair, pair, [(0, (1,))]), [1], 4) == "a choice exceeds the threshold"
    assert (
        _walked(_menus([(4, (1,)), (0, (0,))], [(4, (1,)), (0, (0,))]), [1], 5)
        == "a capacity is below what jobs need"
    )
    # where worth lacks 2 to the next multiple, so does every bound of prices
    assert (
        _walked(_menus([(3, (1,)), (0, (0,))], [(3, (1,)), (0, (0,))]), [1], 3, prices=[[1]])
        == "a bound of prices"
    )
    # what uses more than there is goes; what is left once goes too, again and again
    assert _walked(_menus([(9, (5,))]), [4], -1) == "a capacity is below what jobs need"
    assert _walked(_menus([(9, (5,)), (1, (1,)), (0, (0,))]), [4], 1) == "a job has no option left"
    assert _walked(_menus([(9, (3,)), (1, (0,))], [(1, (2,))]), [4], 2) == "a job has no option left"
    assert _walked(_menus([(1, (0,))], []), [4], 2) == "a job has no option left"
    assert _walked(_menus(), [4], -1) == "a choice exceeds the threshold"
    assert _walked(_menus(), [], 0) == "a bound of prices"


def _tight(seed: int) -> tuple[reference.Menus, list[int], int, dict[str, Any]]:
    """Return menus whose worth goes with their uses, rooms, the optimum by enumeration, and a proof."""
    rng = Random(f"walk {seed}")
    width = 1 + seed % 3
    menus = []
    for _ in range(6):
        uses = [tuple(rng.randint(0, 9) for _ in range(width)) for _ in range(rng.randint(2, 3))]
        menus.append([(2 * sum(own) + rng.randint(0, 5), own) for own in uses])
    rooms = [sum(max(uses[k] for _, uses in menu) for menu in menus) * 2 // 3 for k in range(width)]
    best = max(
        sum(worth for worth, _ in choice)
        for choice in product(*menus)
        if all(sum(uses[k] for _, uses in choice) <= room for k, room in enumerate(rooms))
    )
    proof = {
        "prices": [[2 + rng.randint(-1, 1) for _ in range(width)] for _ in range(2)],
        "order": rng.sample(range(6), 4),
        "rows": [[max(worth for worth, _ in menu) - rng.randint(0, 4) for menu in menus]],
    }
    return menus, rooms, best, proof


WALKS = (
    (1, 28, 25, 33, 26, 30),
    (4, 29, 12, 39, 13, 14),
    (7, 30, 22, 49, 67, 68),
    (13, 18, 36, 32, 55, 63),
    (21, 7, 12, 24, 22, 23),
    (26, 32, 36, 33, 38, 38),
    (29, 11, 44, 42, 73, 75),
    (31, 21, 23, 22, 26, 26),
    (32, 19, 21, 21, 33, 33),
    (36, 11, 14, 21, 21, 22),
    (37, 16, 31, 38, 80, 80),
    (38, 57, 43, 58, 45, 45),
)
"""By seed the states that a walk closes by prices, order and rows, by one of them, by none: as they were."""


@pytest.mark.parametrize(("seed", *("whole", "prices", "order", "rows", "none")), WALKS)
def test_no_means_of_a_short_walk_is_lost(
    seed: int, whole: int, prices: int, order: int, rows: int, none: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    menus, rooms, best, proof = _tight(seed)
    for fields, many in (
        (("prices", "order", "rows"), whole),
        (("prices",), prices),
        (("order",), order),
        (("rows",), rows),
        ((), none),
    ):
        given = {field: proof[field] for field in fields}
        assert _walked(menus, rooms, best, **given) == f"{many} states closed"
        assert _walked(menus, rooms, best - 1, **given) == "a choice exceeds the threshold"
        fine = [[(3 * worth, uses) for worth, uses in menu] for menu in menus]
        scaled = {f: v if f == "order" else [[3 * n for n in row] for row in v] for f, v in given.items()}
        for further in range(3):  # losses of worth are multiples of 3
            assert _walked(fine, rooms, 3 * best + further, **scaled) == f"{many} states closed"
    monkeypatch.setattr(reference, "MOST_STATES", none)
    assert _walked(menus, rooms, best) == f"{none} states closed"
    monkeypatch.setattr(reference, "MOST_STATES", none - 1)
    with pytest.raises(TimeoutError, match="too many states"):
        _walked(menus, rooms, best)
    monkeypatch.undo()
    enough = -(-none * (1 + len(rooms)) // 20)
    monkeypatch.setattr(reference, "MOST_CELLS", enough)
    assert _walked(menus, rooms, best) == f"{none} states closed"
    monkeypatch.setattr(reference, "MOST_CELLS", enough - 1)
    with pytest.raises(TimeoutError, match="too many states"):
        _walked(menus, rooms, best)


def test_eight_vectors_of_rows_are_used() -> None:
    menus, rooms, best, proof = _tight(13)
    idle, own = [9999] * 6, proof["rows"][0]
    assert _walked(menus, rooms, best, rows=[*[idle] * 7, own]) == "55 states closed"
    assert _walked(menus, rooms, best, rows=[*[idle] * 8, own]) == "63 states closed"


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_of_rows_is_a_knapsack_of_each_capacity(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(f"rows {seed}")
    jobs, width = 4, rng.randint(1, 3)
    menus = [
        [(rng.randint(0, 9), tuple(rng.choice((0, 1, 3)) for _ in range(width))) for _ in range(3)]
        for _ in range(jobs)
    ]
    rooms, row = [rng.randint(0, 5) for _ in range(width)], [rng.randint(-2, 9) for _ in range(jobs)]
    order = rng.sample(range(jobs), jobs)
    bound = reference.rows_bound(menus, rooms, row, order)
    for turn in range(jobs + 1):
        left = tuple(rng.randint(0, room) for room in rooms)
        slack, open_jobs = rng.randint(-5, 20), order[turn:]
        most = slack + sum(row[job] - max(worth for worth, _ in menus[job]) for job in open_jobs)
        for k in range(width):
            best = 0
            for choice in product(*([None, *menus[job]] for job in open_jobs)):
                own = [
                    (one[0] - row[job], one[1][k])
                    for job, one in zip(open_jobs, choice, strict=True)
                    if one is not None and any(one[1]) and [bool(u) for u in one[1]].index(True) == k
                ]
                if sum(use for _, use in own) <= left[k]:
                    best = max(best, sum(worth for worth, _ in own))
            most += best
        for job in open_jobs:
            most += max([0, *(worth - row[job] for worth, uses in menus[job] if not any(uses))])
        assert bound(turn, left, slack) == most
    monkeypatch.setattr(reference, "MOST_CELLS", jobs * sum(rooms))
    again = reference.rows_bound(menus, rooms, row, order)
    assert again(0, tuple(rooms), 3) == bound(0, tuple(rooms), 3)
    monkeypatch.setattr(reference, "MOST_CELLS", jobs * sum(rooms) - 1)
    assert reference.rows_bound(menus, rooms, row, order)(0, tuple(rooms), 3) == 0
