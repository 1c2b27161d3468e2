"""Hostile tenants of every kind: deep trees, weights and quotas of nothing and beyond all."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.hunt import draw_freezing, draw_gap_filling, draw_knapsack, draw_matching, draw_placement, numbers
from tests.hunt.tenanted import TENANTED

__all__ = ["instance", "placement_of_tenants"]

_MOST_CHOICES = 400


def instance(rng: Random, wants: str | None = None) -> dict[str, Any]:
    """Draw an instance; guarantees beyond the capacity are among them, and are refused when read."""
    return _owned(rng, rng.choice(_KINDS)(rng, wants))


def placement_of_tenants(rng: Random) -> dict[str, Any]:
    """Draw a placement whose jobs belong to tenants."""
    return _owned(rng, _placement(rng, None))


def _owned(rng: Random, told: dict[str, Any]) -> dict[str, Any]:
    """Return an instance whose jobs belong to tenants."""
    kind = TENANTED[told["kind"]]
    told["jobs"] = _few(told)
    told["tenants"] = _tree(rng, kind.capacities(told))
    leaves = [
        one["id"] for one in told["tenants"] if all(t.get("parent") != one["id"] for t in told["tenants"])
    ]
    for job in told["jobs"]:
        job["tenant"] = rng.choice(leaves)
        runs = told["kind"] != "matching"
        if runs and rng.random() < 0.2:
            job["preemptible"] = rng.random() < 0.5
        if runs and told["kind"] != "placement" and rng.random() < 0.3:
            job["stop_cost"] = rng.choice((0.0, 0.5, 1e-30, 1e18, numbers.amounts(rng)()))
        if rng.random() < 0.1:
            job["priority"] = rng.choice((-(10**9), 0, 1, 10**9))
        if rng.random() < 0.3:
            job["submitted_s"] = rng.choice((0.0, -1e9, 5.0, 1e12))
    if rng.random() < 0.75:
        rates = told["kind"] in ("freezing", "matching") or told.get("sense") == "maximize"
        told["fairness"] = {
            "over": rng.choice(("tenants", "tenants", "tree", "jobs")),
            "inside": rng.choice(("sum", "sum", "fair", "first_come")),
            "keep": rng.choice((1.0, 1.0, 1.0, 0.0, 0.5, 1e-30, 0.999999999)),
            "share": "normalised_throughput" if rates and rng.random() < 0.2 else "dominant_share",
        }
    return _renamed(rng, told) if rng.random() < 0.25 else told


def _renamed(rng: Random, told: dict[str, Any]) -> dict[str, Any]:
    """Return an instance in which people have called things as rows, floors and each other are called."""
    old_tenants, old_jobs = [one["id"] for one in told["tenants"]], [job["id"] for job in told["jobs"]]
    old_capacities = list(told["capacities"]) if told["kind"] == "multiple_choice_knapsack" else []
    plain = [
        "a",
        "b",
        "everybody",
        "A",
        "a ",
        "\u0430",
        "x" * 1000,
        "job a",
        "job job a",
        "0",
        "nothing",
        "share of a",
    ]
    for first in ("gpu", "a", "b", "everybody"):
        plain += [f"{first} of {second}" for second in ("a", "b", "everybody", "a without b")]
        plain += [f"guaranteed {first} of a", f"{first} of a without b, a"]
    tenants = dict(zip(old_tenants, rng.sample(plain, len(old_tenants)), strict=True))
    jobs = dict(zip(old_jobs, rng.sample(plain, len(old_jobs)), strict=True))
    capacities = dict(zip(old_capacities, rng.sample(plain, len(old_capacities)), strict=True))
    for tenant in told["tenants"]:
        tenant["id"] = tenants[tenant["id"]]
        if "parent" in tenant:
            tenant["parent"] = tenants[tenant["parent"]]
        if capacities and "quotas" in tenant:
            tenant["quotas"] = {capacities[name]: quota for name, quota in tenant["quotas"].items()}
    for job in told["jobs"]:
        job["id"], job["tenant"] = jobs[job["id"]], tenants[job["tenant"]]
        for option in job["options"] if capacities else ():
            option["uses"] = {capacities[name]: use for name, use in option["uses"].items()}
    if capacities:
        told["capacities"] = {capacities[name]: amount for name, amount in told["capacities"].items()}
    return told


def _knapsack(rng: Random, _: str | None) -> dict[str, Any]:
    """Return a knapsack, mostly of plain uses: shares of nothing else differ."""
    told = draw_knapsack.instance(rng)
    if rng.random() < 0.6:
        most = rng.randint(2, 9)
        for name in told["capacities"]:
            told["capacities"][name] = rng.randint(1, 2 * most)
        for job in told["jobs"]:
            for option in job["options"]:
                option["uses"] = {name: rng.randint(0, most) for name in told["capacities"]}
    if rng.random() < 0.2:
        told["max_changes"] = rng.randint(0, 3)
    return told


def _freezing(rng: Random, wants: str | None) -> dict[str, Any]:
    """Return a round, mostly on nodes, of no more GPUs than jobs can want."""
    told = draw_freezing.instance(rng, "nodes" if rng.random() < 0.6 else wants)
    for name, amount in told["gpus"].items():
        told["gpus"][name] = min(amount, 12)
    return told


def _matching(rng: Random, wants: str | None) -> dict[str, Any]:
    """Return a matching whose pools mostly have room to share, and whose jobs say how long they take."""
    told = draw_matching.instance(rng, wants)
    timed = told["objective"] == "makespan"
    for machine in told["machines"]:
        machine["count"] = min(machine["count"], 4)
        if rng.random() < 0.7:
            machine["capacity"] = rng.randint(1, 12)
    told["divisible"] = False
    for job in told["jobs"]:
        for entry in job["on"].values():
            entry["uses"] = rng.randint(0, 9) if entry["uses"] > 9 else entry["uses"]
            if timed:
                entry["gpus"] = 1
            if "time_s" not in entry or rng.random() < 0.3:
                entry["time_s"] = rng.choice((1.0, 2.0, 3.0, 7.5, 1e-3, 1e6))
    return told


def _placement(rng: Random, _: str | None) -> dict[str, Any]:
    """Return a placement without pods of which some may have no node."""
    while True:
        told = draw_placement.instance(rng)
        pods = [one for job in told["jobs"] for option in job["options"] for one in option["pods"]]
        if not any("least" in one for one in pods):
            break
    if rng.random() < 0.8:
        told["goals"] = [{"goal": "value"}, *(goal for goal in told["goals"] if goal != {"goal": "value"})]
    if rng.random() < 0.5:
        told["rules"] = []
    return told


_KINDS = (_knapsack, _knapsack, draw_gap_filling.instance, _freezing, _matching, _placement)


def _few(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return as many jobs as can be enumerated."""
    total, kept = 1, []
    for job in told["jobs"]:
        total *= len(TENANTED[told["kind"]].offers(told, job)) + 1
        if total > _MOST_CHOICES:
            break
        kept.append(job)
    return kept


