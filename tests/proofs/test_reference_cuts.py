"""Cuts are taken exactly where their reason holds, and count as capacities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from random import Random
from typing import Any

import pytest

from apportion.proofs import reference
from tests.proofs.by_hand import SMALL, Statement, best_of, on, option, pool, said, stated, width_of


def _ends_in_time(gangs: Sequence[tuple[int, int]], count: int, until: int) -> bool:
    """Return whether gangs of (time, machines) can all end before a time, by every order of starting them."""
    for order in permutations(gangs):
        free = [0] * count
        last = 0
        for time, gang in order:
            free.sort()
            last = max(last, free[gang - 1])
            free[:gang] = [last + time] * gang
        if max(free) < until:
            return True
    return not gangs


def test_the_most_weight_is_that_of_the_fullest_set() -> None:
    rng = Random(3)
    for _ in range(40):
        weights = [0] + [rng.choice((0, rng.randint(0, 9))) for _ in range(rng.randint(0, 6))]
        count = len(weights) - 1
        most = [0] * (count + 1)
        for many in product(*(range(count // g + 1) for g in range(1, count + 1))):
            size = sum(g * n for g, n in enumerate(many, 1))
            if size <= count:
                worth = sum(weights[g] * n for g, n in enumerate(many, 1))
                most[size] = max(most[size], worth)
        assert reference.fullest(weights) == [max(most[: k + 1]) for k in range(count + 1)]


def test_a_cut_by_weights_leaves_less_than_its_weight_by_time() -> None:
    statement = stated("makespan", [on(0, 1), on(1, 1)], pools=[pool(3), pool(2)])
    room, takes = reference.cut_of_pool(statement, {"pool": 0, "weights": [0, 1, 1]}, Fraction(9), 1)
    assert room == 17
    assert [takes(0, on(0, 0, gang), 5) for gang in (1, 2, 3)] == [0, 5, 5] and takes(0, on(1, 0, 2), 5) == 0
    assert takes(0, option(), 5) == 0
    room, takes = reference.cut_of_pool(statement, {"pool": 1, "weights": [2, 1]}, Fraction(9), 0)
    assert room == 35 and takes(0, on(1, 0, 1), 5) == 10
    assert reference.cut_of_pool(statement, {"pool": 0, "weights": [0, 0, 0]}, Fraction(9), 0)[0] == 0
    top = 10**6
    assert (
        reference.cut_of_pool(statement, {"pool": 1, "weights": [top, 0]}, Fraction(1), 0)[0] == 2 * top - 1
    )
    for wrong in (
        {"pool": 0, "weights": [0, 1]},
        {"pool": 0, "weights": [0, 1, top + 1]},
        {"pool": 0, "weights": [0, 1, -1]},
        {"pool": 2, "weights": [0, 1]},
        {"pool": -1, "weights": [0, 1]},
        {"pool": True, "weights": [0, 1]},
        {"pool": 1.0, "weights": [0, 1]},
        {"weights": [0, 1]},
        {"pool": 1, "weights": [0, 1], "more": 1},
    ):
        with pytest.raises(ValueError, match=r"a cut of no pool|no weights"):
            reference.cut_of_pool(statement, wrong, Fraction(9), 0)
    for count, holds in ((10_000, True), (10_001, False)):
        huge = stated("makespan", [on(0, 1)], pools=[pool(count)])
        cut = {"pool": 0, "weights": [0] * count}
        if holds:
            assert reference.cut_of_pool(huge, cut, Fraction(9), 0)[0] == 0
        else:
            with pytest.raises(ValueError, match="no weights"):
                reference.cut_of_pool(huge, cut, Fraction(9), 0)


@pytest.mark.parametrize("seed", range(80))
def test_gangs_are_excluded_exactly_where_no_order_ends_in_time(seed: int) -> None:
    rng = Random(f"excluded {seed}")
    count = rng.randint(1, 4)
    gangs = [(rng.randint(0, 6), rng.randint(1, count)) for _ in range(rng.randint(1, 4))]
    menus = [[on(0, time, gang), on(1, 1)] for time, gang in gangs]
    statement = stated("makespan", *menus, [on(1, 1)], pools=[pool(count), pool()])
    for until in range(1, 14):
        try:
            room, takes = reference.cut_of_pool(
                statement, {"pool": 0, "excluded": list(range(len(gangs)))}, Fraction(until), 0
            )
            excluded = True
        except ValueError:
            excluded = False
        assert excluded is not _ends_in_time(gangs, count, until)
        if excluded:
            assert room == len(gangs) - 1
            assert [takes(job, on(0, 0), 9) for job in range(len(gangs) + 1)] == [1] * len(gangs) + [0]
            assert takes(0, on(1, 0), 9) == 0


def test_what_is_excluded_must_have_an_option_there() -> None:
    statement = stated("makespan", [on(0, 9)], [on(0, "17/2")], [on(1, 1)], pools=[pool(), pool()])
    statement["jobs"][2]["barred"] = [on(1, 1), on(0, 9)]

    def cut(*jobs: Any, at: int = 0, until: int = 18, shift: int = 0) -> Any:
        return reference.cut_of_pool(statement, {"pool": at, "excluded": [*jobs]}, Fraction(until), shift)

    assert cut(0, 1, until=17)[0] == 1 and cut(0, 2)[0] == 1 and cut(0, 1, until=17, shift=1)[0] == 1
    assert cut(1, until=8)[0] == 0 and cut(0, until=9)[0] == 0
    for jobs in ((), (0, 0), (0, 3), (-1,), (True,)):
        with pytest.raises(ValueError, match="no jobs excluded"):
            cut(*jobs, until=1)
    with pytest.raises(ValueError, match="no option on the pool"):
        cut(0, at=1, until=1)
    with pytest.raises(ValueError, match="may end in time"):
        cut(0, 1, until=18, shift=0)  # 9 and 17/2, rounded down to 8
    assert cut(0, 1, until=17, shift=0)[0] == 1


def test_cuts_beyond_their_limits_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    statement = stated("makespan", *[[on(0, 9, 2)]] * 4, pools=[pool(4)])
    cut = {"pool": 0, "excluded": [0, 1, 2]}
    monkeypatch.setattr(reference, "MOST_CELLS", 1200)
    assert reference.cut_of_pool(statement, cut, Fraction(18), 0)[0] == 2
    monkeypatch.setattr(reference, "MOST_CELLS", 1199)
    with pytest.raises(TimeoutError, match="too many machines"):
        reference.cut_of_pool(statement, cut, Fraction(18), 0)


def test_ways_are_tried_up_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(state: tuple[int, tuple[int, ...]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        if state[0] > 1:
            yield from ((state[0] - 1, (k, *state[1][1:])) for k in range(3))

    begin = (4, (0, 0, 0))  # ten states in all, of three numbers each
    assert not reference.reached(begin, steps)
    assert reference.reached((1, (0,)), lambda state: [(state[0] - 1, (0,))])
    assert reference.reached((0, ()), steps)
    for name, state, enough in (
        ("MOST_STATES", begin, 10),
        ("MOST_CELLS", begin, 4),  # 40 / 4
        ("MOST_CELLS", (4, (0,) * 20), 21),  # 210 / 21
    ):
        monkeypatch.setattr(reference, name, enough)
        assert not reference.reached(state, steps)
        monkeypatch.setattr(reference, name, enough - 1)
        with pytest.raises(TimeoutError, match="many ways"):
            reference.reached(state, steps)
        monkeypatch.undo()


def _nodes(size: int, rooms: Sequence[int], *menus: Sequence[Mapping[str, Any]], **more: Any) -> Statement:
    return stated("maximize", *menus, nodes={"a100": {"size": size, "rooms": list(rooms)}}, **more)


def _lies(pieces: Sequence[int], rooms: Sequence[int]) -> bool:
    """Return whether pieces fit into rooms, by trying every assignment."""
    for places in product(range(len(rooms)), repeat=len(pieces)):
        loads = [0] * len(rooms)
        for piece, place in zip(pieces, places, strict=True):
            loads[place] += piece
        if all(load <= room for load, room in zip(loads, rooms, strict=True)):
            return True
    return not pieces


def _gpus(count: int, kind: str = "a100", value: Any = 1) -> dict[str, Any]:
    return option(value, {kind: count}, gpu_type=kind, gpus=count)


@pytest.mark.parametrize("seed", range(60))
def test_jobs_are_excluded_exactly_where_they_do_not_lie_on_the_nodes(seed: int) -> None:
    rng = Random(f"nodes {seed}")
    size = rng.randint(1, 4)
    rooms = [rng.randint(0, size) for _ in range(rng.randint(1, 3))]
    counts = [rng.choice([*range(1, size + 1), 2 * size]) for _ in range(rng.randint(1, 3))]
    statement = _nodes(size, rooms, *[[_gpus(1)]] * (len(counts) + 1))
    pieces = [min(gpus, size) for gpus in counts for _ in range(max(1, gpus // size))]
    given = {str(at): gpus for at, gpus in enumerate(counts)}
    if _lies(pieces, rooms):
        with pytest.raises(ValueError, match="the excluded jobs may fit"):
            reference.cut_of_nodes(statement, {"gpu_type": "a100", "excluded": given})
        return
    room, takes = reference.cut_of_nodes(statement, {"gpu_type": "a100", "excluded": given})
    assert room == len(counts) - 1
    for job, gpus in enumerate(counts):
        assert [takes(job, _gpus(n), 0) for n in (gpus - 1, gpus, gpus + 1)] == [0, 1, 1]
        assert takes(job, _gpus(gpus, "v100"), 0) == 0 and takes(job, option(), 0) == 0
    assert takes(len(counts), _gpus(10**9), 0) == 0


@pytest.mark.parametrize(
    ("size", "rooms", "counts", "fits"),
    [
        (4, [2, 2, 3, 0], [1, 1, 2, 3], True),
        (2, [0, 2, 1], [1, 1, 1, 1], False),
        (5, [3], [1, 1, 2], False),
        (4, [3, 4, 0, 1], [1, 2, 3, 2], True),
        (2, [0, 0], [1], False),
        (2, [1], [1], True),
        (2, [2], [2], True),
        (2, [1, 1], [2], False),
        (2, [2, 2, 1], [4, 1], True),
        (2, [2, 1, 1], [4], False),
    ],
)
def test_a_piece_lies_on_one_node(size: int, rooms: list[int], counts: list[int], fits: bool) -> None:
    statement = _nodes(size, rooms, *[[_gpus(1)]] * len(counts))
    cut = {"gpu_type": "a100", "excluded": {str(at): gpus for at, gpus in enumerate(counts)}}
    if fits:
        with pytest.raises(ValueError, match="the excluded jobs may fit"):
            reference.cut_of_nodes(statement, cut)
    else:
        assert reference.cut_of_nodes(statement, cut)[0] == len(counts) - 1


def test_a_cut_of_nodes_is_read_up_to_its_limits() -> None:
    statement = _nodes(2, [2, 1], [_gpus(2)], [_gpus(2)], [_gpus(2)])

    def cut(**fields: Any) -> Any:
        return reference.cut_of_nodes(statement, fields)

    room, takes = cut(gpu_type="a100", node_weights=[1, 3])
    assert room == 3 + 1
    assert [takes(0, _gpus(n), 0) for n in (0, 1, 2, 4, 6)] == [0, 1, 3, 6, 9]
    assert takes(0, _gpus(2, "v100"), 0) == 0 and takes(0, option(), 0) == 0
    room, takes = cut(gpu_type="a100", node_weights=[2, 3])  # two of one GPU weigh more than one of two
    assert room == 4 + 2 and takes(0, _gpus(2), 0) == 4 and takes(0, _gpus(1), 0) == 2
    assert cut(gpu_type="a100", node_weights=[10**9, 0])[0] == 3 * 10**9
    assert cut(gpu_type="a100", excluded={"0": 2, "1": 2})[0] == 1
    top = "9" * 12
    for wrong, words in (
        ({"gpu_type": "v100", "node_weights": [1, 3]}, "no nodes"),
        ({"gpu_type": 3, "node_weights": [1, 3]}, "no nodes"),
        ({"gpu_type": ["a100"], "node_weights": [1, 3]}, "no nodes"),
        ({"gpu_type": "a100", "node_weights": [1, 3], "excluded": {}}, "no nodes"),
        ({"gpu_type": "a100"}, "no nodes"),
        ({"gpu_type": "a100", "node_weights": [1]}, "no weights"),
        ({"gpu_type": "a100", "node_weights": [1, 10**9 + 1]}, "no weights"),
        ({"gpu_type": "a100", "node_weights": [1, -1]}, "no weights"),
        ({"gpu_type": "a100", "excluded": {}}, "no jobs excluded"),
        ({"gpu_type": "a100", "excluded": ["0"]}, "no jobs excluded"),
        ({"gpu_type": "a100", "excluded": {"0": 0}}, "no jobs excluded"),
        ({"gpu_type": "a100", "excluded": {"0": 10**9 + 1}}, "no jobs excluded"),
        ({"gpu_type": "a100", "excluded": {"x": 2}}, "no jobs excluded"),
        ({"gpu_type": "a100", "excluded": {"0": 2, "-1": 2}}, "no jobs excluded"),
        ({"gpu_type": "a100", "excluded": {top + "9": 2}}, "no jobs excluded"),
        ({"gpu_type": "a100", "excluded": {top: 2}}, "unknown"),
        ({"gpu_type": "a100", "excluded": {"0": 2, "3": 2}}, "unknown"),
        ({"gpu_type": "a100", "excluded": {"0": 2, "1": 3}}, "lies on no nodes"),
        ({"gpu_type": "a100", "excluded": {"0": 2, "1": 1}}, "may fit"),
    ):
        with pytest.raises(ValueError, match=words):
            cut(**wrong)


@pytest.mark.parametrize("seed", range(40))
def test_cuts_count_as_capacities_with_prices_or_without(seed: int) -> None:
    rng = Random(f"cuts {seed}")
    if seed % 2:
        count = rng.randint(2, 3)
        menus = [
            [
                on(0, rng.randint(1, 6), rng.randint(1, count)),
                *([on(1, rng.randint(4, 12))] * rng.randint(0, 1)),
            ]
            for _ in range(3)
        ]
        statement = stated("makespan", *menus, pools=[pool(count), pool()])
        weights = [rng.randint(0, 2) for _ in range(count)]
        cuts = [{"pool": 0, "weights": weights}]
        most = max(
            sum(weights[g - 1] * n for g, n in enumerate(many, 1))
            for many in product(range(count + 1), repeat=count)
            if sum(g * n for g, n in enumerate(many, 1)) <= count
        )

        def further(bound: int) -> list[tuple[int, Any]]:
            room = max(0, most * bound - 1)
            return [
                (room, lambda _, one: int(one["time"]) * weights[one["gang"] - 1] if one["pool"] == 0 else 0)
            ]

        for bound in range(1, 14):
            best = best_of(statement, [], further(bound))
            width = width_of(statement, [], True, 1)
            prices = [[rng.randint(0, 2) for _ in range(width)]]
            assert said(statement, bound, cuts=cuts, prices=prices)[0] is (best is None or best >= bound)
        return
    size = 2
    rooms = [rng.randint(0, 2) for _ in range(2)]
    menus = [
        [_gpus(n, value=rng.randint(1, 9)) for n in rng.sample((1, 2, 4), 2)] + [option(0)] for _ in range(3)
    ]
    statement = _nodes(size, rooms, *menus, capacities={"a100": sum(rooms), "v100": 1})
    weights = [rng.randint(0, 3), rng.randint(0, 3)]
    full = max(2 * weights[0], weights[1])
    room = sum((0, weights[0], full)[one] for one in rooms)

    def takes(_: int, one: Mapping[str, Any]) -> int:
        return (weights[0] if one["gpus"] == 1 else full * (one["gpus"] // 2)) if "gpus" in one else 0

    best = best_of(statement, [], [(room, takes)])
    assert best is not None
    for bound in (best - 1, best, best + 1):
        given = {
            "cuts": [{"gpu_type": "a100", "node_weights": weights}],
            "prices": [[1, 0, rng.randint(0, 2)]],
        }
        assert said(statement, float(bound), **given)[0] is (bound >= best)


def test_cuts_and_machines_of_a_pool_need_a_statement_that_has_them() -> None:
    gangs = stated("makespan", [on(0, 5, 2)], [on(0, 5, 2)], pools=[pool(3)])
    cuts = [{"pool": 0, "weights": [0, 1, 1]}]
    assert said(gangs, 10, cuts=cuts)[0] is True and said(gangs, 10)[0] is False
    assert said({**gangs, "prices": ["capacities", "pools"]}, 10, cuts=cuts) == (
        False,
        "there are no cuts here",
    )
    assert said(gangs, None, cuts=cuts)[0] is False, "without a bound nothing must end"
    assert said({**gangs, "goal": "maximize"}, 10, cuts=cuts) == (False, "there are no cuts here")
    assert said(gangs, 10, apart=[0])[0] is True
    assert said(gangs, 10, apart=[1])[0] is False
    assert said({**gangs, "prices": ["pools"]}, 10, apart=[0]) == (False, "no pool to take apart")
    for count, answer in ((10_000, None), (10_001, False)):
        many = stated("makespan", [on(0, 5, 2)], pools=[pool(count)])
        assert said(many, 6, apart=[0])[0] is answer
    infeasible = stated(
        "maximize", [_gpus(2)], nodes={"a100": {"size": 2, "rooms": [1, 1]}}, capacities={"a100": 2}
    )
    assert said(infeasible, None)[0] is False
    assert said(infeasible, None, cuts=[{"gpu_type": "a100", "excluded": {"0": 2}}])[0] is True
    assert said(infeasible, 0, cuts=[{"gpu_type": "a100", "excluded": {"0": 2}}])[0] is True


def test_the_pieces_of_excluded_jobs_are_counted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand million GPUs on nodes of two are 500 million pieces, once made before any limit."""
    statement = _nodes(2, [2, 1], [_gpus(2)], [_gpus(2)])
    cut = {"gpu_type": "a100", "excluded": {"0": 10**9, "1": 10**9}}
    with pytest.raises(TimeoutError, match="too many nodes"):
        reference.cut_of_nodes(statement, cut)
    cut["excluded"] = {"0": 4, "1": 2}
    monkeypatch.setattr(reference, "MOST_CELLS", 300)
    assert reference.cut_of_nodes(statement, cut)[0] == 1
    monkeypatch.setattr(reference, "MOST_CELLS", 299)
    with pytest.raises(TimeoutError, match="too many nodes"):
        reference.cut_of_nodes(statement, cut)


