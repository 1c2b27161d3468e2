"""Layer freezing: every configuration of every job, packed onto nodes by trying; optimum, a plan's worth."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.hunt.truth_menus import Line, best_of_menus

__all__ = ["best", "worth"]

Told = dict[str, Any]


class _Configuration(NamedTuple):
    gpu_type: str
    gpus: int
    depth: int
    penalty: int
    value: float


def _factor(told: Told, job: Told, gpu_type: str, gpus: int, depth: int) -> float:
    now = job.get("current")
    if now is None:
        return 1.0
    if (now["gpu_type"], now["gpus"]) != (gpu_type, gpus):
        age, lost = float(job.get("age_s", 0.0)), float(job.get("restart_s", 0.0))
        return 1.0 if age + lost == 0 else max(0.0, (age - job.get("restarts", 0) * lost) / (age + lost))
    if now.get("depth", 0) != depth:
        return max(0.0, 1.0 - float(job.get("rebuild_s", 0.0)) / float(told["round_s"]))
    return 1.0


def _configurations(told: Told, job: Told) -> Iterator[_Configuration]:
    """Yield what a job may get, by itself."""
    power, weight = float(told.get("power", -0.5)), float(job.get("weight", 1.0))
    positive = [float(p) for row in job["menu"] for p in row["effective_progress"] if p > 0]
    reference = job.get("reference_progress")
    reference = float(min(positive, default=1.0) if reference is None else reference)
    for row in job["menu"]:
        size = told.get("gpus_per_node", {}).get(row["gpu_type"])
        if size is not None and row["gpus"] > size and (size == 0 or row["gpus"] % size):
            continue
        penalties = row.get("penalty_millionths") or [0] * len(row["depths"])
        for depth, progress, penalty in zip(row["depths"], row["effective_progress"], penalties, strict=True):
            if job.get("max_depth") is not None and depth > job["max_depth"]:
                continue
            budget = job.get("budget_frozen_s")
            if budget is not None and Fraction(depth, job["layers"]) * Fraction(told["round_s"]) > Fraction(
                budget
            ):
                continue
            ratio = _factor(told, job, row["gpu_type"], row["gpus"], depth) * float(progress) / reference
            if ratio == 0.0 and power < 0:
                continue
            value = 0.0 if ratio == 0.0 else weight * math.pow(ratio, power)
            yield _Configuration(row["gpu_type"], row["gpus"], depth, penalty, value)


def _nodes(told: Told, name: str) -> list[int] | None:
    """Return the GPUs of every node of a type, the smaller one last; ``None`` where nodes have no size."""
    size = told.get("gpus_per_node", {}).get(name)
    if size is None:
        return None
    whole, rest = divmod(told["gpus"][name], size)
    return [size] * whole + ([rest] if rest else [])


def _packs(counts: Sequence[int], nodes: Sequence[int], size: int) -> bool:
    """Return whether jobs fit: one node each, or whole nodes for those larger than one."""
    room = sorted(nodes, reverse=True)
    for count in counts:
        if count > size:
            for _ in range(count // size):
                if not room or room[0] != size:
                    return False
                room.pop(0)
    return _fill(sorted((c for c in counts if c <= size), reverse=True), room)


def _fill(counts: list[int], room: list[int]) -> bool:
    if not counts:
        return True
    tried = set()
    for k, free in enumerate(room):
        if free >= counts[0] and free not in tried:
            tried.add(free)
            if _fill(counts[1:], [*room[:k], free - counts[0], *room[k + 1 :]]):
                return True
    return False


def _placeable(told: Told, chosen: Sequence[_Configuration | None]) -> bool:
    for name in told.get("gpus_per_node", {}):
        nodes = _nodes(told, name)
        counts = [c.gpus for c in chosen if c is not None and c.gpu_type == name]
        if nodes is not None and not _packs(counts, nodes, told["gpus_per_node"][name]):
            return False
    return True


def best(told: Told) -> tuple[bool, Fraction | None]:
    """Return the sense and the optimum."""
    maximize, queue = told.get("power", -0.5) > 0, Fraction(told.get("queue_penalty", 1.1))
    names = list(told["gpus"])
    cap = told.get("penalty_cap_millionths")
    room = [told["gpus"][name] for name in names] + ([] if cap is None else [cap])
    menus: list[list[tuple[Line, _Configuration | None]]] = []
    for job in told["jobs"]:
        menu: list[tuple[Line, _Configuration | None]] = [
            (
                Line(
                    Fraction(c.value),
                    (
                        *(c.gpus if name == c.gpu_type else 0 for name in names),
                        *(() if cap is None else (c.penalty,)),
                    ),
                ),
                c,
            )
            for c in _configurations(told, job)
        ]
        if not job.get("required", False):
            menu.append((Line(queue, (0,) * len(room)), None))
        menus.append(menu)
    if not told.get("gpus_per_node"):
        return maximize, best_of_menus([[line for line, _ in menu] for menu in menus], room, maximize)
    return maximize, _best_on_nodes(told, menus, room, maximize)


def _best_on_nodes(
    told: Told,
    menus: list[list[tuple[Line, _Configuration | None]]],
    room: list[int],
    maximize: bool,
) -> Fraction | None:
    """Try all choices, best first, until one can be placed."""
    sign = 1 if maximize else -1
    heap: list[tuple[Fraction, int, tuple[_Configuration | None, ...]]] = []
    for number, combination in enumerate(itertools.product(*menus)):
        used = [sum(column) for column in zip(*(line.uses for line, _ in combination), strict=True)]
        if all(a <= b for a, b in zip(used, room, strict=False)):
            total = sum((line.value for line, _ in combination), Fraction(0))
            heap.append((-sign * total, number, tuple(c for _, c in combination)))
    heapq.heapify(heap)
    while heap:
        total, _, chosen = heapq.heappop(heap)
        if _placeable(told, chosen):
            return -sign * total
    return None


def worth(told: Told, plan: Any) -> Fraction | None:
    """Return what a plan is worth; plans of the package tell the nodes wherever these have a size."""
    given = dict(plan["configuration"])
    chosen: list[_Configuration | None] = []
    queue = Fraction(told.get("queue_penalty", 1.1))
    total = Fraction(0)
    rooms = {name: _nodes(told, name) for name in told["gpus"]}
    for job in told["jobs"]:
        got = given.pop(job["id"], None)
        if got is None:
            if job.get("required", False):
                return None
            total += queue
            continue
        key = (got["gpu_type"], got["gpus"], got["depth"])
        if type(key[1]) is not int or type(key[2]) is not int:
            return None
        found = next((c for c in _configurations(told, job) if c[:3] == key), None)
        if found is None or not _lies(told, rooms, got):
            return None
        chosen.append(found)
        total += Fraction(found.value)
    for name, most in told["gpus"].items():
        if sum(c.gpus for c in chosen if c is not None and c.gpu_type == name) > most:
            return None
    cap = told.get("penalty_cap_millionths")
    if given or (cap is not None and sum(c.penalty for c in chosen if c is not None) > cap):
        return None
    return total


def _lies(told: Told, rooms: dict[str, list[int] | None], got: Told) -> bool:
    """Take the named nodes out of what is left; false where they do not hold the job."""
    name, room = got["gpu_type"], rooms[got["gpu_type"]]
    if room is None:
        return "nodes" not in got
    size = told["gpus_per_node"][name]
    names = told.get("nodes", {}).get(name) or [str(k) for k in range(len(room))]
    if not isinstance(got["nodes"], list) or any(node not in names for node in got["nodes"]):
        return False
    held = [names.index(node) for node in got["nodes"]]
    each = min(got["gpus"], size)
    if len(set(held)) != len(held) or len(held) * each != got["gpus"]:
        return False
    for k in held:
        room[k] -= each
    return all(free >= 0 for free in room)
