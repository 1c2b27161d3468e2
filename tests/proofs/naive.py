"""A second checker of proofs, deliberately naive: choice after choice in plain Python, nothing shared.

What jobs may get, what that is worth and what tenants may have is read from the JSON by `tests.hunt`.
"""

import gzip
import hashlib
import json
import math
from fractions import Fraction
from itertools import combinations, permutations, product

from tests.hunt import truth_tenants
from tests.hunt.tenanted import TENANTED


def check(canonical: bytes, proof_bytes: bytes) -> str:
    """Return ``proved``, ``refused`` or ``incomplete`` for canonical JSON and the bytes of a proof."""
    try:
        proof, instance = json.loads(gzip.decompress(proof_bytes)), json.loads(canonical)
        demand(proof["format"] == "apportion-proof" and proof["version"] == 1 + ("rows" in proof))
        demand(proof["instance"] == hashlib.sha256(canonical).hexdigest())
        return (shares if instance.get("divisible") else choices)(instance, proof)
    except (AssertionError, ValueError, KeyError, TypeError, EOFError, OSError):
        return "refused"


def demand(holds):
    assert holds


def choices(instance, proof):
    claim, unit = proof["claim"], Fraction(2) ** -proof["shift"]
    infeasible = claim == {"kind": "infeasible", "bound": None}
    demand(infeasible or (claim["kind"] == "no_better_plan" and math.isfinite(claim["bound"])))
    bound = None if infeasible else Fraction(claim["bound"])
    demand(not proof["cuts"] or instance["kind"] in ("freezing", "matching"))
    demand(not proof["apart"] or instance["kind"] == "matching")
    kind, tenanted = TENANTED[instance["kind"]], "tenants" in instance or "fairness" in instance
    offered = truth_tenants.offers if tenanted else kind.offers
    offers = [offered(instance, job) for job in instance["jobs"]]
    if instance["kind"] == "matching":
        menus, capacities = on_machines(instance, offers, proof, bound, unit)
    else:
        menus, capacities = on_capacities(instance, offers, proof, kind.capacities(instance))
    keeps = (lambda choice: truth_tenants.keeps(instance, choice)) if tenanted else None
    if infeasible or instance.get("objective") == "makespan":
        return walk([[(0, *rest) for _, *rest in menu] for menu in menus], capacities, -1, proof, keeps)
    sign = 1 if kind.maximize(instance) else -1
    whole = [[(math.ceil(sign * worth / unit), *rest) for worth, *rest in menu] for menu in menus]
    return walk(whole, capacities, math.floor(sign * bound / unit), proof, keeps)


def walk(menus, capacities, threshold, proof, keeps):
    """Try choices of (worth, uses, offer); limits of tenants are looked at where all jobs are decided.

    Rows only cut what prices leave: here every choice is tried that prices leave, and rows are passed over.
    """
    width, named = len(capacities), proof["order"]
    demand(all(len(v) == width or (keeps and len(v) > width) for v in proof["prices"]))
    demand(all(type(price) is int and price >= 0 for v in proof["prices"] for price in v))
    demand(len(set(named)) == len(named) and all(type(j) is int and 0 <= j < len(menus) for j in named))
    if not all(menus) or min(capacities, default=0) < 0:
        return "proved"
    vectors = [[0] * width, *(v[:width] for v in proof["prices"])]  # those of limits count as 0
    order = named + [job for job in range(len(menus)) if job not in set(named)]
    at_most = [priced(menus, order, v) for v in vectors]
    demand(all(type(number) is int for row in proof.get("rows", []) for number in row))
    demand(all(len(row) == len(menus) for row in proof.get("rows", [])))
    stack, nodes = [((), 0, capacities)], 0
    while stack and nodes < 300_000:
        (chosen, worth, left), nodes = stack.pop(), nodes + 1
        if worth + min(most(len(chosen), left) for most in at_most) <= threshold:
            continue
        if len(chosen) == len(order):
            if keeps is None or keeps([chosen[order.index(job)] for job in range(len(order))]):
                return "refused"
            continue
        for more, uses, offer in menus[order[len(chosen)]]:
            after = [have - use for have, use in zip(left, uses, strict=True)]
            if min(after, default=0) >= 0:
                stack.append(((*chosen, offer), worth + more, after))
    return "incomplete" if stack else "proved"


def priced(menus, order, vector):
    rest = [0]  # what open jobs are worth at most beyond what they pay, by how many are open
    for job in reversed(order):
        rest.append(rest[-1] + max(worth - dot(vector, uses) for worth, uses, _ in menus[job]))
    return lambda depth, left: dot(vector, left) + rest[len(order) - depth]


def dot(vector, numbers):
    return sum(price * number for price, number in zip(vector, numbers, strict=True))


def on_capacities(instance, offers, proof, rooms):
    cuts, menus = [node_cut(instance, cut) for cut in proof["cuts"]], []
    for at, menu in enumerate(offers):
        further = [[use(at, o) for use, _ in cuts] for o in menu]
        uses = [[o.uses.get(name, 0) for name in rooms] for o in menu]
        menus.append([(o.value, own + more, o) for o, own, more in zip(menu, uses, further, strict=True)])
    return menus, [*rooms.values(), *(room for _, room in cuts)]