def test_two_cuts_take_of_a_capacity_each() -> None:
    """Of three jobs that hold two of three machines no two end before 10, by their weights or by trying."""
    statement = stated("makespan", *[[on(0, 6, 2), on(1, 9)]] * 3, pools=[pool(3), pool()], capacities={})
    cuts: list[Any] = [{"pool": 0, "excluded": [*two]} for two in combinations(range(3), 2)]
    cuts.insert(0, {"pool": 0, "weights": [0, 1, 1]})
    for some in (cuts, cuts[::-1], cuts[1:]):
        width = 2 + len(some)
        for price in ([0] * width, [1] * width, [*[0] * (width - 1), 4]):
            assert said(statement, 10, cuts=some, prices=[price])[0] is True
            assert said(statement, 13, cuts=cuts[:1], prices=[price[:3]])[0] is False
    far = stated("makespan", *[[on(0, 6, 2)], [on(0, 6, 2), on(1, 9)]], pools=[pool(3), pool()])
    assert said(far, 10, cuts=[{"pool": 1, "weights": [0]}, cuts[0]])[0] is False, "the second may run alone"


def test_tables_beyond_their_limits_end_as_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, answer in ((1_000, False), (1_001, None)):  # as many sets of all machines but one
        wide = stated("makespan", [on(0, 5, count - 1)], pools=[pool(count)])
        assert said(wide, 6, apart=[0])[0] is answer
    monkeypatch.setattr(reference, "MOST_CELLS", 6)
    assert said(SMALL, 7)[0] is True
    monkeypatch.setattr(reference, "MOST_CELLS", 5)
    assert said(SMALL, 7) == (None, "too large a table")


