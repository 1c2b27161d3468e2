"""Goals in strict order and running jobs that are kept: every kind beside the enumeration of all plans.

    python -m tests.hunt.in_order --count 20000 --seed 1 [--backend B]

Drawn are rounds of the three kinds whose jobs may run already: menus of one to four capacities with up to
three goals, with and without tenants and a limit on changes, gap filling and freezing. Values are few, so
that ties are everywhere, and not always on a grid. Of all plans that keep the rules (and the shares that are
due) the answer must be the best by objective, then by every goal, then by jobs stopped, then by jobs moved;
every bound must be the value it reaches (a plan that was decided again in whole numbers has none); the stored
result must pass `check`, and with another value or a bound that is too good it must not. Objectives within
1e-9 are equal. The exit code is 1 where one differs.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from random import Random
from typing import Any

from msgspec import UNSET

import apportion
from apportion.instances import kind_of
from apportion.io.stored import document, verify
from apportion.proofs.certificate import encode
from tests.hunt.hunting import compared

__all__ = ["BACKENDS", "best", "drawn", "wrong"]

BACKENDS = ("auto", "auto", "auto", "highs", "cp-sat")
Ranked = tuple[Fraction, ...]


def drawn(rng: Random) -> Any:
    """Draw a round in which some jobs run."""
    kind = rng.choice((_menus, _menus, _menus, _gap_filling, _freezing))
    return apportion.read({"schema_version": "1", **kind(rng)})


def _menus(rng: Random) -> dict[str, Any]:
    names = [f"c{k}" for k in range(rng.randint(1, 4))]
    goals = [f"g{k}" for k in range(rng.choice((0, 0, 1, 2, 3)))]
    low, scale = rng.choice((0, 0, -2)), rng.choice((1, 1, 1, 10**5, 10**9))
    sense, odd = rng.choice(("maximize", "maximize", "minimize")), rng.choice((1.0, 1.0, 1.0, 0.1, 1 / 3))
    jobs: list[dict[str, Any]] = []
    for number in range(rng.randint(1, 5)):
        options = [
            {
                "id": f"o{k}",
                "value": float(rng.randint(1, 3)) * rng.choice((1, 1, 1, 0.5)) * odd,
                "uses": {name: rng.randint(0, 3) for name in names},
                **({"goals": {goal: rng.randint(low, 2) * scale for goal in goals}} if goals else {}),
            }
            for k in range(rng.randint(1, 3))
        ]
        jobs.append({"id": f"j{number}", "required": rng.random() < 0.2, "options": options})
        if rng.random() < 0.6:
            jobs[-1]["current"] = rng.choice(options)["id"]
    found: dict[str, Any] = {"kind": "multiple_choice_knapsack", "sense": sense, "jobs": jobs}
    found["capacities"] = {name: rng.randint(2, 8) for name in names}
    if goals:
        found["goals"] = [{"name": goal, "sense": rng.choice(("maximize", "minimize"))} for goal in goals]
    if rng.random() < 0.4:
        _own(rng, found, names[0])
    if rng.random() < 0.3:
        found["max_changes"] = rng.randint(0, 3)
    return found


def _own(rng: Random, found: dict[str, Any], capacity: str) -> None:
    """Give the jobs to two tenants, one with a limit or a guarantee."""
    for job in found["jobs"]:
        job["tenant"] = rng.choice("ab")
    quota = {"guarantee": rng.choice((0, 0, 1, 2)), "borrowing_limit": rng.choice((None, 2, 4))}
    found["tenants"] = [{"id": "a", "quotas": {capacity: quota}}, {"id": "b"}]


def _gap_filling(rng: Random) -> dict[str, Any]:
    nodes = [f"n{k}" for k in range(rng.randint(2, 6))]
    free, jobs = [*nodes], list[dict[str, Any]]()
    for number in range(rng.randint(1, 4)):
        least = rng.randint(1, 2)
        most = rng.randint(least, 3)
        rate = list(itertools.accumulate(rng.choice((0.0, 1.0, 1.0)) for _ in range(most)))
        job: dict[str, Any] = {"id": f"j{number}", "min_nodes": least, "max_nodes": most}
        job["scaling"] = {"nodes": [*range(most + 1)], "rate": [0.0, *rate]}
        job |= {"rescale_up_s": 0.0, "rescale_down_s": 0.0}
        held = rng.choice((0, least, most))
        if held and held <= len(free):
            job["current_nodes"] = [free.pop() for _ in range(held)]
        jobs.append(job)
    return {"kind": "gap_filling", "horizon_s": rng.choice((2.0, 2.0, 1 / 7)), "nodes": nodes, "jobs": jobs}


def _freezing(rng: Random) -> dict[str, Any]:
    types = {f"t{k}": rng.randint(1, 5) for k in range(rng.randint(1, 2))}
    jobs = list[dict[str, Any]]()
    for number in range(rng.randint(1, 4)):
        places = [(name, gpus) for name in types for gpus in (1, 2)]
        rows = [
            {"gpu_type": name, "gpus": gpus, "depths": [0], "effective_progress": [float(rng.randint(1, 2))]}
            for name, gpus in rng.sample(places, rng.randint(1, len(places)))
        ]
        job: dict[str, Any] = {"id": f"j{number}", "layers": 4, "menu": rows, "reference_progress": 1.0}
        if rng.random() < 0.6:
            row = rng.choice(rows)
            job["current"] = {"gpu_type": row["gpu_type"], "gpus": row["gpus"], "depth": 0}
        jobs.append(job)
    head = {"kind": "freezing", "gpus": types, "round_s": 60.0, "power": 1.0, "queue_penalty": 0.0}
    return {**head, "jobs": jobs}


def _plans(instance: Any) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Yield every plan, with what it gains: goals, jobs kept running, and jobs left as they are."""
    match type(instance).__name__:
        case "MultipleChoiceKnapsackInstance":
            yield from _choices(instance)
        case "GapFillingInstance":
            yield from _allocations(instance)
        case _:
            yield from _configurations(instance)


