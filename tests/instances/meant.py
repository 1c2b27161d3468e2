"""Plans good and bad for hostile instances, and the bound that weak duality defines; all from the JSON."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

from tests.hunt.truth_freezing import _configurations, _nodes
from tests.hunt.truth_gap_filling import _allowed, _terms

__all__ = ["any_plan", "defined_bound", "priced", "wrong_shapes"]

Told = dict[str, Any]
_KEYS = {
    "gap_filling": "allocation",
    "multiple_choice_knapsack": "choice",
    "matching": "assignment",
    "freezing": "configuration",
}


def wrong_shapes(kind: str) -> list[Any]:
    """Return what is no plan of a kind at all."""
    key = _KEYS[kind]
    inner = [{key: {"j0": 7}}, {key: {"j0": [1]}}] if kind in ("gap_filling", "freezing") else []
    whole = {"gpu_type": "g0", "gpus": 1}
    inner += (
        [{key: {"j0": whole}}, {key: {"j0": {**whole, "depth": 0, "more": 1}}}] if kind == "freezing" else []
    )
    inner += (
        [{key: {}, "machine_index": 3}, {key: {}, "start_s": []}, {"start_s": {}}]
        if kind == "matching"
        else []
    )
    return [None, 3, [], {}, {key: 3}, {key: []}, {key: {}, "more": {}}, {"more": {}}, *inner]


def any_plan(rng: Random, told: Told) -> Told:
    """Return a plan that may keep every rule or break some."""
    drawn = {
        "gap_filling": _any_allocation,
        "multiple_choice_knapsack": _any_choice,
        "matching": _any_fractions if told.get("divisible") else _any_assignment,
        "freezing": _any_configuration,
    }[told["kind"]](rng, told)
    if rng.random() < 0.05:
        key = "fractions" if told.get("divisible") else _KEYS[told["kind"]]
        drawn[key]["nobody"] = next(iter(drawn[key].values()), [])
    return drawn


def _any_choice(rng: Random, told: Told) -> Told:
    wild = rng.random() < 0.3
    choice = {}
    for job in told["jobs"]:
        ids = [option["id"] for option in job["options"]]
        allowed = [name for name in ids if name not in job.get("forbidden", ())]
        if job.get("pinned") is not None and not wild:
            allowed = [name for name in allowed if name == job["pinned"]]
        names = [*ids, "zz"] if wild else allowed
        if names and (job.get("required") or rng.random() < 0.6):
            choice[job["id"]] = rng.choice(names)
        elif rng.random() < 0.2:
            choice[job["id"]] = None
    return {"choice": choice}


def _any_allocation(rng: Random, told: Told) -> Told:
    free, allocation = list(told["nodes"]), {}
    wild = rng.random() < 0.4
    rng.shuffle(free)
    for job in told["jobs"]:
        now = [node for node in job.get("current_nodes", ()) if node in free or wild]
        counts = [count for count in range(len(told["nodes"]) + 1) if wild or _allowed(job, count)]
        count = rng.choice(counts or [0])
        held = rng.sample(now, min(len(now), count))
        others = [node for node in free if node not in now]
        held += rng.sample(others, min(len(others), count - len(held)))
        if wild and rng.random() < 0.1:
            held.append(rng.choice(held) if held and rng.random() < 0.5 else "elsewhere")
        if not wild or rng.random() < 0.5:
            free = [node for node in free if node not in held]
        if held or rng.random() < 0.5:
            allocation[job["id"]] = held
    return {"allocation": allocation}


def _any_assignment(rng: Random, told: Told) -> Told:
    timed = told["objective"] == "makespan"
    wild, started = rng.random() < 0.3, rng.random() < 0.5
    pools = {machine["id"]: machine for machine in told["machines"]}
    plan: Told = {"assignment": {}, "machine_index": {}, "start_s": {}}
    ends: dict[tuple[str, int], Fraction] = {}
    for job in told["jobs"]:
        names = [*pools, "zz"] if wild and rng.random() < 0.2 else list(job["on"])
        if (
            not names
            or (not job.get("required", True) and rng.random() < 0.3)
            or (wild and rng.random() < 0.1)
        ):
            if rng.random() < 0.3:
                plan["assignment"][job["id"]] = None
            continue
        name = plan["assignment"][job["id"]] = rng.choice(names)
        if name not in job["on"]:
            continue
        gpus, count = job["on"][name].get("gpus", 1), min(pools[name].get("count", 1), 40)
        held = rng.sample(range(count), min(gpus, count))
        if wild and rng.random() < 0.2:
            held = rng.choice(
                ([0] * gpus, [count], [-1], [True], [*held, 0], ["0"], [], [pools[name].get("count", 1)])
            )
        if count != gpus or rng.random() < 0.5 or wild:
            plan["machine_index"][job["id"]] = held if gpus > 1 or rng.random() < 0.5 else (held or [0])[0]
        if timed and (started or gpus > 1) and not (wild and rng.random() < 0.2):
            whole = [k for k in held if isinstance(k, int)]
            begin = max((ends.get((name, k), Fraction(0)) for k in whole), default=Fraction(0))
            lasts = Fraction(job["on"][name]["time_s"])
            if wild and rng.random() < 0.4:
                begin = begin * Fraction(rng.choice((0, 1, 3, 4)), 4)
            plan["start_s"][job["id"]] = float(begin)
            for k in whole:
                ends[name, k] = Fraction(float(begin)) + lasts
            if wild and rng.random() < 0.1:
                plan["start_s"][job["id"]] = rng.choice((-1.0, float("inf"), "0", True, None))
    return {key: part for key, part in plan.items() if part or key == "assignment"}


def _any_fractions(rng: Random, told: Told) -> Told:
    wild = rng.random() < 0.3
    jobs = max(len(told["jobs"]), 1)
    fractions: Told = {}
    for job in told["jobs"]:
        names = list(job["on"])
        least = max((entry.get("gpus", 1) for entry in job["on"].values()), default=1)
        share = 1.0 / (jobs * least * max(len(names), 1))
        shares: Told = {
            name: share * (rng.choice((0, 1, 3, 20)) if wild else rng.choice((1, 0.5))) for name in names
        }
        if wild and rng.random() < 0.2:
            shares[rng.choice((*names, "zz"))] = rng.choice((-0.5, float("nan"), "1", True, 0.0))
        if not (wild and rng.random() < 0.1):
            fractions[job["id"]] = shares
    return {"fractions": fractions}


def _any_configuration(rng: Random, told: Told) -> Told:
    wild = rng.random() < 0.3
    chosen: Told = {}
    for job in told["jobs"]:
        menu = [(c.gpu_type, c.gpus, c.depth) for c in _configurations(told, job)]
        if wild:
            rows = [(row["gpu_type"], row["gpus"], depth) for row in job["menu"] for depth in row["depths"]]
            menu = [*rows, ("zz", 1, 0), ("g0", True, 0)] if rng.random() < 0.2 else rows
        if not menu or (not job.get("required") and rng.random() < 0.3) or (wild and rng.random() < 0.1):
            continue
        kind, gpus, depth = rng.choice(menu)
        got: Told = {"gpu_type": kind, "gpus": gpus, "depth": depth}
        size = told.get("gpus_per_node", {}).get(kind)
        if size:
            names = [str(k) for k in range(len(_nodes(told, kind) or []))]
            got["nodes"] = rng.sample(names, min(len(names), max(1, -(-gpus // size))))
            if wild and rng.random() < 0.2:
                got["nodes"] = rng.choice(([], ["zz"], [*got["nodes"], *got["nodes"]], 0))
        elif wild and rng.random() < 0.1:
            got["nodes"] = ["0"]
        chosen[job["id"]] = got
    return {"configuration": chosen}


def priced(rng: Random, names: list[str]) -> dict[str, float]:
    """Return a price for every name: nothing, little, or far too much."""
    scale = 10.0 ** rng.randint(-12, 12)
    return {name: rng.choice((0.0, scale, scale * rng.random(), rng.random(), 3.0)) for name in names}


def defined_bound(told: Told, prices: dict[str, float]) -> Fraction | None:
    """Return ``lambda . C`` and every job's best at these prices, over all that it may have; sums only."""
    maximize, capacities, menus = {
        "gap_filling": _counts,
        "multiple_choice_knapsack": _options,
        "matching": _machines,
        "freezing": _depths,
    }[told["kind"]](told)
    sign = 1 if maximize else -1
    total = sum((Fraction(prices[name]) * most for name, most in capacities.items()), Fraction(0))
    for menu in menus:
        worths = [
            sign * value - sum(Fraction(prices[n]) * use for n, use in uses.items()) for value, uses in menu
        ]
        if not worths:
            return None
        total += max(worths)
    return sign * total


