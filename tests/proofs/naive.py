"""A second checker of proofs, deliberately naive: choice after choice in plain Python, nothing shared."""

import gzip
import hashlib
import json
import math
from fractions import Fraction
from itertools import combinations, pairwise

from tests.proofs.naive_cuts import cut_of, demand, pool_cut, shares


def check(canonical: bytes, proof_bytes: bytes) -> str:
    """Return ``proved``, ``refused`` or ``incomplete`` for canonical JSON and the bytes of a proof."""
    try:
        proof = json.loads(gzip.decompress(proof_bytes))
        demand(proof["format"] == "apportion-proof" and proof["version"] == 1)
        demand(proof["instance"] == hashlib.sha256(canonical).hexdigest())
        instance = json.loads(canonical)
        return (
            shares(instance, proof) if instance.get("divisible") else walk(*model_of(instance, proof), proof)
        )
    except (AssertionError, ValueError, KeyError, TypeError, EOFError, OSError):
        return "refused"


def walk(menus, capacities, threshold, proof):
    vectors, named = [[0] * len(capacities), *proof["prices"]], proof["order"]
    demand(all(len(v) == len(capacities) and all(type(p) is int and p >= 0 for p in v) for v in vectors))
    demand(len(set(named)) == len(named) and all(type(j) is int and 0 <= j < len(menus) for j in named))
    if not all(menus) or min(capacities, default=0) < 0:
        return "proved"
    order = named + [job for job in range(len(menus)) if job not in set(named)]
    rests = []  # what the open jobs are worth at most, from each depth on, at each vector of prices
    for vector in vectors:
        rest = [0]
        for job in reversed(order):
            rest.append(rest[-1] + max(worth - dot(vector, uses) for worth, uses in menus[job]))
        rests.append(rest[::-1])
    stack, nodes = [(0, 0, capacities)], 0
    while stack:
        (depth, worth, left), nodes = stack.pop(), nodes + 1
        if nodes > 300_000:
            return "incomplete"
        bounds = [worth + dot(v, left) + rest[depth] for v, rest in zip(vectors, rests, strict=True)]
        if min(bounds) <= threshold:
            continue
        if depth == len(order):
            return "refused"
        for more, uses in menus[order[depth]]:
            after = [have - use for have, use in zip(left, uses, strict=True)]
            if min(after, default=0) >= 0:
                stack.append((depth + 1, worth + more, after))
    return "proved"


def model_of(instance, proof):
    claim, unit = proof["claim"], Fraction(2) ** -proof["shift"]
    infeasible = claim == {"kind": "infeasible", "bound": None}
    demand(infeasible or (claim["kind"] == "no_better_plan" and math.isfinite(claim["bound"])))
    bound = None if infeasible else Fraction(claim["bound"])
    demand(not proof["cuts"] or instance["kind"] in ("freezing", "matching"))
    demand(not proof["apart"] or instance["kind"] == "matching")
    menus, capacities, sign = KINDS[instance["kind"]](instance, proof, bound, unit)
    if infeasible or instance.get("objective") == "makespan":
        return [[(0, uses) for _, uses in menu] for menu in menus], capacities, -1
    whole = [[(math.ceil(sign * value / unit), uses) for value, uses in menu] for menu in menus]
    return whole, capacities, math.floor(sign * bound / unit)


def knapsack(instance, proof, bound, unit):
    names, menus = list(instance["capacities"]), []
    for job in instance["jobs"]:
        fits = [
            o for o in job["options"] if o["id"] not in job["forbidden"] and job["pinned"] in (None, o["id"])
        ]
        menus.append([(Fraction(o["value"]), [o["uses"].get(name, 0) for name in names]) for o in fits])
        if not job["required"] and job["pinned"] is None:
            menus[-1].append((0, [0] * len(names)))
    return menus, list(instance["capacities"].values()), 1 if instance["sense"] == "maximize" else -1


def gap_filling(instance, proof, bound, unit):
    idle, menus = len(instance["nodes"]), []
    for job in instance["jobs"]:
        now, menu = len(job["current_nodes"]), []
        running = rate(job["scaling"], now) if now >= job["min_nodes"] else 0
        for count in [0, *range(max(1, job["min_nodes"]), min(idle, job["max_nodes"]) + 1)]:
            if count not in job["forbidden_counts"] and job["pinned_count"] in (None, count):
                stall = job["rescale_up_s"] if count > now else job["rescale_down_s"] if count < now else 0
                gained = Fraction(instance["horizon_s"]) * rate(job["scaling"], count)
                menu.append((Fraction(job["weight"]) * (gained - running * Fraction(stall)), [count]))
        menus.append(menu)
    return menus, [idle], 1


def rate(scaling, count):
    curve = list(zip(scaling["nodes"], map(Fraction, scaling["rate"]), strict=True))
    for (low, at_low), (high, at_high) in pairwise(curve):
        if low <= count <= high:
            return at_low + (at_high - at_low) * Fraction(count - low, high - low)
    return curve[-1][1]


