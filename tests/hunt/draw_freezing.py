"""Hostile layer-freezing rounds: powers, penalties, budgets, restarts, nodes that GPUs must lie on."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["instance"]


def instance(rng: Random, wants: str | None = None) -> dict[str, Any]:
    """Draw an instance."""
    types = [
        f"g{k}"
        for k in range(rng.choice((1,) if wants == "one" else (2, 3) if wants == "several" else (1, 1, 2, 3)))
    ]
    gpus = {name: rng.choice((0, 1, 2, 4, 6, 8)) for name in types}
    if rng.random() < 0.05:
        gpus[types[0]] = 10**18
    told: dict[str, Any] = {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": gpus,
        "round_s": rng.choice((60.0, 0.7, 1e-3, 1e6)),
        "power": rng.choice((-0.5, -0.5, 1.0, -4.0, 4.0, 0.3, 1e-3, -1e-9)),
        "queue_penalty": rng.choice((1.1, -1.5, 0.0, 1e18, -1e18, 1e-30, 1e6)),
    }
    if rng.random() < (0.9 if wants == "nodes" else 0.0 if wants == "one" else 0.4):
        sized = [name for name in types if gpus[name] < 100 and rng.random() < 0.8]
        told["gpus_per_node"] = {name: rng.choice((1, 2, 3, 4, 5)) for name in sized}
    if rng.random() < 0.3 and wants != "one":
        told["penalty_cap_millionths"] = rng.choice((0, 1000, 10**5, 10**6, 2 * 10**6))
    scale = 10.0 ** rng.choice((0, 0, 0, 3, -6))
    jobs = []
    for j in range(rng.randint(0, 4)):
        jobs.append(_job(rng, f"j{j}", types, scale))
    told["jobs"] = jobs
    return told


def _job(rng: Random, name: str, types: list[str], scale: float) -> dict[str, Any]:
    layers = rng.randint(1, 6)
    near = rng.random() < 0.3
    places = [(kind, count) for kind in types for count in (1, 2, 3, 4, 6, 8)]
    menu = []
    for kind, count in rng.sample(places, rng.randint(0, min(3, len(places)))):
        depths = sorted(rng.sample(range(layers + 1), rng.randint(1, min(3, layers + 1))))
        base = rng.random() * 10 + 0.1
        progress = [
            scale * (base * (1 + rng.randint(-2, 2) * 1e-9) if near else rng.random() * 10 + 1e-3)
            for _ in depths
        ]
        if rng.random() < 0.1:
            progress[0] = 0.0
        row: dict[str, Any] = {
            "gpu_type": kind,
            "gpus": count,
            "depths": depths,
            "effective_progress": progress,
        }
        if rng.random() < 0.5:
            row["penalty_millionths"] = [rng.choice((0, 7, 1000, 10**5, 10**6)) for _ in depths]
        menu.append(row)
    job: dict[str, Any] = {
        "id": name,
        "layers": layers,
        "menu": menu,
        "weight": rng.choice((1.0, 1.0, 0.0, 0.5, 1e-12, 1e9)),
        "required": rng.random() < 0.25,
    }
    if rng.random() < 0.4:
        kind, count = rng.choice(places)
        if menu and rng.random() < 0.7:
            kind, count = menu[0]["gpu_type"], menu[0]["gpus"]
        job["current"] = {"gpu_type": kind, "gpus": count, "depth": rng.randint(0, layers)}
        job["age_s"] = rng.choice((0.0, 30.0, 1e5))
        job["restarts"] = rng.randint(0, 3)
        job["restart_s"] = rng.choice((0.0, 20.0, 30.0, 60.0))
        job["rebuild_s"] = rng.choice((0.0, 10.0, 70.0))
    if rng.random() < 0.2:
        job["budget_frozen_s"] = rng.choice((0.0, 20.0, 60.0))
    if rng.random() < 0.15:
        job["reference_progress"] = scale * rng.choice((0.5, 1.0, 7.0))
    if rng.random() < 0.2:
        job["max_depth"] = rng.randint(0, layers)
    return job