def on_machines(instance, offers, proof, bound, unit):
    pools, timed = instance["machines"], instance["objective"] == "makespan" and bound is not None
    demand(all(type(number) is int and 0 <= number < len(pools) for number in proof["apart"]))
    apart, last = {pools[number]["id"] for number in proof["apart"]}, timed and math.ceil(bound / unit) - 1
    capacities, columns = [], {}  # by pool, of every machine the columns of use and of time
    for pool in pools:
        uses = [job["on"][pool["id"]]["uses"] for job in instance["jobs"] if pool["id"] in job["on"]]
        together, step = 1 if pool["id"] in apart else pool["count"], math.gcd(*uses) or 1
        columns[pool["id"]] = []
        for _ in range(pool["count"] // together):
            room = None if pool["capacity"] is None else len(capacities)
            capacities += [] if room is None else [together * (pool["capacity"] // step * step)]
            columns[pool["id"]].append((room, len(capacities) if timed else None))
            capacities += [math.ceil(together * bound / unit) - 1] if timed else []
    demand(timed or not proof["cuts"])
    cuts = [pool_cut(instance, cut, bound, unit, last) for cut in proof["cuts"]]
    first, menus = len(capacities), []
    for at, (job, menu) in enumerate(zip(instance["jobs"], offers, strict=True)):
        menus.append([])
        for o in menu:
            entry = job["on"].get(o.name, {"time_s": 0, "uses": 0, "gpus": 0})  # left out, it holds nothing
            time = math.floor(Fraction(entry["time_s"]) / unit) if timed else 0
            gang, machines = entry["gpus"], columns.get(o.name, [])
            times = 1 if o.name in apart else gang
            for chosen in combinations(machines, gang) if o.name in apart else [machines]:
                taken = {room: entry["uses"] * times for room, _ in chosen}
                taken |= {hours: time * times for _, hours in chosen if timed}
                taken |= {first + k: use(at, o.name, gang, time) for k, (use, _) in enumerate(cuts)}
                if not timed or time <= last:
                    menus[-1].append((o.value, [taken.get(k, 0) for k in range(first + len(cuts))], o))
    return menus, capacities + [room for _, room in cuts]


def fullest(weights, size):
    """Return the most weight of gangs that hold up to so many machines or GPUs together, by how many."""
    demand(len(weights) == size + 1 and all(type(w) is int and 0 <= w <= 10**9 for w in weights))
    most = [0]
    for room in range(1, size + 1):
        most.append(max(most[-1], *(weights[gang] + most[room - gang] for gang in range(1, room + 1))))
    return most


def pool_cut(instance, cut, bound, unit, last):
    pool, jobs = instance["machines"][cut["pool"]], instance["jobs"]
    demand(type(cut["pool"]) is int and cut["pool"] >= 0 and len(cut) == 2)
    if "weights" in cut:
        weights = [0, *cut["weights"]]
        most = fullest(weights, pool["count"])[-1]
        room = math.ceil(most * bound / unit) - 1 if most else 0
        return lambda job, name, gang, time: time * weights[gang] if name == pool["id"] else 0, room
    excluded = cut["excluded"]
    demand(excluded and all(type(job) is int and 0 <= job < len(jobs) for job in excluded))
    for order in permutations(excluded):
        free, start = [0] * pool["count"], 0
        for entry in (jobs[job]["on"][pool["id"]] for job in order):
            start = max(start, free[entry["gpus"] - 1])
            end = start + math.floor(Fraction(entry["time_s"]) / unit)
            free = sorted(free[entry["gpus"] :] + [end] * entry["gpus"])
        demand(free[-1] > last)
    return lambda job, name, gang, time: int(name == pool["id"] and job in excluded), len(excluded) - 1


def node_cut(instance, cut):
    kind, size = cut["gpu_type"], instance["gpus_per_node"][cut["gpu_type"]]
    rooms = [size] * (instance["gpus"][kind] // size) + [instance["gpus"][kind] % size]
    if "node_weights" in cut:
        weights = [0, *cut["node_weights"]]
        most = fullest(weights, size)
        weigh = {g: weights[g] if g < size else g // size * most[size] for g in range(1, 10**4)}
        room = sum(most[one] for one in rooms)
        return lambda job, o: weigh[o.uses[kind]] if o.uses.get(kind) else 0, room
    least = {int(job): gpus for job, gpus in cut["excluded"].items()}
    demand(least and all(g > 0 and (g <= size or g % size == 0) for g in least.values()))
    pieces = [min(gpus, size) for gpus in least.values() for _ in range(max(1, gpus // size))]
    demand(len(rooms) ** len(pieces) < 10**6)
    for places in product(range(len(rooms)), repeat=len(pieces)):
        on = [sum(p for p, at in zip(pieces, places, strict=True) if at == k) for k in range(len(rooms))]
        demand(any(have > room for have, room in zip(on, rooms, strict=True)))
    return lambda job, o: int(job in least and o.uses.get(kind, 0) >= least[job]), len(least) - 1


def shares(instance, proof):
    claimed, counts = proof["claim"]["bound"], {pool["id"]: pool["count"] for pool in instance["machines"]}
    demand(not (proof["order"] or proof["apart"] or proof["cuts"] or proof["shift"] or "rows" in proof))
    rows = [[(i, Fraction(e["time_s"]), e["gpus"]) for i, e in job["on"].items()] for job in instance["jobs"]]
    if claimed is None or not all(rows):
        return "refused" if all(rows) else "proved"
    shown = Fraction(claimed) <= max((min(time for _, time, _ in row) for row in rows), default=0)
    for vector in proof["prices"]:
        demand(len(vector) == len(counts) + len(rows) and all(type(p) is int and p >= 0 for p in vector))
        price, own, work = dict(zip(counts, vector, strict=False)), vector[len(counts) :], 0
        for a, row in zip(own, rows, strict=True):
            work += min(t * (a + price[i] * Fraction(g, counts[i])) for i, t, g in row)
        shown |= sum(vector) > 0 and work >= Fraction(claimed) * sum(vector)
    return "proved" if shown else "refused"
