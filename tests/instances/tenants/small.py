"""Small instances with tenants, drawn from a seed, and their plans by enumeration."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from typing import Any

import msgspec

from apportion.instances import MultipleChoiceKnapsackInstance

__all__ = ["drawn", "every_plan", "sum_of", "within_quotas"]


def drawn(seed: int, *, lending: bool = True, stops: bool = True, jobs: int = 5) -> dict[str, Any]:
    """Return a multiple-choice knapsack with a tree of two or three levels as a JSON document."""
    rng = random.Random(seed)
    capacities = {"gpu": rng.randint(3, 7), "cpu": rng.randint(8, 20)}
    guaranteed = rng.randint(0, capacities["gpu"] // 2)
    half = rng.randint(0, guaranteed)

    def quota(amount: int) -> dict[str, Any]:
        found: dict[str, Any] = {"guarantee": amount}
        if rng.random() < 0.5:
            found["borrowing_limit"] = rng.randint(0, 3)
        if lending and rng.random() < 0.5:
            found["lending_limit"] = rng.randint(0, amount)
        return {"gpu": found}

    tenants: list[dict[str, Any]] = [
        {"id": "org", "quotas": quota(guaranteed)},
        {"id": "a", "parent": "org", "quotas": quota(half), "weight": rng.choice([1.0, 2.0])},
        {"id": "b", "parent": "org", "quotas": quota(guaranteed - half)},
        {"id": "c", "quotas": quota(rng.randint(0, capacities["gpu"] - guaranteed)), "weight": 1.0},
    ]
    listed = []
    for index in range(jobs):
        options = [
            {
                "id": f"o{count}",
                "value": rng.randint(1, 9) * 1.0,
                "uses": {"gpu": count, "cpu": rng.randint(0, 6)},
            }
            for count in rng.sample([1, 2, 3], rng.randint(1, 2))
        ]
        job: dict[str, Any] = {
            "id": f"j{index}",
            "tenant": rng.choice("abc"),
            "required": False,
            "options": options,
        }
        if stops and rng.random() < 0.3:
            job |= {"current": options[0]["id"], "stop_cost": rng.choice([0.5, 2.0])}
        listed.append(job)
    return {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": capacities,
        "tenants": tenants,
        "jobs": listed,
    }


def instance_of(document: dict[str, Any]) -> MultipleChoiceKnapsackInstance:
    """Return the instance of a document."""
    return msgspec.json.decode(msgspec.json.encode(document), type=MultipleChoiceKnapsackInstance)


def every_plan(document: dict[str, Any]) -> list[list[dict[str, Any] | None]]:
    """Return every choice that keeps capacities and quotas, one option or ``None`` per job."""
    menus = []
    for job in document["jobs"]:
        menu: list[dict[str, Any] | None] = list(job["options"])
        if any(option.get("nothing") for option in job["options"]):
            pass  # a kind that says nothing in its own words
        elif job.get("preemptible") is False and "current" in job:
            menu = [option for option in menu if option is not None and option["id"] == job["current"]]
        else:
            menu.append(None)
        menus.append(menu)
    return [list(choice) for choice in product(*menus) if within_quotas(document, list(choice))]


def within_quotas(document: dict[str, Any], choice: list[dict[str, Any] | None]) -> bool:
    """Return whether a choice keeps every capacity and every limit of the tree."""
    children: dict[str | None, list[dict[str, Any]]] = {}
    for tenant in document["tenants"]:
        children.setdefault(tenant.get("parent"), []).append(tenant)
    for capacity, total in document["capacities"].items():

        def quota(tenant: dict[str, Any], name: str = capacity) -> dict[str, Any]:
            found: dict[str, Any] = tenant.get("quotas", {}).get(name, {})
            return found

        def guaranteed(tenant: dict[str, Any]) -> int:
            theirs = sum(guaranteed(child) for child in children.get(tenant["id"], []))
            return max(theirs, quota(tenant).get("guarantee", 0))

        def claim(tenant: dict[str, Any], name: str = capacity) -> int | None:
            """Return what a subtree claims, ``None`` where a limit is broken."""
            below = [claim(child) for child in children.get(tenant["id"], [])]
            if any(part is None for part in below):
                return None
            own = sum(
                option["uses"].get(name, 0)
                for job, option in zip(document["jobs"], choice, strict=True)
                if option is not None and job["tenant"] == tenant["id"]
            )
            inside = own + sum(part for part in below if part is not None)
            limit = quota(tenant).get("borrowing_limit")
            if limit is not None and inside > guaranteed(tenant) + limit:
                return None
            lends = quota(tenant).get("lending_limit")
            return inside if lends is None else max(inside, guaranteed(tenant) - lends)

        claims = [claim(root) for root in children[None]]
        if any(part is None for part in claims) or sum(part or 0 for part in claims) > total:
            return False
    return True


def sum_of(document: dict[str, Any], choice: list[dict[str, Any] | None]) -> Fraction:
    """Return the objective of a choice."""
    total = Fraction(0)
    for job, option in zip(document["jobs"], choice, strict=True):
        if option is not None:
            total += Fraction(option["value"])
        elif "current" in job:
            total -= Fraction(job.get("stop_cost", 0))
    return total


def shares(document: dict[str, Any], choice: list[dict[str, Any] | None]) -> dict[str, Fraction]:
    """Return the share of every job under a choice, by job id; dominant ones if none are named."""
    kind = document.get("fairness", {}).get("share", "dominant_share")
    return {
        job["id"]: Fraction(0) if option is None else _share(kind, document, job, option)
        for job, option in zip(document["jobs"], choice, strict=True)
    }


def _share(kind: str, document: dict[str, Any], job: dict[str, Any], option: dict[str, Any]) -> Fraction:
    if kind == "dominant_share":
        uses = [Fraction(use, document["capacities"][name]) for name, use in option["uses"].items() if use]
        return max(uses, default=Fraction(0))
    rate = option.get("rate", option["value"])
    if kind == "normalised_throughput":
        best = max(one.get("rate", one["value"]) for one in job["options"])
        return Fraction(int(rate / best * 1e9), 10**9) if best > 0 else Fraction(0)
    told = job["finish"]
    if rate <= 0:
        return Fraction(0)
    lasts = told["elapsed_s"] + told["remaining"] / rate
    return Fraction(int(min(told["isolated_s"] / lasts, 1e3) * 1e9), 10**9)


def share_of(document: dict[str, Any], choice: list[dict[str, Any] | None], tenant: str) -> Fraction:
    """Return the dominant share of a tenant and of all below it."""
    inside = {tenant}
    for one in document["tenants"]:  # parents stand before their children
        if one.get("parent") in inside:
            inside.add(one["id"])
    own = shares(document, choice)
    return sum((own[job["id"]] for job in document["jobs"] if job["tenant"] in inside), Fraction(0))


def alone(document: dict[str, Any], tenant: str) -> Fraction:
    """Return the best dominant share that a tenant without children has on its guarantee alone."""
    quotas = next(one for one in document["tenants"] if one["id"] == tenant).get("quotas", {})
    menus: list[list[dict[str, Any] | None]] = [
        [*(option for option in job["options"] if not option.get("nothing")), None]
        if job["tenant"] == tenant
        else [None]
        for job in document["jobs"]
    ]
    best = Fraction(0)
    for choice in product(*menus):
        used = dict.fromkeys(document["capacities"], 0)
        for option in choice:
            for name, use in (option["uses"] if option is not None else {}).items():
                used[name] += use
        if all(use <= quotas.get(name, {}).get("guarantee", 0) for name, use in used.items()):
            best = max(best, share_of(document, list(choice), tenant))
    return best
