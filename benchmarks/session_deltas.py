"""A session beside cold calls: CPU milliseconds of a delta, of compiling and of the whole decision.

Menus: many jobs of which one changes. Gap filling: nodes come and go, the plan is carried out, jobs change.
Both roads answer every instance, and their objectives must agree.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import apportion
from apportion.core.interruption import uninterrupted
from apportion.instances.gap_filling.generator import generate
from apportion.service.session import RememberingCompiler, Session
from apportion.solving.registry import formulation
from benchmarks.solved import solved
from benchmarks.timing import provenance

MENUS = "multiple_choice_knapsack"


def menus(rng: np.random.Generator, jobs: int, options: int) -> apportion.MultipleChoiceKnapsackInstance:
    """Return jobs that are not required, with random options under one capacity."""
    return apportion.MultipleChoiceKnapsackInstance(
        "1",
        "maximize",
        {"gpu": 25 * jobs},
        tuple(menu(rng, f"job {number}", options) for number in range(jobs)),
    )


def menu(rng: np.random.Generator, name: str, options: int) -> apportion.KnapsackJob:
    """Return one of them."""
    rows = zip(rng.random(options).tolist(), rng.integers(1, 100, options).tolist(), strict=True)
    listed = tuple(
        apportion.KnapsackOption(f"option {at}", value, {"gpu": use}) for at, (value, use) in enumerate(rows)
    )
    return apportion.KnapsackJob(name, listed, required=False)


def changed_menus(rng: np.random.Generator, session: Session, rounds: int) -> Iterator[list[Any]]:
    """Yield deltas that replace one job each."""
    jobs: Any = session.instance.jobs
    for _ in range(rounds):
        number = int(rng.integers(len(jobs)))
        job = menu(rng, f"job {number}", len(jobs[number].options))
        yield [{"op": "update_job", "job": job}]


def events(rng: np.random.Generator, session: Session, rounds: int) -> Iterator[list[Any]]:
    """Yield what happens between two decisions: the plan is carried out, idle nodes and jobs change."""
    instance: Any = session.instance
    known = list(instance.nodes)
    for _ in range(rounds):
        now: Any = session.instance
        idle = [node for node in known if rng.random() < 0.95]
        job = now.jobs[int(rng.integers(len(now.jobs)))]
        weight = {"id": job.id, "weight": float(rng.choice([0.5, 1.0, 2.0]))}
        carried_out = [] if session.plan is None else [{"op": "adopt", "plan": session.plan}]
        yield [*carried_out, {"op": "set_nodes", "nodes": idle}, {"op": "update_job", "job": weight}]


def compare(session: Session, happenings: Iterator[list[Any]], kind: str) -> dict[str, list[float]]:
    """Return CPU milliseconds of every step of the session, and of the same from nothing."""
    entry, compiler = formulation(kind, None), RememberingCompiler(least_options=0)
    compiler(session.instance, entry)
    session.decide(time_limit=60.0)
    found: dict[str, list[float]] = {}

    def timed(step: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = work()
        found.setdefault(step, []).append(1e3 * (time.process_time() - began))
        return result

    for deltas in happenings:
        instance = timed("deltas", lambda deltas=deltas: session.apply(*deltas))
        timed("compile, patched", lambda instance=instance: compiler(instance, entry))
        timed("compile, cold", lambda instance=instance: entry.compile(instance))
        decision = timed("decision of the session", lambda: session.decide(time_limit=60.0))
        outcome = uninterrupted(decision.solution).outcome
        fixing = {} if outcome is None else outcome.seconds
        found.setdefault("  of it fixing (by the clock)", []).append(1e3 * fixing.get("reduce", 0.0))
        cold = timed("cold solve", lambda instance=instance: solved(instance, time_limit=60.0))
        if abs(decision.objective - cold.objective) > 1e-9 * abs(cold.objective):
            raise AssertionError(f"the session says {decision.objective}, a cold call {cold.objective}")
    return found


def main() -> None:
    """Parse the options and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs with menus of 8 options")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(provenance())
    rng = np.random.default_rng(given.seed)
    session = Session(menus(rng, given.jobs, 8))
    report(
        f"{given.jobs} jobs x 8 options, one job changed",
        compare(session, changed_menus(rng, session, given.rounds), MENUS),
    )
    session = Session(generate(jobs=20, nodes=200, seed=given.seed))
    happenings = events(rng, session, given.rounds)
    report("gap filling, 20 jobs x 200 nodes", compare(session, happenings, "gap_filling"))


def report(title: str, found: dict[str, list[float]]) -> None:
    """Print median and largest CPU milliseconds of every step."""
    print(f"\n{title}: CPU milliseconds, median and largest of {len(found['deltas'])}")
    for step, spent in found.items():
        print(f"  {step:30} {np.median(spent):9.3f} {max(spent):9.3f}")


if __name__ == "__main__":
    main()
