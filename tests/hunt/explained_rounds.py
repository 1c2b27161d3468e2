"""Random rounds of tenants, every sentence of their explanation held against enumeration and re-solving.

``python -m tests.hunt.explained_rounds --count 5000 --seed 1``. The exit code is 1 where a sentence is wrong.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import apportion
from apportion.explanation import explain
from apportion.explanation.parts import Difference, Rival, TenantWorth, Waiting
from apportion.instances import edits
from apportion.instances.edits import change_tenant
from tests.hunt import truth_tenants
from tests.hunt.rounds import drawn_round

__all__ = ["wrong_sentences"]

_NEAR = 1e-9


def wrong_sentences(told: dict[str, Any], seen: Counter[str]) -> Iterator[str]:
    """Yield the sentences that are wrong of a round's explanation, and count those that were looked at."""
    instance = apportion.read(told)
    solution = apportion.solve(instance, gap=0.0)
    if str(solution.termination) != "optimal":
        return
    explanation = explain(instance, solution)
    plans = list(truth_tenants._plans(told))
    floors = dict(solution.floors or {})
    kept = [
        plan
        for plan in plans
        if all(truth_tenants._of(told, plan, one) >= due for one, due in floors.items())
    ]
    sign = 1 if told["sense"] == "maximize" else -1
    worths = [(plan.choice, sign * plan.total) for plan in kept]
    for capacity in explanation.capacities:
        for step, said in ((1, capacity.one_more), (-1, capacity.one_fewer)):
            if said is not None:
                seen["one more" if step > 0 else "one fewer"] += 1
                other = apportion.solve(edits.change_capacity(instance, capacity.name, step), gap=0.0)
                yield from _moved(f"{step:+} {capacity.name}", said, solution, other, sign * step)
    for note in explanation.notes:
        seen["notes"] += 1
        if "leaves nothing feasible" in note:
            name = note.split(" of ")[1].split(" leaves")[0]
            if apportion.solve(edits.change_capacity(instance, name, -1)).plan is not None:
                yield f"{note}, but a plan exists"
    for job in explanation.jobs:
        for rival in filter(None, (job.runner_up, job.asked)):
            yield from _rival(told, job.job, rival, worths, seen)
    for waiting in explanation.waiting:
        yield from _waiting(told, solution, waiting, seen)
    for tenant in explanation.tenants:
        yield from _tenant(told, instance, solution, tenant, seen)


def _moved(what: str, said: Difference, before: Any, after: Any, step: int) -> Iterator[str]:
    if after.objective is None:
        yield f"{what}: {said} is told, and there is no plan"
    elif said.exact is not None and abs(said.exact - step * (after.objective - before.objective)) > _NEAR:
        yield f"{what}: {said.exact} is told, {step * (after.objective - before.objective)} is true"


def _rival(
    told: dict[str, Any], job: str, rival: Rival, worths: list[tuple[Any, Fraction]], seen: Counter[str]
) -> Iterator[str]:
    place = next(at for at, one in enumerate(told["jobs"]) if one["id"] == job)
    name = rival.worth.option
    having = [
        worth
        for choice, worth in worths
        if choice[place].name == name or (choice[place].idle and name in (None, "nothing", "-"))
    ]
    best = max(worth for _, worth in worths)
    if rival.possible is False:
        seen["no plan has it"] += 1
        if having:
            yield f"{job} on {name}: no plan that keeps these shares has it, but one does"
    elif rival.needed is not None and rival.needed.exact is not None:
        seen["to win"] += 1
        if not having:
            yield f"{job} on {name}: {rival.needed} is told, but no plan that keeps these shares has it"
        elif abs(Fraction(rival.needed.exact) - (best - max(having))) > Fraction(1, 10**9):
            yield f"{job} on {name}: {rival.needed.exact} is told, {float(best - max(having))} is true"