def _choices(instance: Any) -> Iterator[tuple[dict[str, Any], list[int]]]:
    wanted = () if instance.goals is UNSET else instance.goals
    goals = [(goal.name, 1 if goal.sense == "maximize" else -1) for goal in wanted]
    has = {job.id: job.current for job in instance.jobs if job.current is not None}
    for got in itertools.product(*([None, *job.options] for job in instance.jobs)):
        choice = {job.id: one.id for job, one in zip(instance.jobs, got, strict=True) if one is not None}
        sums = [sign * sum(one.goals[name] for one in got if one is not None) for name, sign in goals]
        kept = [sum(name in choice for name in has), sum(choice.get(n) == now for n, now in has.items())]
        yield {"choice": choice}, sums + kept


def _allocations(instance: Any) -> Iterator[tuple[dict[str, Any], list[int]]]:
    jobs = instance.jobs
    for counts in itertools.product(*([0, *range(job.min_nodes, job.max_nodes + 1)] for job in jobs)):
        if sum(counts) > len(instance.nodes):
            continue
        kept = {job.id: [*job.current_nodes[:count]] for job, count in zip(jobs, counts, strict=True)}
        free = [node for node in instance.nodes if all(node not in own for own in kept.values())]
        for job, count in zip(jobs, counts, strict=True):
            while len(kept[job.id]) < count:
                kept[job.id].append(free.pop(0))
        now = [len(job.current_nodes) for job in jobs]
        running = sum(count > 0 for count, had in zip(counts, now, strict=True) if had)
        same = sum(count == had for count, had in zip(counts, now, strict=True) if had)
        yield {"allocation": {name: own for name, own in kept.items() if own}}, [running, same]


