"""A second checker of proofs, deliberately naive: choice after choice in plain Python, nothing shared.

What jobs may get, what that is worth and what tenants may have is read from the JSON by `tests.hunt`.
"""

import gzip
import hashlib
import json
import math
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product

from tests.hunt import truth_tenants
from tests.hunt.tenanted import TENANTED


def check(canonical: bytes, proof_bytes: bytes) -> str:
    """Return ``proved``, ``refused`` or ``incomplete`` for canonical JSON and the bytes of a proof."""
    try:
        proof, instance = json.loads(gzip.decompress(proof_bytes)), json.loads(canonical)
        each = [4 if "thresholds" in cut else 3 if "capacity" in cut else 1 for cut in proof["cuts"]]
        assert proof["format"] == "apportion-proof" and proof["version"] == max(
            [1 + ("rows" in proof), *each]
        )
        assert proof["instance"] == hashlib.sha256(canonical).hexdigest()
        return (shares if instance.get("divisible") else choices)(instance, proof)
    except (AssertionError, ValueError, KeyError, TypeError, EOFError, OSError):
        return "refused"


def choices(instance, proof):
    claim, unit = proof["claim"], Fraction(2) ** -proof["shift"]
    infeasible = claim == {"kind": "infeasible", "bound": None}
    assert infeasible or (claim["kind"] == "no_better_plan" and math.isfinite(claim["bound"]))
    bound = None if infeasible else Fraction(claim["bound"])
    divided = instance["kind"] != "matching" and all("capacity" in cut for cut in proof["cuts"])
    assert divided or instance["kind"] in ("freezing", "matching")
    assert not proof["apart"] or instance["kind"] == "matching"
    kind, tenanted = TENANTED[instance["kind"]], "tenants" in instance or "fairness" in instance
    offers = [(truth_tenants if tenanted else kind).offers(instance, job) for job in instance["jobs"]]
    stated = on_machines if instance["kind"] == "matching" else on_capacities
    menus, capacities = stated(instance, offers, proof, bound, unit)
    keeps = (lambda choice: truth_tenants.keeps(instance, choice)) if tenanted else None
    if infeasible or instance.get("objective") == "makespan":
        return walk([[(0, *rest) for _, *rest in menu] for menu in menus], capacities, -1, proof, keeps)
    sign = 1 if kind.maximize(instance) else -1
    whole = [[(math.ceil(sign * worth / unit), *rest) for worth, *rest in menu] for menu in menus]
    return walk(whole, capacities, math.floor(sign * bound / unit), proof, keeps)


def walk(menus, capacities, threshold, proof, keeps):
    """Try choices of (worth, uses, offer); limits of tenants are looked at where all jobs are decided."""
    width, named = len(capacities), proof["order"]
    assert all(len(v) == width or (keeps and len(v) > width) for v in proof["prices"])
    assert all(type(price) is int and price >= 0 for v in proof["prices"] for price in v)
    assert len(set(named)) == len(named) and all(type(j) is int and 0 <= j < len(menus) for j in named)
    rows = proof.get("rows", [])
    assert all(len(row) == len(menus) and all(type(number) is int for number in row) for row in rows)
    if not all(menus) or min(capacities, default=0) < 0:
        return "proved"
    order = named + [job for job in range(len(menus)) if job not in set(named)]
    vectors = [[0] * width, *(v[:width] for v in proof["prices"])]  # those of limits count as 0
    at_most = [*(priced(menus, order, v) for v in vectors), *(relaxed(menus, order, row) for row in rows)]
    stack, nodes = [(0, (), 0, capacities)], 0
    while stack and nodes < 300_000:
        (turn, chosen, worth, left), nodes = stack.pop(), nodes + 1
        if worth + min(most(turn, left) for most in at_most) <= threshold:
            continue
        if turn == len(order) and (not keeps or keeps([chosen[order.index(j)] for j in sorted(order)])):
            return "refused"
        for more, uses, offer in menus[order[turn]] if turn < len(order) else ():
            after = [have - use for have, use in zip(left, uses, strict=True)]
            if min(after, default=0) >= 0:
                stack.append((turn + 1, (*chosen, offer), worth + more, after))
    return "incomplete" if stack else "proved"


def priced(menus, order, vector):
    rest = [0]  # what open jobs are worth at most beyond what they pay, by how many are open
    for job in reversed(order):
        rest.append(rest[-1] + max(worth - dot(vector, uses) for worth, uses, _ in menus[job]))
    return lambda depth, left: dot(vector, left) + rest[len(order) - depth]


def relaxed(menus, order, row):
    @cache
    def most(k, turn, room):  # of options that use k first (the last: none), one a job, beyond its number
        if turn == len(order):
            return 0
        own = [(worth - row[order[turn]], [*uses, 1]) for worth, uses, _ in menus[order[turn]]]
        fits = [w + most(k, turn + 1, room - u[k]) for w, u in own if 0 < u[k] <= room and not any(u[:k])]
        return max([most(k, turn + 1, room), *fits])

    numbers = [sum(row[job] for job in order[turn:]) for turn in range(len(order) + 1)]
    return lambda turn, left: numbers[turn] + sum(most(k, turn, c) for k, c in enumerate([*left, len(order)]))


def dot(vector, numbers):
    return sum(price * number for price, number in zip(vector, numbers, strict=True))


