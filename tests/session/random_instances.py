"""Seeded random instances of every sort, a few dozen options each, for long differential runs."""

from __future__ import annotations

import random
from typing import Any

import apportion
from apportion.core.errors import InvalidInstance
from apportion.instances.kinds import Instance
from tests.hunt import draw_placement, draw_tenants

__all__ = ["SORTS", "random_instance"]


def random_instance(sort: str, rng: random.Random) -> Instance:
    """Return a random instance of one of `SORTS`; those of tenants are of any kind."""
    while True:
        try:
            return apportion.read({"schema_version": "1", "kind": sort, **_BODIES[sort](rng)})
        except InvalidInstance:  # the hunt's tenants may be guaranteed more than there is
            assert "tenants" in sort


def _gap_filling(rng: random.Random) -> dict[str, Any]:
    nodes = [f"n{i}" for i in range(rng.randint(0, 30))]
    free = rng.sample(nodes, len(nodes))
    jobs = []
    for number in range(rng.randint(1, 8)):
        low = rng.randint(1, 4)
        high = rng.randint(low, 16)
        points = sorted({0, *rng.sample(range(1, high + 1), min(3, high)), high})
        held = [free.pop() for _ in range(rng.randint(0, min(high, len(free))))]
        job = {
            "id": f"j{number}",
            "min_nodes": low,
            "max_nodes": high,
            "scaling": {"nodes": points, "rate": [0, *(rng.randint(0, 900) / 4 for _ in points[1:])]},
            "rescale_up_s": rng.randint(0, 40),
            "rescale_down_s": rng.randint(0, 40),
            "current_nodes": held,
            "weight": rng.choice([0.5, 1, 2]),
        }
        if rng.random() < 0.2:
            job["forbidden_counts"] = [rng.randint(low, high)]
        if rng.random() < 0.1:
            job["allowed_counts"] = [rng.randint(low, high)]
        jobs.append(job)
    return {"horizon_s": rng.choice([10, 120.0]), "nodes": nodes, "jobs": jobs}


def _knapsack(rng: random.Random) -> dict[str, Any]:
    capacities = {f"pool{k}": rng.randint(0, 60) for k in range(rng.randint(1, 3))}
    jobs = []
    for number in range(rng.randint(1, 10)):
        options = [
            {
                "id": f"o{i}",
                "value": rng.randint(-20, 400) / 4,
                "uses": {name: rng.randint(0, 12) for name in capacities if rng.random() < 0.8},
            }
            for i in range(rng.randint(1, 5))
        ]
        job: dict[str, Any] = {"id": f"j{number}", "options": options, "required": rng.random() < 0.3}
        if rng.random() < 0.3:
            job["current"] = rng.choice(options)["id"]
        if rng.random() < 0.1:
            job["pinned"] = rng.choice(options)["id"]
        jobs.append(job)
    return {"sense": rng.choice(["maximize", "minimize"]), "capacities": capacities, "jobs": jobs}


def _freezing(rng: random.Random) -> dict[str, Any]:
    gpus = {f"g{i}": rng.randint(0, 12) for i in range(rng.randint(1, 2))}
    jobs = []
    for number in range(rng.randint(1, 5)):
        layers = rng.randint(1, 8)
        places = [(name, count) for name in gpus for count in (1, 2, 4)]
        menu = []
        for name, count in rng.sample(places, rng.randint(0, len(places))):
            depths = sorted(rng.sample(range(layers + 1), rng.randint(1, min(3, layers + 1))))
            progress = [rng.randint(1, 60) / 4 for _ in depths]
            menu.append({"gpu_type": name, "gpus": count, "depths": depths, "effective_progress": progress})
        jobs.append(
            {
                "id": f"j{number}",
                "layers": layers,
                "menu": menu,
                "age_s": rng.randint(0, 300),
                "restart_s": rng.randint(0, 60),
                "rebuild_s": rng.randint(0, 30),
                "weight": rng.choice([0.5, 1, 3]),
            }
        )
    body: dict[str, Any] = {"gpus": gpus, "round_s": 60, "jobs": jobs, "power": rng.choice([-0.5, 0.5])}
    if rng.random() < 0.3:
        body["gpus_per_node"] = dict.fromkeys(gpus, 4)
    return body


def _matching(rng: random.Random) -> dict[str, Any]:
    objective = rng.choice(["makespan", "cost", "value"])
    field = {"makespan": "time_s"}.get(objective, objective)
    timed = objective == "makespan"
    machines = [
        {"id": f"m{i}", "count": rng.randint(1, 3), "capacity": None if timed else rng.randint(1, 8)}
        for i in range(rng.randint(1, 3))
    ]
    jobs = [
        {
            "id": f"j{number}",
            "on": {
                machine["id"]: {field: rng.randint(0, 48) / 4, "uses": rng.randint(0, 3)}
                for machine in machines
                if rng.random() < 0.8
            },
            "required": timed or rng.random() < 0.5,
        }
        for number in range(rng.randint(1, 6))
    ]
    return {"objective": objective, "machines": machines, "jobs": jobs}


_BODIES = {
    "gap_filling": _gap_filling,
    "multiple_choice_knapsack": _knapsack,
    "freezing": _freezing,
    "matching": _matching,
    "placement": draw_placement.instance,
    "tenants": draw_tenants.instance,
    "placement of tenants": draw_tenants.placement_of_tenants,
}
SORTS = tuple(_BODIES)