_Menus = tuple[bool, dict[str, int], list[list[tuple[Fraction, dict[str, int]]]]]


def _counts(told: Told) -> _Menus:
    nodes, menus = len(told["nodes"]), []
    for job in told["jobs"]:
        menu = []
        for count in range(nodes + 1):
            if _allowed(job, count):
                earned, lost = _terms(told, job, count)
                menu.append((earned - lost, {"idle_nodes": count}))
        menus.append(menu)
    return True, {"idle_nodes": nodes}, menus


def _options(told: Told) -> _Menus:
    menus = []
    for job in told["jobs"]:
        pinned = job.get("pinned")
        menu = [
            (Fraction(option["value"]), dict(option["uses"]))
            for option in job["options"]
            if option["id"] not in job.get("forbidden", ()) and pinned in (None, option["id"])
        ]
        if not job["required"] and pinned is None:
            menu.append((Fraction(0), {}))
        menus.append(menu)
    return told["sense"] == "maximize", dict(told["capacities"]), menus


def _machines(told: Told) -> _Menus:
    import math

    field, capacities = told["objective"], {}
    for machine in told["machines"]:
        if machine.get("capacity") is not None:
            name = machine["id"]
            step = math.gcd(*(job["on"][name].get("uses", 1) for job in told["jobs"] if name in job["on"]))
            room = machine["capacity"] // step * step if step else machine["capacity"]
            capacities[name] = room * machine.get("count", 1)
    menus = []
    for job in told["jobs"]:
        menu = []
        for name, entry in job["on"].items():
            use = entry.get("uses", 1) * entry.get("gpus", 1)
            menu.append((Fraction(entry[field]), {name: use} if name in capacities else {}))
        if not job.get("required", True):
            menu.append((Fraction(0), {}))
        menus.append(menu)
    return field == "value", capacities, menus


def _depths(told: Told) -> _Menus:
    cap, capacities = told.get("penalty_cap_millionths"), dict(told["gpus"])
    if cap is not None:
        capacities["frozen_penalty"] = cap
    menus = []
    for job in told["jobs"]:
        menu = []
        for one in _configurations(told, job):
            uses = {one.gpu_type: one.gpus}
            if cap is not None:
                uses["frozen_penalty"] = one.penalty
            menu.append((Fraction(one.value), uses))
        if not job.get("required", False):
            menu.append((Fraction(told.get("queue_penalty", 1.1)), {}))
        menus.append(menu)
    return told.get("power", -0.5) > 0, capacities, menus
