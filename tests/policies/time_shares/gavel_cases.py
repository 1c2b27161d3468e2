"""The inputs of Gavel's own tests, as data, turned into problems over shares of time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from apportion.cluster.policies.rounds.shares_problem import SharesProblem
from apportion.cluster.policies.rounds.shares_programme import Entity

TYPES = ("k80", "p100", "v100")


def generated(problem: int, hierarchical: bool) -> tuple[SharesProblem, dict[str, Any]]:
    """Return one of the seeded problems with weights, entities and the entity of every job."""
    stream = random.Random(0)
    for _ in range(problem + 1):
        entities = []
        if hierarchical:
            for _ in range(10):
                rule = "fairness" if stream.randint(0, 1) else "fifo"
                entities.append(Entity(stream.randint(1, 5), rule))
        rows, scales, groups, weights = [], [], [], []
        for _ in range(300):
            rows.append(sorted(stream.random() for _ in range(3)))
            scales.append(2 ** stream.randint(0, 2))
            if hierarchical:
                groups.append(stream.randint(0, 9))
            weight = stream.randint(1, 5)
            weights.append(1 if hierarchical and entities[groups[-1]].rule == "fifo" else weight)
    data = SharesProblem(np.array(rows), np.array(scales, dtype=np.float64), np.full(3, 64.0))
    return data, {"weights": np.array(weights, dtype=np.float64), "entities": entities, "entity_of": groups}


def small(case: dict[str, Any], scales: dict[str, int], workers: dict[str, int]) -> SharesProblem:
    """Return the problem of a small input; jobs in the order of their names."""
    types = list(workers)
    alone = sorted(name for name in case["throughputs"] if "+" not in name)
    together = sorted(name for name in case["throughputs"] if "+" in name)
    number = {name: place for place, name in enumerate(alone)}
    speed = np.array(
        [[case["throughputs"][name][kind] for kind in types] for name in alone], dtype=np.float64
    )
    given = (
        speed,
        np.array([scales[name] for name in alone], dtype=np.float64),
        np.array([workers[kind] for kind in types], dtype=np.float64),
    )
    if not together:
        return SharesProblem(*given)
    pairs = np.array([[number[name] for name in pair.split("+")] for pair in together], dtype=np.int64)
    rates = np.array([[case["throughputs"][pair][kind] for kind in types] for pair in together])
    return SharesProblem(*given, pairs, rates.transpose(0, 2, 1).astype(np.float64))


def vector(case: dict[str, Any], field: str, missing: float) -> np.ndarray:
    alone = sorted(name for name in case["throughputs"] if "+" not in name)
    given = case.get(field) or {}
    return np.array([given.get(name, missing) for name in alone], dtype=np.float64)
