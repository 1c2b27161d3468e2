"""The multiple-choice knapsack, as JSON or as arrays: its optimum, and what a plan is worth."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tests.hunt.truth_menus import Line, best_of_menus

__all__ = ["best", "best_of_arrays", "worth", "worth_of_arrays"]

Told = dict[str, Any]


def _allowed(job: Told) -> tuple[list[Told], bool]:
    """Return the options a job may get and whether it must get one."""
    pinned, forbidden = job.get("pinned"), job.get("forbidden", ())
    options = [o for o in job["options"] if o["id"] not in forbidden and pinned in (None, o["id"])]
    return options, job.get("required", True) or pinned is not None


def best(told: Told) -> tuple[bool, Fraction | None]:
    """Return the sense and the optimum of an instance."""
    names = list(told["capacities"])
    menus = []
    for job in told["jobs"]:
        options, must = _allowed(job)
        menu = [Line(Fraction(o["value"]), tuple(o["uses"].get(k, 0) for k in names)) for o in options]
        menus.append(menu if must else [*menu, Line(Fraction(0), (0,) * len(names))])
    maximize = told["sense"] == "maximize"
    return maximize, best_of_menus(menus, [told["capacities"][k] for k in names], maximize)


def worth(told: Told, plan: Any) -> Fraction | None:
    """Return what a plan is worth."""
    choice = dict(plan["choice"])
    used = dict.fromkeys(told["capacities"], 0)
    total = Fraction(0)
    for job in told["jobs"]:
        named = choice.pop(job["id"], None)
        options, must = _allowed(job)
        if named is None:
            if must:
                return None
            continue
        option = next((o for o in options if o["id"] == named), None)
        if option is None:
            return None
        total += Fraction(option["value"])
        for name, use in option["uses"].items():
            used[name] += use
    kept = all(used[name] <= most for name, most in told["capacities"].items())
    return total if kept and not choice else None


def best_of_arrays(told: Told) -> tuple[bool, Fraction | None]:
    """Return the sense and the optimum of arguments of ``from_arrays``."""
    offsets, count = told["offsets"], len(told["capacities"])
    menus = []
    for job, must in enumerate(told["required"]):
        rows = range(offsets[job], offsets[job + 1])
        menu = [Line(Fraction(told["values"][i]), tuple(told["uses"][i])) for i in rows]
        menus.append(menu if must else [*menu, Line(Fraction(0), (0,) * count)])
    maximize = told["sense"] == "maximize"
    return maximize, best_of_menus(menus, told["capacities"], maximize)


def worth_of_arrays(told: Told, plan: Any) -> Fraction | None:
    """Return what chosen rows are worth."""
    rows = [int(row) for row in plan]
    used = [0] * len(told["capacities"])
    total = Fraction(0)
    if len(rows) != len(told["required"]):
        return None
    for job, (row, must) in enumerate(zip(rows, told["required"], strict=True)):
        if row == -1 and not must:
            continue
        if not told["offsets"][job] <= row < told["offsets"][job + 1]:
            return None
        total += Fraction(told["values"][row])
        used = [a + b for a, b in zip(used, told["uses"][row], strict=True)]
    kept = all(a <= b for a, b in zip(used, told["capacities"], strict=True))
    return total if kept else None