def test_vectors_have_a_number_each_and_orders_name_jobs() -> None:
    for changes, words in (
        ({"prices": [[1, 1]]}, "a vector of prices of another length"),
        ({"prices": [[1], []]}, "a vector of prices of another length"),
        ({"version": 2, "rows": [[1, 1]]}, "a vector of rows of another length"),
        ({"order": [3]}, "the order names no job"),
        ({"order": [0, 3]}, "the order names no job"),
    ):
        assert said(SMALL, 7, **changes) == (False, words)
    assert said(SMALL, 7, order=[2])[0] is True and said(SMALL, 7, prices=[[2]])[0] is True
    for uses in ({"gpu": 1.0}, {"gpu": -1}, {"gpu": True}, {"gpu": 1 << 3000}):
        assert said(stated("maximize", [option(1, uses)], capacities={"gpu": 3}), 7) == (
            False,
            "a use is no whole number from 0",
        )
    for room, holds in ((2.0, False), (True, False), (-(1 << 3000) - 1, False), (1 << 3000, False)):
        assert said(stated("maximize", [option(1)], capacities={"gpu": room}), 7)[0] is holds
    for room in (-(1 << 3000), (1 << 3000) - 1):
        assert said(stated("maximize", [option(1)], capacities={"gpu": room}), 7)[0] is True
    unknown = stated("maximize", [option(1, {"tpu": 1})], capacities={"gpu": 3})
    assert said(unknown, 7)[0] is False


