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


def wrong_shapes(told: Told) -> list[Any]:
    """Return what is no plan of an instance at all."""
    kind = told["kind"]
    key = "fractions" if told.get("divisible") else _KEYS[kind]
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
    """Return a plan that keeps the rules but perhaps the capacities; mostly one mistake is made then."""
    timed = told["objective"] == "makespan"
    started = rng.random() < 0.5
    pools = {machine["id"]: machine for machine in told["machines"]}
    plan: Told = {"assignment": {}, "machine_index": {}, "start_s": {}}
    ends: dict[tuple[str, int], Fraction] = {}
    told_starts = timed and (
        started or any(e.get("gpus", 1) > 1 for j in told["jobs"] for e in j["on"].values())
    )
    for job in rng.sample(told["jobs"], len(told["jobs"])):
        if not job["on"] or (not job.get("required", True) and rng.random() < 0.3):
            if rng.random() < 0.3:
                plan["assignment"][job["id"]] = None
            continue
        name = plan["assignment"][job["id"]] = rng.choice(list(job["on"]))
        gpus, count = job["on"][name].get("gpus", 1), pools[name].get("count", 1)
        held = rng.sample(range(min(count, 40)), gpus)
        placed = timed or pools[name].get("capacity") is not None
        if count != gpus and (placed or rng.random() < 0.5):
            plan["machine_index"][job["id"]] = held if gpus > 1 or rng.random() < 0.5 else held[0]
        if told_starts:
            begin = max((ends.get((name, k), Fraction(0)) for k in held), default=Fraction(0))
            begin *= rng.choice((1, 1, 1, 2, 1 - Fraction(1, 2 * 10**9)))
            plan["start_s"][job["id"]] = float(begin)
            for k in held:
                ends[name, k] = Fraction(float(begin)) + Fraction(job["on"][name]["time_s"])
    if rng.random() < 0.6:
        _mistake(rng, told, plan)
    return {key: part for key, part in plan.items() if part or key == "assignment"}


def _mistake(rng: Random, told: Told, plan: Told) -> None:
    """Make one mistake in a plan, where there is anything to get wrong; some are none."""
    parts = [part for part in plan if plan[part]]
    if not parts:
        return
    part = rng.choice(parts)
    job = rng.choice(list(plan[part]))
    value = plan[part][job]
    if part == "assignment":
        plan[part][job] = rng.choice(("zz", None, 7, *(machine["id"] for machine in told["machines"])))
    elif part == "machine_index":
        held = value if isinstance(value, list) else [value]
        others = (
            held[:-1],
            [*held, 0],
            [*held, held[0]],
            [held[0]] * len(held),
            [-1],
            [10**9],
            [True],
            "0",
            None,
        )
        plan[part][job] = rng.choice(others)
        if rng.random() < 0.3:
            del plan[part][job]
    elif rng.random() < 0.25:
        plan[part][job] = rng.choice((-1.0, float("inf"), float("nan"), "0", True, None))
    elif rng.random() < 0.3:
        del plan[part][job]
    else:
        plan[part][job] = value * rng.choice((0.0, 0.5, 0.999, 1 - 3e-9, 1 - 3e-10, 1.5))
    if rng.random() < 0.1:
        plan[part]["nobody"] = value


def _any_fractions(rng: Random, told: Told) -> Told:
    """Return shares of time that fill jobs and machines to the brim, below it, or a little beyond."""
    jobs = told["jobs"]
    fractions: Told = {}
    load = {machine["id"]: 0.0 for machine in told["machines"]}
    for job in jobs:
        weights = {name: rng.choice((0.0, 1.0, rng.random())) for name in job["on"]}
        total = sum(weights.values()) or 1.0
        fractions[job["id"]] = {name: weight / total for name, weight in weights.items()}
        for name, share in fractions[job["id"]].items():
            load[name] += share * job["on"][name].get("gpus", 1)
    count = {machine["id"]: machine.get("count", 1) for machine in told["machines"]}
    fullest = max((load[name] / count[name] for name in load), default=1.0)
    scale = 1.0 / max(fullest, 1.0) * rng.choice((1.0, 1.0, 0.5, 1 + 5e-10, 1 - 5e-10, 1 + 4e-9, 1.5))
    for shares in fractions.values():
        for name in shares:
            shares[name] *= scale
    if fractions and rng.random() < 0.4:
        job_id = rng.choice(list(fractions))
        shares = fractions[job_id]
        wrong = (-0.5, float("nan"), float("inf"), "1", True, 0.0, -1e-12)
        law = rng.randrange(5)
        if law == 0:
            del fractions[job_id]
        elif law == 1:
            shares["zz"] = 0.0
        elif law == 2:
            fractions[job_id] = rng.choice(([], 1, None, dict.fromkeys(shares, 0.0)))
        elif shares:
            shares[rng.choice(list(shares))] = rng.choice(wrong)
    return {"fractions": fractions}


def _any_configuration(rng: Random, told: Told) -> Told:
    wild = rng.random() < 0.3
    chosen: Told = {}
    for job in told["jobs"]:
        menu = [(c.gpu_type, c.gpus, c.depth) for c in _configurations(told, job)]
        if wild:
            rows = [(row["gpu_type"], row["gpus"], depth) for row in job["menu"] for depth in row["depths"]]
            wrong = [("zz", 1, 0), ("g0", True, 0), ("g0", 1, False), ("g0", 1.0, 0), ("g0", 1, 1.0)]
            swapped = [(kind, gpus, depth) for _, gpus, depth in rows for kind in told["gpus"]]
            menu = rng.choice((rows, rows, [*rows, *wrong], swapped))
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