def matching(instance, proof, bound, unit):
    goal, pools = instance["objective"], list(enumerate(instance["machines"]))
    demand(all(type(number) is int and 0 <= number < len(pools) for number in proof["apart"]))
    timed = goal == "makespan" and bound is not None
    last = math.ceil(bound / unit) - 1 if timed else None
    capacities, columns = (
        [],
        {},
    )  # per pool: its count and capacity, and of every machine columns of use and time
    for number, pool in pools:
        uses = [job["on"][pool["id"]]["uses"] for job in instance["jobs"] if pool["id"] in job["on"]]
        together, step = 1 if number in proof["apart"] else pool["count"], math.gcd(*uses) or 1
        columns[pool["id"]] = (number, pool, [])
        for _ in range(pool["count"] // together):
            room = None if pool["capacity"] is None else len(capacities)
            capacities += [] if room is None else [together * (pool["capacity"] // step * step)]
            columns[pool["id"]][2].append((room, len(capacities) if timed else None))
            capacities += [math.ceil(together * bound / unit) - 1] if timed else []
    demand(timed or not proof["cuts"])
    cuts = [pool_cut(instance, cut, bound, unit, last) for cut in proof["cuts"]]
    menus, first = [], len(capacities)
    for at, job in enumerate(instance["jobs"]):
        menus.append([] if job["required"] else [(0, [0] * (first + len(cuts)))])
        for name, entry in job["on"].items():
            number, pool, machines = columns[name]
            time = math.floor(Fraction(entry["time_s"]) / unit) if timed else 0
            if (timed and time > last) or (pool["capacity"] is not None and entry["uses"] > pool["capacity"]):
                continue
            gang, worth = entry["gpus"], Fraction(entry["time_s" if goal == "makespan" else goal])
            apart = number in proof["apart"]
            for chosen in combinations(machines, gang) if apart else [machines]:
                held_by = {room: entry["uses"] * (1 if apart else gang) for room, _ in chosen}
                held_by.update({hours: time * (1 if apart else gang) for _, hours in chosen if timed})
                held_by.update({first + k: use(at, name, gang, time) for k, (use, _) in enumerate(cuts)})
                menus[-1].append((worth, [held_by.get(k, 0) for k in range(first + len(cuts))]))
    return menus, capacities + [room for _, room in cuts], 1 if goal == "value" else -1


def freezing(instance, proof, bound, unit):
    gpus, cap, menus = instance["gpus"], instance["penalty_cap_millionths"], []
    cuts = [cut_of(instance, cut) for cut in proof["cuts"]]
    capacities = [*gpus.values(), *([] if cap is None else [cap]), *(room for _, room in cuts)]
    for at, job in enumerate(instance["jobs"]):
        menus.append(
            [] if job["required"] else [(Fraction(instance["queue_penalty"]), [0] * len(capacities))]
        )
        for row in job["menu"]:
            penalties = row["penalty_millionths"] or [0] * len(row["depths"])
            for depth, progress, penalty in zip(
                row["depths"], row["effective_progress"], penalties, strict=True
            ):
                value = worth_of(instance, job, row, depth, progress)
                if value is not None:
                    uses = [row["gpus"] * (name == row["gpu_type"]) for name in gpus]
                    uses += [] if cap is None else [penalty]
                    uses += [use(at, row["gpu_type"], row["gpus"]) for use, _ in cuts]
                    menus[-1].append((Fraction(value), uses))
    return menus, capacities, 1 if instance["power"] > 0 else -1


def worth_of(instance, job, row, depth, progress):
    budget, size, now = job["budget_frozen_s"], instance["gpus_per_node"].get(row["gpu_type"]), job["current"]
    spent = Fraction(depth, job["layers"]) * Fraction(instance["round_s"])
    if (job["max_depth"] is not None and depth > job["max_depth"]) or (budget is not None and spent > budget):
        return None
    if size is not None and row["gpus"] > size and row["gpus"] % size:
        return None
    lived, lost, factor = job["age_s"], job["restart_s"], 1.0
    if now is not None and (now["gpu_type"], now["gpus"]) != (row["gpu_type"], row["gpus"]):
        factor = max(0.0, (lived - job["restarts"] * lost) / (lived + lost)) if lived + lost else 1.0
    elif now is not None and now["depth"] != depth:
        factor = max(0.0, 1.0 - job["rebuild_s"] / instance["round_s"])
    positive = [p for other in job["menu"] for p in other["effective_progress"] if p > 0]
    ratio = factor * progress / (job["reference_progress"] or min(positive, default=1.0))
    if ratio == 0.0:
        return 0.0 if instance["power"] > 0 else None
    return float(job["weight"] * math.pow(ratio, instance["power"]))


def dot(vector, numbers):
    return sum(price * number for price, number in zip(vector, numbers, strict=True))


KINDS = {read.__name__: read for read in (gap_filling, matching, freezing)}
KINDS["multiple_choice_knapsack"] = knapsack
