"""Statements and proofs written by hand, and the optimum of what they are about by enumeration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from apportion.proofs import reference

__all__ = [
    "INFEASIBLE",
    "PROOF",
    "SMALL",
    "Statement",
    "best_of",
    "on",
    "option",
    "pool",
    "said",
    "stated",
    "width_of",
    "written",
]

Statement = dict[str, Any]
PROOF: Mapping[str, Any] = {
    "format": "apportion-proof",
    "version": 1,
    "instance": "digest",
    "claim": {"kind": "no_better_plan", "bound": 7},
    "shift": 0,
    "prices": [],
    "order": [],
    "apart": [],
    "cuts": [],
}
INFEASIBLE = {"kind": "infeasible", "bound": None}


def option(value: Any = 0, uses: Mapping[str, int] | None = None, **more: Any) -> dict[str, Any]:
    return {"value": value, "uses": dict(uses or {}), **more}


def on(pool: int, time: Any, gang: int = 1, use: int = 0, **more: Any) -> dict[str, Any]:
    return option(pool=pool, time=time, gang=gang, use=use, **more)


def pool(count: int = 1, capacity: int | None = None) -> dict[str, Any]:
    return {"name": "pool", "count": count, "capacity": capacity}


def stated(goal: str, *menus: Sequence[Mapping[str, Any]], **more: Any) -> Statement:
    jobs = [{"name": f"j{at}", "options": list(menu)} for at, menu in enumerate(menus)]
    made = {"capacities": {}, "pools": [], "nodes": {}, "prices": ["capacities", "pools", "cuts"], **more}
    return {
        "format": "apportion-statement",
        "version": 1,
        "instance": "digest",
        "goal": goal,
        "jobs": jobs,
        **made,
    }


def written(bound: Any = 7, **changes: Any) -> bytes:
    claim = INFEASIBLE if bound is None else {"kind": "no_better_plan", "bound": bound}
    return json.dumps({**PROOF, "claim": claim, **changes}).encode()


def said(statement: Statement, bound: Any, **changes: Any) -> tuple[bool | None, str]:
    return reference.check(statement, written(bound, **changes))


SMALL = stated(
    "maximize",
    [option(4, {"gpu": 2}), option(0)],
    [option(3, {"gpu": 1}), option(0)],
    [option(5, {"gpu": 3}), option(0)],
    capacities={"gpu": 3},
)
"""Three jobs, of which the first two are worth most: 7."""


def _placed(
    choice: Sequence[Mapping[str, Any]], pools: Sequence[Mapping[str, Any]], apart: Sequence[int]
) -> Iterator[list[tuple[Any, int, Any]]]:
    """Yield the loads of a choice by pool or machine: capacity, use and time together."""
    ways = []
    for one in choice:
        number = one.get("pool")
        if number in apart:
            ways.append(list(combinations(range(pools[number]["count"]), one["gang"])))
        else:
            ways.append([()])
    for way in product(*ways):
        loads = []
        for number, own in enumerate(pools):
            here = [
                (one, places) for one, places in zip(choice, way, strict=True) if one.get("pool") == number
            ]
            for machine in range(own["count"] if number in apart else 1):
                on_it = [
                    (one, 1 if number in apart else one["gang"])
                    for one, places in here
                    if number not in apart or machine in places
                ]
                many = 1 if number in apart else own["count"]
                use = sum(one["use"] * times for one, times in on_it)
                time = sum((Fraction(one["time"]) * times for one, times in on_it), Fraction(0))
                loads.append((own["capacity"], many, use, time))
        yield loads


def best_of(
    statement: Statement, apart: Sequence[int], further: Sequence[tuple[int, Any]] = ()
) -> Fraction | None:
    """Return the optimum of what a proof is about: pools together, or machine by machine; with cuts."""
    pools, goal = statement["pools"], statement["goal"]
    found = []
    for at in product(*(range(len(job["options"])) for job in statement["jobs"])):
        choice = [job["options"][k] for job, k in zip(statement["jobs"], at, strict=True)]
        if any(
            sum(one["uses"].get(name, 0) for one in choice) > room
            for name, room in statement["capacities"].items()
        ):
            continue
        if any(sum(takes(j, one) for j, one in enumerate(choice)) > room for room, takes in further):
            continue
        held = [one for one in choice if one.get("pool") is not None]
        if any(
            pools[one["pool"]]["capacity"] is not None and one["use"] > pools[one["pool"]]["capacity"]
            for one in held
        ):
            continue
        for loads in _placed(choice, pools, apart):
            if any(capacity is not None and use > many * capacity for capacity, many, use, _ in loads):
                continue
            if goal != "makespan":
                found.append(sum((Fraction(one["value"]) for one in choice), Fraction(0)))
                continue
            ends = [Fraction(one["time"]) for one in held]
            found.append(max([*ends, *(time / many for _, many, _, time in loads)], default=Fraction(0)))
    if not found:
        return None
    return max(found) if goal == "maximize" else min(found)


def width_of(statement: Statement, apart: Sequence[int], ends: bool, cuts: int = 0) -> int:
    machines = [one["count"] if k in apart else 1 for k, one in enumerate(statement["pools"])]
    rows = sum(
        m * ((one["capacity"] is not None) + ends)
        for m, one in zip(machines, statement["pools"], strict=True)
    )
    return len(statement["capacities"]) + rows + cuts