@pytest.mark.parametrize("seed", range(30))
def test_a_divided_capacity_cuts_no_choice_off(seed: int) -> None:
    """Every choice keeps it, whatever the divisor, so that a proof with it shows the optimum and no less."""
    rng = Random(f"divided {seed}")
    uses = rng.choice(((2, 3, 5), (4, 8), (3, 3, 7), (6, 9, 20)))
    menus = [
        [option(rng.randint(1, 9), {"a": rng.choice(uses), "b": rng.randint(0, 3)}) for _ in range(2)]
        + [option(0)]
        for _ in range(4)
    ]
    rooms = {"a": rng.randint(0, 40), "b": rng.randint(0, 9)}
    statement = stated("maximize", *menus, capacities=rooms, prices=["capacities"])
    best = best_of(statement, [])
    assert best is not None
    cuts = [{"capacity": k, "divisor": rng.choice((1, 2, 3, 4, 7))} for k in (0, 0, 1)]
    three: dict[str, Any] = {"version": 3, "rows": [], "cuts": cuts}
    for _ in range(6):
        prices = [[rng.randint(0, 2) for _ in range(5)]]
        assert said(statement, int(best), prices=prices, **three)[0] is True
        assert said(statement, int(best) - 1, prices=prices, **three)[0] is False
    assert said(statement, int(best), prices=[[0, 0]], **three)[0] is False, "cuts have prices, too"
    assert said({**statement, "pools": [pool()]}, int(best), **three)[0] is False


def test_the_most_that_jobs_reach_is_divided() -> None:
    """Of 4 or 6, 9 and 20 each once 35 is the most below 37; 10 below 12, which 6 twice would fill."""
    own = [[option(1, {"a": 4}), option(1, {"a": 6})], [option(1, {"a": 9})], [option(1, {"a": 20})]]
    for room, reached in ((37, 35), (34, 33), (12, 9), (5, 4), (3, 0), (0, 0)):
        statement = stated("maximize", *own, capacities={"b": 1, "a": room}, prices=["capacities"])
        for divisor in (1, 2, 7):
            most, takes = reference.cut_of_capacity(statement, {"capacity": 1, "divisor": divisor})
            assert most == reached // divisor and takes(0, own[2][0], 0) == 20 // divisor
    large = stated("maximize", *own, capacities={"a": 10**9}, prices=["capacities"])
    with pytest.raises(TimeoutError):
        reference.cut_of_capacity(large, {"capacity": 0, "divisor": 1})
    below = stated("maximize", *own, capacities={"a": -1}, prices=["capacities"])
    assert said(below, 3, version=3, rows=[], cuts=[{"capacity": 0, "divisor": 1}])[0] is not True
