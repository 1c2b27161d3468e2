"""Hostile gap-filling instances: odd curves, lost nodes, pins, rescale costs that eat the gain."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.hunt import numbers

__all__ = ["instance"]


def instance(rng: Random, wants: str | None = None) -> dict[str, Any]:
    """Draw an instance; any one has one capacity."""
    names = [f"n{k}" for k in range(rng.choice((0, 1, 3, 6, 9, 13)))]
    free = rng.sample(names, len(names))
    rate, weight, seconds = numbers.amounts(rng), numbers.amounts(rng), numbers.amounts(rng)
    plain, pins, alike = rng.random() < 0.6, rng.random() < 0.3, rng.random() < 0.2
    jobs: list[dict[str, Any]] = []
    for j in range(rng.randint(0, 5)):
        low = rng.randint(1, 4)
        high = rng.choice((low, low + rng.randint(0, 9), 10**9 if rng.random() < 0.05 else low + 2))
        inner = rng.sample(range(1, min(high, 60)), min(rng.randint(0, 4), max(0, min(high, 60) - 1)))
        points = [0, *sorted(inner), high]
        curve = {"nodes": points, "rate": [0.0, *(rate() for _ in points[1:])]}
        if alike and jobs and jobs[0]["max_nodes"] == high:
            curve = jobs[0]["scaling"]
        most = high if rng.random() < 0.9 else high + 2  # a maximum that was lowered since
        held = [free.pop() for _ in range(min(len(free), rng.choice((0, 0, 1, 2, low, high + 1)), most))]
        job: dict[str, Any] = {
            "id": f"j{j}",
            "min_nodes": low,
            "max_nodes": high,
            "scaling": curve,
            "current_nodes": held,
            "rescale_up_s": seconds() if rng.random() < 0.5 else float(rng.randint(0, 40)),
            "rescale_down_s": seconds() if rng.random() < 0.5 else float(rng.randint(0, 40)),
            "weight": rng.choice((1.0, 1.0, 0.5, 0.0)) if plain else weight(),
        }
        if pins and rng.random() < 0.4:
            job["pinned_count"] = rng.choice((0, low, min(high, low + 1)))
        if pins and rng.random() < 0.4:
            job["forbidden_counts"] = rng.sample(range(14), rng.randint(1, 6))
        if rng.random() < 0.1:
            some = range(low, min(high, low + 12) + 1)
            job["allowed_counts"] = sorted(rng.sample(some, rng.randint(1, min(4, len(some)))))
        jobs.append(job)
    horizon = rng.choice((60.0, 1.0, 0.1, 86400.0)) if plain else max(seconds(), 1e-30)
    return {
        "kind": "gap_filling",
        "schema_version": "1",
        "horizon_s": horizon,
        "nodes": names,
        "jobs": jobs,
    }