def on_capacities(instance, offers, proof, bound, unit):
    rooms, menus = TENANTED[instance["kind"]].capacities(instance), []
    of = {True: lambda cut: capacity_cut(rooms, offers, cut), False: lambda cut: node_cut(instance, cut)}
    cuts = [of["capacity" in cut](cut) for cut in proof["cuts"]]
    for at, menu in enumerate(offers):
        uses = [[*(o.uses.get(k, 0) for k in rooms), *(use(at, o) for use, _ in cuts)] for o in menu]
        menus.append([(o.value, own, o) for o, own in zip(menu, uses, strict=True)])
    return menus, [*rooms.values(), *(room for _, room in cuts)]


def on_machines(instance, offers, proof, bound, unit):
    pools, timed = instance["machines"], instance["objective"] == "makespan" and bound is not None
    assert all(type(number) is int and 0 <= number < len(pools) for number in proof["apart"])
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
    assert timed or not proof["cuts"]
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
    assert len(weights) == size + 1 and all(type(w) is int and 0 <= w <= 10**9 for w in weights)
    most = [0]
    for room in range(1, size + 1):
        most.append(max(most[-1], *(weights[gang] + most[room - gang] for gang in range(1, room + 1))))
    return most


def pool_cut(instance, cut, bound, unit, last):
    pool, jobs = instance["machines"][cut["pool"]], instance["jobs"]
    assert type(cut["pool"]) is int and cut["pool"] >= 0 and len(cut) == 2
    if "weights" in cut:
        weights = [0, *cut["weights"]]
        most = fullest(weights, pool["count"])[-1]
        room = math.ceil(most * bound / unit) - 1 if most else 0
        return lambda job, name, gang, time: time * weights[gang] if name == pool["id"] else 0, room
    excluded = cut["excluded"]
    assert excluded and all(type(job) is int and 0 <= job < len(jobs) for job in excluded)
    for order in permutations(excluded):
        free, start = [0] * pool["count"], 0
        for entry in (jobs[job]["on"][pool["id"]] for job in order):
            start = max(start, free[entry["gpus"] - 1])
            end = start + math.floor(Fraction(entry["time_s"]) / unit)
            free = sorted(free[entry["gpus"] :] + [end] * entry["gpus"])
        assert free[-1] > last
    return lambda job, name, gang, time: int(name == pool["id"] and job in excluded), len(excluded) - 1


def capacity_cut(rooms, offers, cut):
    number, names = cut["capacity"], list(rooms)
    assert type(number) is int and number >= 0
    if number >= len(names):  # a limit of tenants, which is looked at where all jobs are decided
        return lambda job, o: 0, 0
    name, sums = names[number], {0}
    if "thresholds" in cut:
        least = [cut["thresholds"].get(str(job), cut["others"]) for job in range(len(offers))]
        assert set(cut["thresholds"]) <= {str(job) for job in range(len(offers))} and len(cut) == 3
        assert all(type(one) is int and 0 < one < 1 << 62 for one in [cut["others"], *least])
        fit = [many for many in range(len(least) + 1) if sum(sorted(least)[:many]) <= rooms[name]]
        return lambda job, o: int(o.uses.get(name, 0) >= least[job]), max(fit)
    over = cut["divisor"]
    assert type(over) is int and over > 0 and len(cut) == 2
    for menu in offers:
        sums |= {s + u for s in sums for o in menu if s + (u := o.uses.get(name, 0)) <= rooms[name]}
    return lambda job, o: o.uses.get(name, 0) // over, max(sums) // over


def node_cut(instance, cut):
    kind, size = cut["gpu_type"], instance["gpus_per_node"][cut["gpu_type"]]
    rooms = [size] * (instance["gpus"][kind] // size) + [instance["gpus"][kind] % size]
    if "node_weights" in cut:
        weights = [0, *cut["node_weights"]]
        most = fullest(weights, size)
        weigh = {g: weights[g] if g < size else g // size * most[size] for g in range(1, 10**4)}
        return lambda job, o: weigh.get(o.uses.get(kind), 0), sum(most[one] for one in rooms)
    least = {int(job): gpus for job, gpus in cut["excluded"].items()}
    assert least and all(g > 0 and (g <= size or g % size == 0) for g in least.values())
    pieces = [min(gpus, size) for gpus in least.values() for _ in range(max(1, gpus // size))]
    assert len(rooms) ** len(pieces) < 10**6
    for held in product(*([(at, piece) for at in range(len(rooms))] for piece in pieces)):
        assert any(sum(p for at, p in held if at == k) > room for k, room in enumerate(rooms))
    return lambda job, o: int(job in least and o.uses.get(kind, 0) >= least[job]), len(least) - 1


def shares(instance, proof):
    claimed, counts = proof["claim"]["bound"], {pool["id"]: pool["count"] for pool in instance["machines"]}
    assert not (proof["order"] or proof["apart"] or proof["cuts"] or proof["shift"] or "rows" in proof)
    rows = [[(i, Fraction(e["time_s"]), e["gpus"]) for i, e in job["on"].items()] for job in instance["jobs"]]
    if claimed is None or not all(rows):
        return "refused" if all(rows) else "proved"
    shown = Fraction(claimed) <= max((min(time for _, time, _ in row) for row in rows), default=0)
    for vector in proof["prices"]:
        assert len(vector) == len(counts) + len(rows) and all(type(p) is int and p >= 0 for p in vector)
        price = dict(zip(counts, vector, strict=False))
        own = zip(vector[len(counts) :], rows, strict=True)
        work = sum(min(t * (a + price[i] * Fraction(g, counts[i])) for i, t, g in row) for a, row in own)
        shown |= sum(vector) > 0 and work >= Fraction(claimed) * sum(vector)
    return "proved" if shown else "refused"
