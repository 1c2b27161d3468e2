"""Rounds of which one job in a hundred has changed: CPU seconds cold, and from the round before.

Engine: menus under few capacities, and jobs on two of sixty racks each. Session: menus whose changed jobs are
deltas; compiling, checking and telling the plan are in both. The gap asked for is the same on both sides, and
what came of it is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

import apportion
from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Outcome, relative_gap
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.exact import solve
from benchmarks.suite.making import make
from benchmarks.timing import best_of, provenance

_CHANGED = 0.01


def menus(seed: int, jobs: int, capacities: int) -> MultipleChoiceKnapsack:
    """Return jobs of one to six GPUs, falling returns, any use of other capacities; a third fits."""
    rng = np.random.default_rng(seed)
    gpus = np.tile(np.arange(1, 7), jobs)
    worth = rng.uniform(500.0, 2000.0, jobs).repeat(6) * gpus ** rng.uniform(0.3, 0.95, jobs).repeat(6)
    uses = rng.integers(1, 40, (6 * jobs, capacities)) * gpus[:, None]
    rooms = (3 * uses.reshape(jobs, 6, capacities).max(axis=1).sum(axis=0)) // 10
    values = np.round(worth * rng.uniform(0.9, 1.1, 6 * jobs))
    offsets = np.arange(0, 6 * jobs + 1, 6)
    return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, rooms, required=False)


def racks(seed: int, jobs: int, capacities: int) -> MultipleChoiceKnapsack:
    """Return the suite's jobs on two racks each."""
    made: MultipleChoiceKnapsack = make(
        "pairs_of_racks", {"seed": seed, "jobs": jobs, "racks": capacities}, None
    )
    return made


def changed(
    model: MultipleChoiceKnapsack, other: MultipleChoiceKnapsack, seed: int
) -> MultipleChoiceKnapsack:
    """Return a model with the menus of another one for one job in a hundred."""
    jobs = np.random.default_rng(seed).random(model.num_jobs) < _CHANGED
    taken = np.flatnonzero(np.repeat(jobs, np.diff(model.offsets)))
    values, rows = model.values.copy(), np.arange(model.num_options)
    values[taken] = other.values[taken]
    rows[taken] += model.num_options
    both = vstack([csr_array(model.matrix), csr_array(other.matrix)], format="csr")[rows]
    return replace(model, values=values, matrix=both if model.num_capacities > 20 else both.toarray())


def engine(make_one: Callable[..., Any], jobs: int, capacities: int, seed: int, gap: float) -> str:
    """Return one line: the engine alone."""
    first = make_one(seed, jobs, capacities)
    later = changed(first, make_one(seed + 1000, jobs, capacities), seed)
    options = SolveOptions(time_limit=120.0, gap=gap)
    before: Outcome = solve(first, options, Start())
    cold_s, cold = best_of(1, lambda: solve(later, options, Start()))
    warm_s, warm = best_of(1, lambda: solve(later, options, Start(before.point, hint=before.multipliers)))
    return f"{_line(cold_s, cold)} {_line(warm_s, warm)} {warm_s / cold_s:6.2f}"


def _line(seconds: float, found: Any) -> str:
    return f"{seconds:7.3f} s, gap {relative_gap(found.objective, found.bound):.1e}"


def session(jobs: int, seed: int, gap: float) -> str:
    """Return one line: a session of menus, against a new one with the same instance."""
    rng = np.random.default_rng(seed)

    def job(number: int, version: str) -> apportion.KnapsackJob:
        uses = rng.integers(1, 40, (6, 3)) * np.arange(1, 7)[:, None]
        worth = np.round(rng.uniform(500.0, 2000.0) * np.arange(1, 7) ** rng.uniform(0.3, 0.95))
        options = tuple(
            apportion.KnapsackOption(f"{gpus}", float(value), dict(zip("abc", use.tolist(), strict=True)))
            for gpus, (value, use) in enumerate(zip(worth, uses, strict=True), 1)
        )
        return apportion.KnapsackJob(f"{version}{number}", options, required=False)

    rooms = dict.fromkeys("abc", 36 * jobs)
    instance = apportion.MultipleChoiceKnapsackInstance(
        "1", "maximize", rooms, tuple(job(number, "job ") for number in range(jobs))
    )
    kept = apportion.Session(instance)
    kept.decide(gap=gap, time_limit=120.0)
    numbers = rng.choice(jobs, int(_CHANGED * jobs), replace=False).tolist()
    gone = [{"op": "remove_job", "id": f"job {number}"} for number in numbers]
    kept.apply(*gone, *({"op": "add_job", "job": job(number, "new ")} for number in numbers))
    warm_s, warm = best_of(1, lambda: kept.decide(gap=gap, time_limit=120.0).solution)
    fresh = apportion.Session(kept.instance)
    cold_s, cold = best_of(1, lambda: fresh.decide(gap=gap, time_limit=120.0).solution)
    return f"{_line(cold_s, cold)} {_line(warm_s, warm)} {warm_s / cold_s:6.2f}"


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    print(provenance())
    for seed in range(given.seeds):
        for name, maker, capacities, gap in (
            ("menus", menus, 3, 1e-5),
            ("menus", menus, 8, 1e-5),
            ("racks", racks, 60, 3e-4),
        ):
            line = engine(maker, given.jobs, capacities, seed, gap)
            print(f"{name} under {capacities}, seed {seed}: {line}", flush=True)
        print(f"session, seed {seed}: {session(given.jobs, seed, 1e-5)}", flush=True)


if __name__ == "__main__":
    main()
