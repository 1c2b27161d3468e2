"""Random rounds of tenants, each answer held against every choice there is: solve, and check on top of it.

``python -m tests.hunt.rounds --count 20000 --seed 1``. Small knapsacks of trees of tenants, with
guarantees at every depth, lending and borrowing limits, jobs that must run or may not be stopped, and
capacities that bind nowhere. The exit code is 1 where a share that is due, a level, the objective or the
checker is wrong.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import apportion
from apportion.io import stored
from apportion.proofs.claims import Verdict
from tests.hunt import truth_tenants

__all__ = ["drawn_round", "wrong_in"]


def drawn_round(rng: Random) -> dict[str, Any]:
    """Draw a round; it may have no plan, and guarantees that cannot be kept together."""
    capacities = {name: rng.randint(2, 9) for name in ("gpu", "cpu")[: rng.randint(1, 2)]}
    tenants = _tree(rng, capacities)
    inner = {tenant["parent"] for tenant in tenants}
    leaves = [tenant["id"] for tenant in tenants if tenant["id"] not in inner]
    jobs = [_job(rng, f"j{number}", rng.choice(leaves), capacities) for number in range(rng.randint(1, 5))]
    if rng.random() < 0.3:  # binds nowhere, so that it must change nothing
        capacities["ample"] = 1000
        for job in jobs:
            for option in job["options"]:
                option["uses"]["ample"] = 1
        for tenant in tenants:
            if tenant["id"] not in inner and rng.random() < 0.5:
                tenant.setdefault("quotas", {})["ample"] = {"guarantee": 100}
    told: dict[str, Any] = {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize" if rng.random() < 0.85 else "minimize",
        "capacities": capacities,
        "tenants": tenants,
        "jobs": jobs,
    }
    if rng.random() < 0.3:
        told["max_changes"] = rng.randint(0, 2)
        for job in jobs:
            if rng.random() < 0.6:
                job["current"] = rng.choice(job["options"])["id"]
    if rng.random() < 0.6:
        told["fairness"] = {
            "over": rng.choice(("tenants", "tree", "jobs")),
            "inside": rng.choice(("sum", "sum", "fair", "first_come")),
            "share": "dominant_share",
        }
        if told["sense"] == "maximize" and rng.random() < 0.3:  # costs are no rates
            told["fairness"]["share"] = "normalised_throughput"
    return told


def _job(rng: Random, name: str, tenant: str, capacities: dict[str, int]) -> dict[str, Any]:
    options = [
        {
            "id": f"o{place}",
            "value": float(rng.randint(0, 12)),
            "uses": {one: rng.randint(0, 4) for one in capacities},
        }
        for place in range(rng.randint(1, 3))
    ]
    job = {"id": name, "tenant": tenant, "required": rng.random() < 0.25, "options": options}
    if rng.random() < 0.25:
        job["current"] = rng.choice(options)["id"]
        job["preemptible"] = rng.random() < 0.5
    return job


def _tree(rng: Random, capacities: dict[str, int]) -> list[dict[str, Any]]:
    """Draw up to six tenants; guarantees add up to no more than there is, at every depth."""
    tenants: list[dict[str, Any]] = []
    for number in range(rng.randint(1, 6)):
        above = rng.choice(tenants)["id"] if tenants and rng.random() < 0.6 else None
        tenants.append({"id": f"t{number}", "parent": above, "weight": rng.choice((1.0, 1.0, 2.0, 0.5))})
    for capacity, amount in capacities.items():
        left, theirs = amount, dict[str, int]()
        for tenant in reversed(tenants):
            own = rng.choice((0, 0, 1, rng.randint(0, left))) if left else 0
            left -= own
            quota: dict[str, int] = {"guarantee": theirs.get(tenant["id"], 0) + own}
            if rng.random() < 0.4:
                quota["lending_limit"] = rng.randint(0, 2)
            if rng.random() < 0.3:
                quota["borrowing_limit"] = rng.randint(0, 3)
            tenant.setdefault("quotas", {})[capacity] = quota
            if tenant["parent"] is not None:
                theirs[tenant["parent"]] = theirs.get(tenant["parent"], 0) + quota["guarantee"]
    return tenants


def wrong_in(told: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the answer to a round, and with what the checker says of it."""
    instance = apportion.read(told)
    found, best = apportion.solve(instance, gap=0.0), truth_tenants.best(told)[1]
    if best is None:
        if str(found.termination) != "infeasible":
            yield f"no plan exists, and the answer is {found.termination}"
        return
    if str(found.termination) != "optimal":
        yield f"ends as {found.termination}: {found.notes}"
        return
    yield from truth_tenants.misshared(told, found)
    due = truth_tenants.due_shares(told)
    total = truth_tenants.best(told, due)[1]
    if "fairness" not in told and total is not None:
        if dict(found.floors or {}) != due:
            yield f"floors are {dict(found.floors or {})}, {due} is due"
        if found.objective is None or abs(Fraction(found.objective) - total) > Fraction(1, 10**6):
            yield f"the objective is {found.objective}, {float(total)} can be had"
    written = json.loads(stored.encode(stored.document(found)))
    checked = stored.verify(instance, written, None)
    for line in checked.claims:
        if line.verdict is Verdict.REFUSED:
            yield f"check refuses a true {line.claim}: {line.how}"


def main() -> int:
    """Ask as many rounds as wanted; print what is wrong and how many were right."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunt.rounds", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="how many rounds")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other rounds")
    given = parser.parse_args()
    wrong, inner, began = 0, 0, time.process_time()
    for number in range(given.count):
        told = drawn_round(Random(f"rounds {given.seed} {number}"))
        parents = {tenant["parent"] for tenant in told["tenants"]}
        inner += any(one in parents for one in truth_tenants.due_shares(told))
        for what in wrong_in(told):
            wrong += 1
            print(f"round {given.seed}/{number}: {what}", flush=True)
    spent = time.process_time() - began
    print(
        f"{given.count} rounds, {inner} with a share due to an inner tenant: {wrong} wrong, {spent:.0f} CPU s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
