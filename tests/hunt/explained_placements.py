"""Explanations of tiny placements held against enumeration, and questions "what if" that must be answered.

``python -m tests.hunt.explained_placements --count 5000``. The exit code is 1 where a sentence is wrong.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

import apportion
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.explanation import explain, what_if
from apportion.explanation.parts import Rival
from apportion.instances import edits
from apportion.instances.placement.kind import maximizes
from apportion.instances.placement.schema import WAITS
from tests.hunt import draw_placement, draw_tenants, truth_placement
from tests.hunt.case import INSTANCE, Case
from tests.hunt.explained import difference_wrong
from tests.hunt.truth import Truth

__all__ = ["drawn", "wrong_sentences"]

Told = dict[str, Any]


def drawn(rng: Random) -> Told:
    """Return a round, one of three with tenants; guarantees beyond what there is are drawn again."""
    draw = draw_tenants.placement_of_tenants if rng.random() < 1 / 3 else draw_placement.instance
    while True:
        told = draw(rng)
        try:
            apportion.read(told)
        except InvalidInstance:
            continue
        return told


def wrong_sentences(told: Told, rng: Random, seen: Counter[str]) -> Iterator[str]:
    """Yield the sentences that are wrong of a round's explanation, and count those that were looked at.

    With tenants nothing is enumerated: sentences are made, and questions answered.
    """
    instance: Any = apportion.read(told)
    solution = apportion.solve(instance, time_limit=60.0)
    job = rng.choice([None, *told["jobs"]])
    name = None if job is None else job["id"]
    option = None if job is None else rng.choice([None, WAITS, *(one["id"] for one in job["options"])])
    try:
        explanation = explain(instance, solution, name, option)
    except InvalidOption:
        seen["refused"] += 1
        return
    seen["explained"] += len(str(explanation)) > 0 and len(json.dumps(explanation.to_dict())) > 0
    yield from _asked(instance, told, rng, seen)
    if "tenants" in told:
        return
    best = _best(told)
    if explanation.feasible is not None and explanation.feasible is not (best is not None):
        yield f"feasible: {explanation.feasible}, but {best}"
    for worth in explanation.jobs:
        for rival in filter(None, (worth.runner_up, worth.asked)):
            seen["rivals"] += 1
            yield from _misjudged(told, worth.job, rival, best, maximize=maximizes(instance))
    for way in explanation.relaxations:
        if way.kind == "unpin":
            jobs = [{**one, "pinned": None} if one["id"] in way.unpin else one for one in told["jobs"]]
            free = {**told, "jobs": jobs}
        elif way.kind == "leave_out" and way.verified:
            free = _without(told, way.leave_out)
        else:
            continue
        if _best(free) is None:
            yield f"{way}: still nothing is feasible"
        seen[way.kind] += 1
    for conflict in explanation.conflicts:
        seen["conflicts"] += 1
        others = [one["id"] for one in told["jobs"] if one["id"] not in conflict.jobs]
        if _best(_without(told, others)) is not None:
            yield f"{conflict}: they can be served together"


def _best(told: Told) -> Fraction | None:
    values = truth_placement.best(told)
    return None if values is None else values[0]


def _without(told: Told, names: Iterable[str]) -> Told:
    """Return a round without some jobs, and without what its rules and goals say of them."""
    left: Told = msgspec.json.decode(msgspec.json.encode(edits.remove_jobs(apportion.read(told), names)))
    return left


def _misjudged(told: Told, job: str, rival: Rival, best: Fraction | None, *, maximize: bool) -> Iterator[str]:
    """Yield what is wrong of what is said of another option."""
    held = []
    for one in told["jobs"]:
        waits = {"pinned": None, "forbidden": [option["id"] for option in one["options"]]}
        other = waits if rival.worth.option == WAITS else {"pinned": rival.worth.option}
        held.append({**one, **other} if one["id"] == job else one)
    other_best = _best({**told, "jobs": held})
    if rival.possible is not None and rival.possible is not (other_best is not None):
        yield f"{job} on {rival.worth.option}: possible is {rival.possible}, but {other_best}"
    if rival.needed is None or best is None:
        return
    truth, other = (Truth(maximize, one) for one in (best, other_best))
    if wrong := difference_wrong(Case(INSTANCE, told), truth, other, rival.needed):
        yield f"{job} on {rival.worth.option}: {wrong}"


def _asked(instance: Any, told: Told, rng: Random, seen: Counter[str]) -> Iterator[str]:
    """Ask what would be otherwise, and yield a refusal that names no place."""
    names, asked = [job["id"] for job in told["jobs"]], dict[str, Any]()
    if names and rng.random() < 0.4:
        asked["remove_jobs"] = [rng.choice(names)]
    if names and rng.random() < 0.4:
        asked["add_jobs"] = [replace(rng.choice(instance.jobs), id="new", current=None, fixed=False)]
    if left := [job for job in told["jobs"] if job["id"] not in asked.get("remove_jobs", ())]:
        job = rng.choice(left)
        asked["pin"] = {job["id"]: rng.choice([WAITS, *(option["id"] for option in job["options"])])}
    if told["nodes"] and rng.random() < 0.4:
        asked["remove_nodes"] = [rng.choice(told["nodes"])["names"]]
    try:
        comparison = what_if(instance, **asked)
    except InvalidInstance as error:  # a rule names what goes
        seen["what if refused"] += 1
        if not all(problem.path.startswith("$") for problem in error.problems):
            yield f"refused without a place: {error}"
        return
    seen["what if"] += len(str(comparison)) > 0 and len(json.dumps(comparison.to_dict())) > 0


def main() -> int:
    """Explain as many rounds as asked for, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    seen, wrong = Counter[str](), 0
    for number in range(given.count):
        rng = Random(f"explained placement {given.seed} {number}")
        for said in wrong_sentences(drawn(rng), rng, seen):
            wrong += 1
            print(number, said)
    print(dict(seen), f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
