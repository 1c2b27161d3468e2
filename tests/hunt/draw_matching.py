"""Hostile matchings: costs, values and makespans, pools and gangs, capacities, forbidden pairs, shares."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.hunt import numbers

__all__ = ["arrays", "instance"]


def _goal(rng: Random, wants: str | None) -> str:
    goals = {"makespan": ("makespan",), "sum": ("cost", "value")}
    return rng.choice(goals.get(wants or "", ("cost", "value", "makespan")))


def instance(rng: Random, wants: str | None = None) -> dict[str, Any]:
    """Draw an instance."""
    objective = _goal(rng, wants)
    divisible = wants is None and objective == "makespan" and rng.random() < 0.25
    field = {"makespan": "time_s"}.get(objective, objective)
    gangs = rng.random() < 0.25
    limits = not divisible and rng.random() < 0.6
    value = numbers.amounts(rng) if objective == "makespan" else numbers.values(rng)
    largest = rng.choice((9, 9, 9, 10**12))
    use = numbers.uses(rng, max(largest, 100)) if largest > 9 else (lambda: rng.randint(0, 9))
    alike, wide = rng.random() < 0.25, rng.random() < 0.08
    machines: list[dict[str, Any]] = []
    for k in range(rng.randint(1, 3)):
        machine: dict[str, Any] = {"id": f"m{k}", "count": rng.choice((1, 1, 1, 2, 3))}
        if wide and not divisible:
            machine["count"] = rng.choice((50_000, 10**9)) if objective != "makespan" else 4
        machines.append(machine)
    jobs: list[dict[str, Any]] = []
    one = use()
    for j in range(rng.randint(0, 4 if gangs else 5)):
        on = {}
        for machine in machines:
            if rng.random() < 0.2:
                continue
            told = value()
            if divisible and told == 0:
                told = 1.0
            entry: dict[str, Any] = {field: told, "uses": one if alike else use()}
            if gangs and rng.random() < 0.5:
                entry["gpus"] = rng.randint(1, min(machine["count"], 3))
            on[machine["id"]] = entry
        must = objective == "makespan" or rng.random() < 0.6
        jobs.append({"id": f"j{j}", "required": must, "on": on})
    if limits:
        for machine in machines:
            if rng.random() < 0.75:
                taken = [[job["on"][machine["id"]]["uses"]] for job in jobs if machine["id"] in job["on"]]
                few = (
                    rng.sample(taken, (len(taken) + machine["count"] - 1) // machine["count"])
                    if taken
                    else []
                )
                machine["capacity"] = numbers.capacity_near(rng, few, 10**18)
    return {
        "kind": "matching",
        "schema_version": "1",
        "objective": objective,
        "machines": machines,
        "jobs": jobs,
        "divisible": divisible,
    }


def arrays(rng: Random, wants: str | None = None) -> dict[str, Any]:
    """Draw arguments of ``Assignment.from_arrays``."""
    goal = _goal(rng, wants)
    machines, jobs = rng.randint(1, 4), rng.randint(0, 5)
    value = numbers.amounts(rng) if goal == "makespan" else numbers.values(rng)
    use = numbers.uses(rng, rng.choice((1000, 10**12, 2**62 // max(jobs, 1) - 1024)))
    offsets, machine = [0], []
    for _ in range(jobs):
        named = [k for k in range(machines) if rng.random() < 0.8]
        machine += named
        offsets.append(len(machine))
    uses = [use() for _ in machine]
    capacities = None
    if rng.random() < 0.7:
        capacities = [
            numbers.capacity_near(rng, [[u] for u, m in zip(uses, machine, strict=True) if m == k], 2**62 - 1)
            for k in range(machines)
        ]
    must = rng.choice((0.3, 1.0))
    return {
        "goal": goal,
        "values": [value() for _ in machine],
        "machine": machine,
        "offsets": offsets,
        "machines": machines,
        "uses": uses,
        "capacities": capacities,
        "required": [rng.random() < must for _ in range(jobs)],
    }
