"""Hostile multiple-choice knapsacks, as JSON and as arrays."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.hunt import numbers

__all__ = ["arrays", "instance"]

_MOST_CHOICES = 3000
_LARGEST_USE, _LARGEST_CAPACITY = 10**12, 10**18
_LARGEST_TOTAL = 2**62
_SHARE_HARD = 0.35


def _sizes(rng: Random) -> list[int]:
    """Return the length of every menu, such that all choices can be tried."""
    jobs, widest = rng.choice(((1, 6), (2, 8), (3, 6), (4, 5), (5, 4), (6, 3), (8, 2), (10, 1), (0, 0)))
    sizes = [rng.randint(1 if widest == 1 else 0, widest) for _ in range(jobs)]
    total = 1
    for k, size in enumerate(sizes):
        total *= size + 1
        if total > _MOST_CHOICES:
            return sizes[:k]
    return sizes


def _menus(
    rng: Random, sizes: list[int], capacities: int, largest: int
) -> tuple[list[list[float]], list[list[list[int]]]]:
    """Return the values and the uses of all options, by job."""
    value = numbers.values(rng)
    laws = [numbers.uses(rng, largest) for _ in range(capacities)]
    relation = rng.choice(("none", "none", "none", "correlated", "subset_sum", "duplicates", "dominated"))
    slope, jitter = rng.random() + 0.1, rng.choice((0.0, 1e-9, 0.1))
    worths, takes = [], []
    for size in sizes:
        use = [[law() for law in laws] for _ in range(size)]
        if relation in ("correlated", "subset_sum") and capacities:
            scale = 1.0 if relation == "subset_sum" else slope
            worth = [sum(u) * scale * (1 + jitter * rng.random()) for u in use]
            worth = [w if w < 1e18 else 1e18 for w in worth]
        else:
            worth = [value() for _ in range(size)]
        if relation == "duplicates" and size > 1:
            worth[-1], use[-1] = worth[0], list(use[0])
        if relation == "dominated" and size > 1:
            worth[-1], use[-1] = worth[0], [min(u + rng.randint(0, 2), largest) for u in use[0]]
        worths.append(worth)
        takes.append(use)
    return worths, takes


def _count(rng: Random, wants: str | None) -> int:
    """Return how many capacities there are."""
    counts = {"one": (1,), "several": (2, 2, 3, 4)}
    return rng.choice(counts.get(wants or "", (1, 1, 1, 1, 2, 2, 3, 5, 0)))


def _hard(rng: Random, count: int) -> tuple[list[list[float]], list[list[list[int]]]]:
    """Return menus whose values follow their uses closely, so that bounds decide little and search much."""
    jobs, most = (rng.randint(6, 14), 20) if count <= 1 else (rng.randint(4, 6), 5)
    scale = 10.0 ** rng.choice((0, 0, 0, -9, -20, 3, 12))
    noise = rng.choice((0.0, 1e-9, 0.05, 1.0))
    takes = [[[rng.randint(0, most) for _ in range(count)] for _ in range(4)] for _ in range(jobs)]
    worths = [[scale * (sum(use) + 1 + noise * rng.random()) for use in menu] for menu in takes]
    return worths, takes


def _placed(rng: Random) -> tuple[list[list[float]], list[list[list[int]]], int]:
    """Return menus of alike jobs, each option on one of some places, and how many capacities these have."""
    places, each, value = rng.randint(2, 4), rng.randint(1, 2), numbers.values(rng)
    law = numbers.uses(rng, 10 ** rng.choice((2, 3, 6)))
    worths, takes, choices = list[list[float]](), list[list[list[int]]](), 1
    while choices <= _MOST_CHOICES // 6:
        worth, use = list[float](), list[list[int]]()
        for _ in range(rng.randint(1, 4)):
            first = each * rng.randrange(places)
            own = [k for k in range(first, first + each) if each == 1 or rng.random() < 0.6]
            use.append([law() if k in own else 0 for k in range(places * each)])
            worth.append(value())
        for _ in range(rng.randint(1, 4)):
            choices *= len(worth) + 1
            if choices > _MOST_CHOICES:
                break
            worths.append(worth)
            takes.append(use)
    return worths, takes, places * each


def _capacities(rng: Random, takes: list[list[list[int]]], count: int, largest: int) -> list[int]:
    return [
        numbers.capacity_near(rng, [[use[k] for use in menu] for menu in takes], largest)
        for k in range(count)
    ]


def instance(rng: Random, wants: str | None = None) -> dict[str, Any]:
    """Draw a JSON instance."""
    if wants == "places":
        worths, takes, count = _placed(rng)
    else:
        count = _count(rng, wants)
        hard = rng.random() < _SHARE_HARD
        worths, takes = _hard(rng, count) if hard else _menus(rng, _sizes(rng), count, _LARGEST_USE)
    names = [f"c{k}" for k in range(count)]
    sparse, must, pins = rng.random() < 0.3, rng.choice((0.0, 0.5, 1.0)), rng.random() < 0.25
    jobs: list[dict[str, Any]] = []
    for j, (worth, use) in enumerate(zip(worths, takes, strict=True)):
        options = [
            {
                "id": f"o{i}",
                "value": value,
                "uses": {n: u for n, u in zip(names, uses, strict=True) if u or not sparse},
            }
            for i, (value, uses) in enumerate(zip(worth, use, strict=True))
        ]
        job: dict[str, Any] = {"id": f"j{j}", "required": rng.random() < must, "options": options}
        ids = [option["id"] for option in options]
        if ids and rng.random() < 0.2:
            job["current"] = rng.choice(ids) if rng.random() < 0.9 else "left the menu"
        if ids and pins and rng.random() < 0.3:
            job["pinned"] = rng.choice(ids)
        if ids and pins and rng.random() < 0.3:
            job["forbidden"] = rng.sample(ids, rng.randint(1, len(ids)))
        jobs.append(job)
    return {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": rng.choice(("maximize", "minimize")),
        "capacities": dict(zip(names, _capacities(rng, takes, count, _LARGEST_CAPACITY), strict=True)),
        "jobs": jobs,
    }


def arrays(rng: Random, wants: str | None = None) -> dict[str, Any]:
    """Draw arguments of ``MultipleChoiceKnapsack.from_arrays``; sums of uses stay below 2**62."""
    count = max(_count(rng, wants), 1)
    sizes = _sizes(rng)
    largest = rng.choice((10**6, 2**53 + 10, _LARGEST_TOTAL // max(len(sizes), 1) - 1024))
    if wants == "places":
        worths, takes, count = _placed(rng)
    else:
        hard = rng.random() < _SHARE_HARD
        worths, takes = _hard(rng, count) if hard else _menus(rng, sizes, count, largest)
    must = rng.choice((0.0, 0.5, 1.0))
    offsets = [0]
    for worth in worths:
        offsets.append(offsets[-1] + len(worth))
    return {
        "sense": rng.choice(("maximize", "minimize")),
        "values": [value for worth in worths for value in worth],
        "uses": [use for menu in takes for use in menu],
        "offsets": offsets,
        "capacities": _capacities(rng, takes, count, _LARGEST_TOTAL - 1),
        "required": [rng.random() < must for _ in worths],
    }
