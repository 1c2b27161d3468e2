"""The optimum of a plain statement by every choice, placed on machines and nodes, in exact fractions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

from tests.hunt.simplex import maximum

__all__ = ["best"]

Statement = dict[str, Any]
_Machines = tuple[tuple[Fraction, int], ...]
"""Of every machine until when it is busy and what is used of it; machines of a pool are alike."""
_State = tuple[tuple[int, ...], tuple[_Machines, ...], tuple[tuple[int, ...], ...]]
"""What is left of the capacities, the machines of every pool, the rooms on nodes of every type."""


def best(statement: Statement) -> Fraction | None:
    """Return the best value, cost or time of a plan; ``None`` where there is none."""
    if statement["goal"] == "shares":
        return _shared(statement)
    timed, maximizes = statement["goal"] == "makespan", statement["goal"] == "maximize"
    jobs = [job["options"] for job in statement["jobs"]]
    gangs = timed and any(option.get("gang", 1) > 1 for options in jobs for option in options)
    pools: list[_Machines] = [
        ((Fraction(0), 0),) * min(pool["count"], _held(statement, at))
        for at, pool in enumerate(statement["pools"])
    ]
    rooms = tuple(tuple(sorted(one["rooms"])) for one in statement["nodes"].values())
    begin: _State = (tuple(statement["capacities"].values()), tuple(pools), rooms)
    if min(begin[0], default=0) < 0:
        return None
    layer: dict[tuple[int, _State], Fraction] = {(0, begin): Fraction(0)}
    for depth in range(len(jobs)):
        after: dict[tuple[int, _State], Fraction] = {}
        for (done, state), worth in layer.items():
            for job in range(len(jobs)) if gangs else (depth,):  # gangs may begin in any order
                for option in () if done >> job & 1 else jobs[job]:
                    for placed, end in _placed(statement, state, option):
                        total = max(worth, end) if timed else worth + Fraction(option["value"])
                        key = (done | 1 << job, placed)
                        if key not in after or (total > after[key]) == maximizes:
                            after[key] = total
        layer = after
    return (max if maximizes else min)(layer.values()) if layer else None


def _held(statement: Statement, pool: int) -> int:
    """Return how many machines of a pool jobs can hold at most."""
    options = ([o["gang"] for o in job["options"] if o.get("pool") == pool] for job in statement["jobs"])
    return sum(max(gangs, default=0) for gangs in options)


def _placed(statement: Statement, state: _State, option: Any) -> Iterator[tuple[_State, Fraction]]:
    """Yield the states after an option was taken, and when its job ends."""
    left, pools, nodes = state
    taken = (option["uses"].get(name, 0) for name in statement["capacities"])
    left = tuple(room - use for room, use in zip(left, taken, strict=True))
    if min(left, default=0) < 0:
        return
    if option.get("pool") is not None:
        at, use = option["pool"], option["use"]
        capacity = statement["pools"][at]["capacity"]
        for held in combinations(range(len(pools[at])), option["gang"]):
            alike = [pools[at][k] for k in held]
            if capacity is not None and any(used + use > capacity for _, used in alike):
                continue
            end = max((until for until, _ in alike), default=Fraction(0)) + Fraction(option["time"])
            machines = [m for k, m in enumerate(pools[at]) if k not in held]
            machines += [(end, used + use) for _, used in alike]
            yield (left, (*pools[:at], tuple(sorted(machines)), *pools[at + 1 :]), nodes), end
    elif option.get("gpu_type") in statement["nodes"] and option["gpus"]:
        at = [*statement["nodes"]].index(option["gpu_type"])
        size = statement["nodes"][option["gpu_type"]]["size"]
        for rooms in _packed(nodes[at], min(size, option["gpus"]), max(1, option["gpus"] // size)):
            yield (left, pools, (*nodes[:at], rooms, *nodes[at + 1 :])), Fraction(0)
    else:
        yield (left, pools, nodes), Fraction(0)


def _packed(rooms: tuple[int, ...], piece: int, many: int) -> Iterator[tuple[int, ...]]:
    """Yield what is left of nodes once so many pieces lie on them, each on another."""
    for held in {tuple(sorted(some)) for some in combinations(rooms, many)}:
        if all(room >= piece for room in held):
            rest = list(rooms)
            for room in held:
                rest.remove(room)
            yield tuple(sorted((*rest, *(room - piece for room in held))))


def _shared(statement: Statement) -> Fraction | None:
    """Return the least time by which all jobs are done where they share machines: a linear programme."""
    jobs = statement["jobs"]
    pairs = [(at, option) for at, job in enumerate(jobs) for option in job["options"]]
    rows, rights = [], []
    for at in range(len(jobs)):
        own = [Fraction(int(job == at)) for job, _ in pairs]
        speeds = [-x / Fraction(option["time"]) for x, (_, option) in zip(own, pairs, strict=True)]
        rows += [[*own, Fraction(0)], [*speeds, Fraction(1)]]
        rights += [Fraction(1), Fraction(0)]
    for at, pool in enumerate(statement["pools"]):
        rows.append([Fraction(o["gang"] if o["pool"] == at else 0) for _, o in pairs] + [Fraction(0)])
        rights.append(Fraction(pool["count"]))
    if not jobs:
        return Fraction(0)
    speed = maximum(rows, rights, [Fraction(0)] * len(pairs) + [Fraction(1)])
    return 1 / speed if speed else None