def _tree(rng: Random, capacities: dict[str, int]) -> list[dict[str, Any]]:
    deep = rng.random() < 0.3
    tenants: list[dict[str, Any]] = []
    left = dict(capacities)
    greedy = rng.random() < 0.05
    for k in range(rng.randint(1, 6)):
        tenant: dict[str, Any] = {"id": f"t{k}"}
        if tenants and rng.random() < (0.9 if deep else 0.5):
            tenant["parent"] = tenants[-1]["id"] if deep else rng.choice(tenants)["id"]
        if rng.random() < 0.5:
            tenant["weight"] = rng.choice(
                (0.0, 1.0, 2.0, 3.0, 0.5, 0.1, 1 / 3, 7.25, 1e-30, 1e18, 1e-9, 1e9, 3e6)
            )
        if rng.random() < 0.2:
            tenant["priority"] = rng.choice((-1, 0, 1, 10**9))
        tenants.append(tenant)
    inner = {tenant.get("parent") for tenant in tenants}
    for tenant in tenants:
        quotas = {}
        for name in capacities:
            if rng.random() < 0.4:
                continue
            quota: dict[str, Any] = {}
            if tenant["id"] not in inner:
                most = left[name] if not greedy else 10**18
                quota["guarantee"] = rng.choice((0, most, rng.randint(0, most), min(most, 1)))
                left[name] -= min(left[name], quota["guarantee"])
            if rng.random() < 0.4:
                quota["borrowing_limit"] = rng.choice((0, 0, 1, 3, 10**18))
            if rng.random() < 0.4:
                quota["lending_limit"] = rng.choice((0, 0, 1, 3, 10**18))
            if rng.random() < 0.2:
                quota["non_preemptible_within_guarantee"] = rng.random() < 0.8
            if tenant["id"] in inner and "guarantee" not in quota:
                continue  # a quota here would guarantee 0, less than what its children have
            quotas[name] = quota
        if quotas:
            tenant["quotas"] = quotas
    for tenant in reversed(tenants):
        if tenant["id"] in inner and rng.random() < 0.5:
            tenant["quotas"] = _above(rng, tenant, tenants, left)
    return tenants


def _above(
    rng: Random, tenant: dict[str, Any], tenants: list[dict[str, Any]], left: dict[str, int]
) -> dict[str, Any]:
    """Return quotas of a tenant with children: what these have or more, and limits of the whole."""
    quotas: dict[str, Any] = {}
    for name in left:
        theirs = sum(_guaranteed(one, tenants, name) for one in tenants if one.get("parent") == tenant["id"])
        more = rng.choice((0, 0, min(left[name], 1), left[name]))
        left[name] -= more
        quotas[name] = {"guarantee": theirs + more}
        if rng.random() < 0.5:
            quotas[name]["borrowing_limit"] = rng.choice((0, 1, 3))
        if rng.random() < 0.5:
            quotas[name]["lending_limit"] = rng.choice((0, 1, 3))
        if rng.random() < 0.2:
            quotas[name]["non_preemptible_within_guarantee"] = True
    return quotas


def _guaranteed(tenant: dict[str, Any], tenants: list[dict[str, Any]], name: str) -> int:
    own = tenant.get("quotas", {}).get(name, {}).get("guarantee", 0)
    theirs = sum(_guaranteed(one, tenants, name) for one in tenants if one.get("parent") == tenant["id"])
    return max(int(own), theirs)