def _waiting(told: dict[str, Any], solution: Any, waiting: Waiting, seen: Counter[str]) -> Iterator[str]:
    choice = list(truth_tenants._chosen(told, solution.plan) or ())
    place = next(at for at, one in enumerate(told["jobs"]) if one["id"] == waiting.job)
    options = truth_tenants.offers(told, told["jobs"][place])
    wanted = next(one for one in options if one.name == waiting.option)
    fits = truth_tenants._within(told, (*choice[:place], wanted, *choice[place + 1 :]))
    seen["room" if not waiting.limits else "no room"] += 1
    if fits is bool(waiting.limits):
        yield f"{waiting.job} waits: {waiting.limits} are told, but {waiting.option} fits: {fits}"
    for other in waiting.displaces:
        seen["displaces"] += 1
        at = next(at for at, one in enumerate(told["jobs"]) if one["id"] == other)
        nothing = next((one for one in truth_tenants.offers(told, told["jobs"][at]) if one.idle), None)
        if nothing is None:
            yield f"{waiting.job} would displace {other}, which may not wait"
            continue
        without = list(choice)
        without[at], without[place] = nothing, wanted
        if not truth_tenants._within(told, tuple(without)):
            yield f"{waiting.job} would displace {other}, but has no room without it"


def _tenant(
    told: dict[str, Any], instance: Any, solution: Any, tenant: TenantWorth, seen: Counter[str]
) -> Iterator[str]:
    choice = truth_tenants._chosen(told, solution.plan) or ()
    for capacity, owned in truth_tenants._capacities(told).items():
        used: dict[str, int] = {}
        for job, offer in zip(told["jobs"], choice, strict=True):
            used[job["tenant"]] = used.get(job["tenant"], 0) + offer.uses.get(capacity, 0)
        told_use, true_use = tenant.uses[capacity], used.get(tenant.name, 0)
        if told_use != true_use:
            yield f"{tenant.name} uses {told_use} of {capacity}, {true_use} is true"
        used[tenant.name] = used.get(tenant.name, 0) + 1
        children = truth_tenants._children(told)
        room = truth_tenants._most(told, capacity, owned)
        roots = children.get(None, [])
        claims = [truth_tenants._claim(one, capacity, children, used, told)[1] for one in roots]
        full = any(claim is None for claim in claims) or sum(claim or 0 for claim in claims) > room
        full = full or sum(used.values()) > owned
        said = [text for text in tenant.binding if text.startswith((f"{capacity} of", f"{capacity}:"))]
        seen["at a limit"] += 1
        if full is not bool(said):
            yield f"{tenant.name} is at {said}, one more {capacity} is out of reach: {full}"
    for capacity, worth in tenant.one_more_guaranteed.items():
        if worth is not None:
            seen["one more guaranteed"] += 1
            own = tenant.guaranteed[capacity]
            changed = change_tenant(instance, tenant.name, {f"{capacity}.guarantee": own + 1})
            after = apportion.solve(changed)
            shares = [_share(told, tenant.name, one) for one in (solution, after)]
            if abs(shares[1] - shares[0] - worth) > _NEAR:
                yield f"{tenant.name}, one more {capacity} guaranteed: {worth} is told, {shares} are true"


def _share(told: dict[str, Any], name: str, solution: Any) -> float:
    choice = truth_tenants._chosen(told, solution.plan) or ()
    own = {
        job["id"]: truth_tenants._share(told, job, offer)
        for job, offer in zip(told["jobs"], choice, strict=True)
    }
    return sum(own[job] for job in truth_tenants._members(told, name)) / truth_tenants._unit(told)


def main() -> int:
    """Explain as many rounds as wanted; print what is wrong, and how many sentences were looked at."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunt.explained_rounds", description=__doc__)
    parser.add_argument("--count", type=int, default=5_000, help="how many rounds")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other rounds")
    given = parser.parse_args()
    wrong, seen, began = 0, Counter[str](), time.process_time()
    for number in range(given.count):
        for what in wrong_sentences(drawn_round(Random(f"explained {given.seed} {number}")), seen):
            wrong += 1
            print(f"round {given.seed}/{number}: {what}", flush=True)
    spent = time.process_time() - began
    print(", ".join(f"{count} {name}" for name, count in sorted(seen.items())))
    print(f"{given.count} rounds: {wrong} sentences wrong, {spent:.0f} CPU s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
