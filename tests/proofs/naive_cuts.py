"""What the naive checker knows of cuts and of shares of machines, by trying everything."""

import math
from fractions import Fraction
from itertools import permutations, product


def pool_cut(instance, cut, bound, unit, last):
    pool, jobs = instance["machines"][cut["pool"]], instance["jobs"]
    demand(type(cut["pool"]) is int and cut["pool"] >= 0 and len(cut) == 2)
    if "weights" in cut:
        weights, most = [0, *cut["weights"]], [0]
        demand(len(weights) == pool["count"] + 1 and all(type(w) is int and w >= 0 for w in weights))
        for room in range(1, len(weights)):
            most.append(max(weights[gang] + most[room - gang] for gang in range(1, room + 1)))
        room = math.ceil(most[-1] * bound / unit) - 1 if most[-1] else 0
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


def shares(instance, proof):
    claimed, counts = proof["claim"]["bound"], {pool["id"]: pool["count"] for pool in instance["machines"]}
    demand(not (proof["order"] or proof["apart"] or proof["cuts"] or proof["shift"]))
    rows = [[(i, Fraction(e["time_s"]), e["gpus"]) for i, e in job["on"].items()] for job in instance["jobs"]]
    if claimed is None or not all(rows):
        return "refused" if all(rows) else "proved"
    shown = Fraction(claimed) <= max((min(time for _, time, _ in row) for row in rows), default=0)
    for vector in proof["prices"]:
        demand(len(vector) == len(counts) + len(rows) and all(type(p) is int and p >= 0 for p in vector))
        price, own = dict(zip(counts, vector, strict=False)), vector[len(counts) :]
        costs = [
            [t * (a + price[i] * Fraction(g, counts[i])) for i, t, g in row]
            for a, row in zip(own, rows, strict=True)
        ]
        shown |= sum(vector) > 0 and sum(map(min, costs)) >= Fraction(claimed) * sum(vector)
    return "proved" if shown else "refused"


def cut_of(instance, cut):
    kind, size = cut["gpu_type"], instance["gpus_per_node"][cut["gpu_type"]]
    rooms = [size] * (instance["gpus"][kind] // size) + [instance["gpus"][kind] % size]
    if "node_weights" in cut:
        weights, most = [0, *cut["node_weights"]], [0]
        demand(len(weights) == size + 1 and all(type(w) is int and 0 <= w <= 10**9 for w in weights))
        for room in range(1, size + 1):
            most.append(max(most[-1], *(weights[g] + most[room - g] for g in range(1, room + 1))))
        weigh = {g: weights[g] if g < size else g // size * most[size] for g in range(1, 10**4)}
        return lambda job, name, gpus: (name == kind) * weigh[gpus], sum(most[room] for room in rooms)
    least = {int(job): gpus for job, gpus in cut["excluded"].items()}
    demand(least and all(g > 0 and (g <= size or g % size == 0) for g in least.values()))
    pieces = [min(gpus, size) for gpus in least.values() for _ in range(max(1, gpus // size))]
    demand(len(rooms) ** len(pieces) < 10**6)
    for places in product(range(len(rooms)), repeat=len(pieces)):
        on = [sum(p for p, at in zip(pieces, places, strict=True) if at == k) for k in range(len(rooms))]
        demand(any(have > room for have, room in zip(on, rooms, strict=True)))
    return lambda job, name, gpus: int(name == kind and job in least and gpus >= least[job]), len(least) - 1


def demand(holds):
    assert holds
