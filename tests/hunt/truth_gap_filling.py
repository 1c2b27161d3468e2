"""Gap filling: every admissible node count of every job, nodes alike; optimum, and a plan's worth."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

from tests.hunt.truth_menus import Line, best_of_menus

__all__ = ["best", "worth"]

Told = dict[str, Any]


def _rate(curve: Told, count: int) -> Fraction:
    """Return the throughput on a count of nodes, linear between the points of the curve."""
    points = list(zip(curve["nodes"], curve["rate"], strict=True))
    for (low, at_low), (high, at_high) in itertools.pairwise(points):
        if low <= count <= high:
            share = Fraction(count - low, high - low)
            return (1 - share) * Fraction(at_low) + share * Fraction(at_high)
    return Fraction(points[-1][1])


def _terms(told: Told, job: Told, count: int) -> tuple[Fraction, Fraction]:
    """Return what the throughput of a count is worth, and what rescaling to it costs."""
    weight, now = Fraction(job.get("weight", 1.0)), len(job.get("current_nodes", ()))
    earned = weight * Fraction(told["horizon_s"]) * _rate(job["scaling"], count)
    if count == now or now < job["min_nodes"]:
        return earned, Fraction(0)
    seconds = job["rescale_up_s"] if count > now else job["rescale_down_s"]
    return earned, weight * Fraction(seconds) * _rate(job["scaling"], now)


def _allowed(job: Told, count: int) -> bool:
    pinned = job.get("pinned_count")
    within = count == 0 or job["min_nodes"] <= count <= job["max_nodes"]
    listed = count == 0 or count in job.get("allowed_counts", [count])
    return within and listed and count not in job.get("forbidden_counts", ()) and pinned in (None, count)


def best(told: Told) -> tuple[bool, Fraction | None]:
    """Return the sense and the optimum."""
    nodes = len(told["nodes"])
    menus = []
    for job in told["jobs"]:
        menu = []
        for count in filter(lambda count, job=job: _allowed(job, count), range(nodes + 1)):
            earned, lost = _terms(told, job, count)
            menu.append(Line(earned - lost, (count,)))
        menus.append(menu)
    return True, best_of_menus(menus, [nodes], True)


def worth(told: Told, plan: Any) -> Fraction | None:
    """Return what a plan is worth."""
    allocation = dict(plan["allocation"])
    free = set(told["nodes"])
    total = Fraction(0)
    for job in told["jobs"]:
        held, now = list(allocation.pop(job["id"], ())), set(job.get("current_nodes", ()))
        if len(set(held)) != len(held) or not set(held) <= free or not _allowed(job, len(held)):
            return None
        if not (set(held) <= now or set(held) >= now):
            return None
        free -= set(held)
        earned, lost = _terms(told, job, len(held))
        total += earned - lost
    return None if allocation else total