def _configurations(instance: Any) -> Iterator[tuple[dict[str, Any], list[int]]]:
    for got in itertools.product(*([None, *job.menu] for job in instance.jobs)):
        pairs = list(zip(instance.jobs, got, strict=True))
        given = {
            job.id: {"gpu_type": row.gpu_type, "gpus": row.gpus, "depth": 0}
            for job, row in pairs
            if row is not None
        }
        has = [(job.current, row) for job, row in pairs if job.current is not None]
        running = sum(row is not None for _, row in has)
        same = sum(
            row is not None and (row.gpu_type, row.gpus) == (now.gpu_type, now.gpus) for now, row in has
        )
        yield {"configuration": given}, [running, same]


def _near(objective: Fraction) -> Fraction:
    """Return an objective without the digits in which equal sums of doubles differ."""
    return Fraction(round(objective * 10**9), 10**9)


def best(instance: Any) -> Ranked | None:
    """Return objective and gains of the best plan in strict order, ``None`` where there is no plan."""
    kind, found = kind_of(instance), None
    sign = 1 if kind.maximizes(instance) else -1
    for plan, gained in _plans(instance):
        if kind.check(instance, plan).feasible:
            ranked = (_near(sign * kind.exact_objective(instance, plan)), *map(Fraction, gained))
            found = ranked if found is None else max(found, ranked)
    return found


def wrong(instance: Any, backend: str, rng: Random) -> Iterator[str]:
    """Yield what differs from the enumeration."""
    solution = apportion.solve(instance, backend, time_limit=60.0, proof=rng.random() < 0.3)
    held = solution.held
    truth, sign = best(held), 1 if kind_of(instance).maximizes(instance) else -1
    if truth is None or solution.plan is None:
        if truth is not None or solution.termination.value != "infeasible":
            yield f"{solution.termination} where the best is {truth}"
        return
    got = next(gained for plan, gained in _plans(held) if _same(plan, solution.plan))
    have = (_near(sign * kind_of(held).exact_objective(held, solution.plan)), *map(Fraction, got))
    if have != truth:
        yield f"{tuple(map(str, have))} where {tuple(map(str, truth))} can be had"
    again = "decided in whole numbers" in solution.notes  # of such a plan no bound of a goal is told
    for one in solution.goals:
        if not (one.proven or (again and one.bound is None)):
            yield f"{one.name} is open: {one.value}, bound {one.bound}"
    record = document(solution, proof_name=None if solution.proof is None else "p")
    proof = None if solution.proof is None else encode(solution.proof)
    lines = verify(instance, record, proof)
    if not lines.ok:
        yield f"check refuses it: {[line for line in lines.claims if line.verdict == 'refused']}"
    for forged in _forged(record, rng):
        if verify(instance, forged, proof).ok:
            yield f"a forged goal passes: {forged['goals']} for {record['goals']}"


def _same(plan: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether plans give every job as much."""
    own, its = next(iter(plan.values())), next(iter(other.values()))
    if "allocation" in plan:
        own, its = ({job: len(nodes) for job, nodes in one.items()} for one in (own, its))
    if "configuration" in plan:
        own, its = ({job: (one["gpu_type"], one["gpus"]) for job, one in each.items()} for each in (own, its))
    return dict(own) == {job: one for job, one in its.items() if one is not None}


def _forged(record: Mapping[str, Any], rng: Random) -> Iterator[dict[str, Any]]:
    """Yield results with another value of a goal, a bound that the plan beats, or goals that are none."""
    goals = record.get("goals")
    if not goals:
        return
    at = rng.randrange(len(goals))
    better = 1 if goals[at]["sense"] == "maximize" else -1
    forged = [
        {"value": goals[at]["value"] + better},
        {"bound": goals[at]["value"] - better},
        {"name": "other"},
    ]
    for change in forged:
        yield {**record, "goals": [*goals[:at], {**goals[at], **change}, *goals[at + 1 :]]}


def main() -> int:
    """Draw, compare, print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=sorted({*BACKENDS}))
    asked = parser.parse_args()

    def round_of(number: int) -> Iterator[str]:
        rng = Random(f"in order {asked.seed} {number}")
        instance = drawn(rng)
        return wrong(instance, asked.backend or rng.choice(BACKENDS), rng)

    return compared(asked.count, round_of)


if __name__ == "__main__":
    sys.exit(main())
