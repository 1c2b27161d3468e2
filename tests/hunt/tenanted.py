"""What jobs of tenants may get, kind by kind, read from the JSON alone: offers, what fits, what it counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.hunt import truth_freezing, truth_gap_filling, truth_knapsack, truth_matching, truth_placement

__all__ = ["TENANTED", "Choice", "Offer", "Tenanted", "Told"]

Told = dict[str, Any]


class Offer(NamedTuple):
    """One thing that a job may get."""

    name: Any
    uses: Mapping[str, int]
    value: Fraction
    current: bool
    idle: bool
    rate: float = 0.0


Choice = Sequence[Offer]


class Tenanted(NamedTuple):
    """One kind: its capacities and sense, every offer of a job, and what a plan gives to each."""

    capacities: Callable[[Told], dict[str, int]]
    maximize: Callable[[Told], bool]
    offers: Callable[[Told, Told], list[Offer]]
    taken: Callable[[Any, Told], Any]
    worth: Callable[[Told, Any], Fraction | None]
    fits: Callable[[Told, Choice], bool] = lambda _told, _choice: True
    total: Callable[[Told, Choice], Fraction] = lambda _, choice: sum(
        (offer.value for offer in choice), Fraction(0)
    )


def _node_counts(told: Told, job: Told) -> list[Offer]:
    offers = []
    for count in range(len(told["nodes"]) + 1):
        if truth_gap_filling._allowed(job, count):
            earned, lost = truth_gap_filling._terms(told, job, count)
            holds = count > 0 and count == len(job["current_nodes"])
            offers.append(Offer(str(count), {"idle_nodes": count}, earned - lost, holds, count == 0))
    return offers


def _options(told: Told, job: Told) -> list[Offer]:
    options, must = truth_knapsack._allowed(job)
    offers = [
        Offer(
            option["id"],
            option["uses"],
            Fraction(option["value"]),
            option["id"] == job.get("current"),
            idle=False,
            rate=max(0.0, float(option["value"])),
        )
        for option in options
    ]
    return offers if must else [*offers, Offer(None, {}, Fraction(0), current=False, idle=True)]


def _gpus(told: Told) -> dict[str, int]:
    cap = told.get("penalty_cap_millionths")
    return {**told["gpus"], **({} if cap is None else {"frozen_penalty": cap})}


def _configurations(told: Told, job: Told) -> list[Offer]:
    now = job.get("current") or {}
    positive = [float(p) for row in job["menu"] for p in row["effective_progress"] if p > 0]
    given = job.get("reference_progress")
    reference = float(min(positive, default=1.0) if given is None else given)
    progress = {
        (row["gpu_type"], row["gpus"], depth): float(speed)
        for row in job["menu"]
        for depth, speed in zip(row["depths"], row["effective_progress"], strict=True)
    }
    offers = []
    for one in truth_freezing._configurations(told, job):
        uses = {one.gpu_type: one.gpus}
        if told.get("penalty_cap_millionths") is not None:
            uses["frozen_penalty"] = one.penalty
        factor = truth_freezing._factor(told, job, one.gpu_type, one.gpus, one.depth)
        holds = (now.get("gpu_type"), now.get("gpus")) == (one.gpu_type, one.gpus)
        rate = factor * progress[one[:3]] / reference
        offers.append(Offer(one[:3], uses, Fraction(one.value), holds, idle=False, rate=rate))
    if not job.get("required", False):
        offers.append(Offer(None, {}, Fraction(told.get("queue_penalty", 1.1)), current=False, idle=True))
    return offers


def _on_nodes(told: Told, choice: Choice) -> bool:
    held = [None if offer.idle else truth_freezing._Configuration(*offer.name, 0, 0.0) for offer in choice]
    return truth_freezing._placeable(told, held)


def _configured(plan: Any, job: Told) -> Any:
    got = plan["configuration"].get(job["id"])
    return None if got is None else (got["gpu_type"], got["gpus"], got["depth"])


def _rooms(told: Told) -> dict[str, int]:
    return {
        one["id"]: one.get("count", 1) * one["capacity"]
        for one in told["machines"]
        if one.get("capacity") is not None
    }


def _pools(told: Told, job: Told) -> list[Offer]:
    field = {"makespan": "time_s"}.get(told["objective"], told["objective"])
    room = {one["id"]: one.get("capacity") for one in told["machines"]}
    offers = []
    for name, entry in job["on"].items():
        use, most = entry.get("uses", 1), room[name]
        if most is None or use <= most:
            uses = {} if most is None else {name: use * entry.get("gpus", 1)}
            rate = 1.0 / entry["time_s"] if entry.get("time_s") else 0.0
            offers.append(Offer(name, uses, Fraction(entry[field]), current=False, idle=False, rate=rate))
    if not job.get("required", True):
        offers.append(Offer(None, {}, Fraction(0), current=False, idle=True))
    return offers


def _assigned(told: Told, choice: Choice, **fields: Any) -> Told:
    """Return the matching of the jobs of a choice to their pools alone."""
    jobs = [
        {**job, "required": True, "on": {offer.name: {**job["on"][offer.name], "cost": 0}}}
        for job, offer in zip(told["jobs"], choice, strict=True)
        if not offer.idle
    ]
    return {**told, "jobs": jobs, **fields}


def _has_room(told: Told, choice: Choice) -> bool:
    return truth_matching.best(_assigned(told, choice, objective="cost"))[1] is not None


def _ends(told: Told, choice: Choice) -> Fraction:
    if told["objective"] != "makespan":
        return sum((offer.value for offer in choice), Fraction(0))
    _, last = truth_matching.best(_assigned(told, choice))
    return Fraction(0) if last is None else last


def _free(told: Told) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in told["nodes"]:
        for name, amount in node["capacity"].items():
            left = max(0, amount - node.get("used", {}).get(name, 0)) if node.get("ready", True) else 0
            found[name] = found.get(name, 0) + left
    return found


def _pods(told: Told, job: Told) -> list[Offer]:
    round_ = truth_placement.Round(told)
    now = None if truth_placement.lost(round_, job) else (job.get("current") or {}).get("option")
    offers, fixed = [], truth_placement.stays(round_, job)
    for option in job["options"]:
        if option["id"] in job.get("forbidden", ()) or job.get("pinned") not in (None, option["id"]):
            continue
        if fixed and option["id"] != now:
            continue
        uses, value = {"pods": 0}, Fraction(option.get("value", 0.0))
        for pods in option["pods"]:
            count = pods.get("count", 1)
            value += count * Fraction(pods.get("value", 0.0))
            uses["pods"] += count
            for name, need in pods["needs"].items():
                uses[name] = uses.get(name, 0) + count * need
        rate = max(0.0, float(value)) if _is_much(told) else 0.0
        counted = _is_much(told) and truth_placement.counts(told, job, told["goals"][0])
        value = value if counted else Fraction(0)
        name, uses = option["id"], {one: use for one, use in uses.items() if one in _free(told)}
        offers.append(Offer(name, uses, value, name == now, idle=False, rate=rate))
    if not job.get("required") and job.get("pinned") is None and not (fixed and now is not None):
        offers.append(Offer("waits", {}, Fraction(0), current=False, idle=True))
    return offers


def _is_much(told: Told) -> bool:
    goal = told["goals"][0]
    return not isinstance(goal, list) and goal["goal"] == "value"


def _placed(told: Told, choice: Choice) -> list[Any]:
    """Return the plans in which jobs have what is chosen, those that may not be moved where they are."""
    jobs, round_ = [], truth_placement.Round(told)
    for job, offer in zip(told["jobs"], choice, strict=True):
        fixed = truth_placement.stays(round_, job) or (job.get("preemptible") is False and offer.current)
        free = {"required": False, "pinned": None, "fixed": False, "forbidden": [], "options": job["options"]}
        if not offer.idle:
            jobs.append({**job, "fixed": fixed, "pinned": offer.name})
        elif offer.name is None and told["rules"]:  # of whom nobody speaks may have anything, or stays
            kept = job.get("preemptible") is False and any(one.current for one in _pods(told, job))
            jobs.append({**job, "fixed": job.get("fixed", False) or kept})
        else:  # or, where no rule does, nothing
            gone = {} if offer.name == "waits" else {"current": None}
            jobs.append({**job, **free, "forbidden": [option["id"] for option in job["options"]], **gone})
    asked = {**told, "jobs": jobs}
    return [plan for plan in truth_placement.plans(asked) if not truth_placement.broken(asked, plan)]


def _best_placed(told: Told, choice: Choice) -> Fraction:
    values = [truth_placement.values(told, plan)[0] for plan in _placed(told, choice)]
    return max(values) if _is_much(told) else min(values)


def _placed_worth(told: Told, plan: Any) -> Fraction | None:
    known = any(plan == one for one in truth_placement.plans(told))
    return truth_placement.values(told, plan)[0] if known and not truth_placement.broken(told, plan) else None


def _placed_option(plan: Any, job: Told) -> str:
    got = plan["placement"].get(job["id"])
    return "waits" if got is None else str(got["option"])


TENANTED: Mapping[str, Tenanted] = MappingProxyType(
    {
        "gap_filling": Tenanted(
            lambda told: {"idle_nodes": len(told["nodes"])},
            lambda _: True,
            _node_counts,
            lambda plan, job: str(len(plan["allocation"].get(job["id"], ()))),
            truth_gap_filling.worth,
        ),
        "multiple_choice_knapsack": Tenanted(
            lambda told: dict(told["capacities"]),
            lambda told: bool(told["sense"] == "maximize"),
            _options,
            lambda plan, job: plan["choice"].get(job["id"]),
            truth_knapsack.worth,
        ),
        "freezing": Tenanted(
            _gpus,
            lambda told: bool(told.get("power", -0.5) > 0),
            _configurations,
            _configured,
            truth_freezing.worth,
            _on_nodes,
        ),
        "matching": Tenanted(
            _rooms,
            lambda told: bool(told["objective"] == "value"),
            _pools,
            lambda plan, job: plan["assignment"].get(job["id"]),
            truth_matching.worth,
            _has_room,
            _ends,
        ),
        "placement": Tenanted(
            _free,
            _is_much,
            _pods,
            _placed_option,
            _placed_worth,
            lambda told, choice: bool(_placed(told, choice)),
            _best_placed,
        ),
    }
)
