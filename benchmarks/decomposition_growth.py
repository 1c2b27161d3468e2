"""How the price-directed decomposition grows with the number of jobs, beside the engine and HiGHS.

Run ``python -m benchmarks.decomposition_growth`` for the table: 10^3 to 10^7 jobs of 8 options over two
worker processes that make their menus themselves, from a seed, 16,384 jobs at a time. Every line is one run,
timed from the first question to the checked plan and its proven bound; CPU seconds, which other load on the
machine hardly moves, are of the driver and all workers together; peak memory is of the driver and of
the worker that used most. The engine for one machine has all menus in memory beforehand, which is not
counted; where both ran, neither's plan may beat the other's bound.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

import apportion
from apportion.cli.output import check_target
from apportion.cli.running import in_one_line
from apportion.scale.decomposition import GeneratedMenus, ShardedKnapsack, check_sharded, solve_sharded
from apportion.scale.executors import in_order, open_executor
from benchmarks.solved import solved
from benchmarks.timing import provenance

SHARD_JOBS = 1 << 19


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.decomposition_growth", description=__doc__)
    parser.add_argument("--executor", default="process:2", help="process:N, dask:N or dask://HOST:PORT")
    parser.add_argument("--smallest", type=int, default=1000)
    parser.add_argument("--largest", type=int, default=10_000_000)
    parser.add_argument("--capacities", type=int, default=1)
    parser.add_argument("--law", choices=["uncorrelated", "alike"], default="uncorrelated")
    parser.add_argument("--gap", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2, help="runs of each size; the fastest counts")
    parser.add_argument("--engine-up-to", type=int, default=1_000_000, help="run the engine for one machine")
    parser.add_argument("--highs-up-to", type=int, default=1000)
    parser.add_argument(
        "--plan", type=Path, help="write the largest plan into this folder, check it from there"
    )
    parser.add_argument("--out", type=Path, help="append one JSON object per size")
    given = parser.parse_args(arguments)
    check_target(None if given.out is None else str(given.out))
    sizes = [10**e for e in range(1, 13) if given.smallest <= 10**e <= given.largest]
    print(provenance("highspy"))
    print(
        f"{given.executor}, seed {given.seed}, {given.law}, 8 options, {given.capacities} capacities, "
        f"gap {given.gap:g}\n"
    )
    rows = []
    with open_executor(given.executor) as executor:
        assert executor is not None
        list(
            in_order(executor, peak_mib, ((0.2,) for _ in range(8)))
        )  # processes start once, before the clock
        heads = f"{'jobs':>12}{'seconds':>10}{'CPU s':>10}{'us/job':>8}{'gap':>10}{'passes':>8}"
        print(f"{heads}{'driver MiB':>12}{'worker MiB':>12}")
        for jobs in sizes:
            row = measured(jobs, given, executor, given.plan if jobs == sizes[-1] else None)
            rows.append(row)
            print(
                f"{jobs:>12,}{row['seconds']:>10.3f}{row['cpu']:>10.3f}{1e6 * row['cpu'] / jobs:>8.2f}"
                f"{row['gap']:>10.1e}{row['whole_passes']:>8}{row['driver_mib']:>12.0f}{row['worker_mib']:>12.0f}",
                flush=True,
            )
        if given.plan is not None:
            began = time.perf_counter()
            report = check_sharded(problem(sizes[-1], given), str(given.plan), executor, exact_jobs=100)
            took = time.perf_counter() - began
            print(f"\nplan checked from its files in {took:.1f} s: {report}")
    heads = f"{'jobs':>12}{'engine s':>10}{'ratio':>8}{'engine gap':>12}"
    print(f"\n{heads}{'HiGHS s':>10}{'ratio':>8}{'HiGHS gap':>12}")
    for row in rows:
        if row["jobs"] <= given.engine_up_to:
            print(beside(row, given))
    print_rows(rows, given.executor)
    if given.out is not None:
        with given.out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def problem(jobs: int, given: argparse.Namespace) -> ShardedKnapsack:
    menus = GeneratedMenus(given.seed, capacities=given.capacities, law=given.law)
    shards = max(8, -(-jobs // SHARD_JOBS))
    return ShardedKnapsack.split(menus, jobs, menus.room(jobs), shards)


def measured(jobs: int, given: argparse.Namespace, executor: Executor, plan: Path | None) -> dict[str, Any]:
    best: Any = None
    cpu = 0.0
    for _ in range(given.repeats):
        if plan is not None:
            plan.mkdir(parents=True, exist_ok=True)
        began = time.process_time()
        solution = solve_sharded(
            problem(jobs, given), executor, gap=given.gap, folder=None if plan is None else str(plan)
        )
        driver = time.process_time() - began
        if best is None or solution.seconds["total"] < best.seconds["total"]:
            best, cpu = solution, driver + solution.seconds["workers_cpu"]
    if best.gap is None:
        raise RuntimeError(f"no plan for {jobs} jobs: {best.termination.value}")
    peaks = [row.require() for row in in_order(executor, peak_mib, ((0.05,) for _ in range(8)))]
    return {
        "jobs": jobs,
        "seconds": best.seconds["total"],
        "cpu": cpu,
        "phases": dict(best.seconds),
        "objective": best.objective,
        "bound": best.bound,
        "gap": best.gap,
        "termination": best.termination.value,
        "whole_passes": sum(one.jobs == jobs for one in best.passes) + 1,
        "open_jobs": best.passes[-1].open_jobs,
        "driver_mib": peak_mib(0.0)[1],
        "worker_mib": max(mib for _, mib in peaks),
    }


def peak_mib(wait_s: float) -> tuple[int, float]:
    """Return this process and its peak resident set; waits, so that every worker gets a call."""
    time.sleep(wait_s)
    return os.getpid(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def beside(row: dict[str, Any], given: argparse.Namespace) -> str:
    """Return a line of the engine's and HiGHS's figures for the same menus."""
    whole = problem(row["jobs"], given)
    part = whole.shards[0].menus(0, row["jobs"])
    model = apportion.MultipleChoiceKnapsack.from_arrays(
        part.values, part.uses, part.offsets, whole.capacities
    )
    line = f"{row['jobs']:>12,}"
    for name, largest in (("exact", given.engine_up_to), ("highs", given.highs_up_to)):
        if row["jobs"] > largest:
            line += f"{'-':>10}{'-':>8}{'-':>12}"
            continue
        began = time.perf_counter()
        solution = solved(model, backend=name, gap=given.gap, time_limit=60.0)
        took = time.perf_counter() - began
        if solution.objective is None or solution.gap is None or solution.bound is None:
            line += f"{took:>10.3f}{took / row['seconds']:>8.2f}{'no plan':>12}"
            continue
        slack = 1e-9 * abs(row["bound"])
        if solution.objective > row["bound"] + slack or row["objective"] > solution.bound + slack:
            raise RuntimeError(f"{row['jobs']} jobs: a plan beats the other's bound")
        row |= {f"{name}_seconds": took, f"{name}_gap": solution.gap, f"{name}_objective": solution.objective}
        line += f"{took:>10.3f}{took / row['seconds']:>8.2f}{solution.gap:>12.1e}"
    return line


def print_rows(rows: list[dict[str, Any]], executor: str) -> None:
    """Print the fitted exponents, the cost per job, and what they make of 10^9 jobs."""
    some = [row for row in rows if row["jobs"] >= 100_000]
    if len(some) < 2:
        return
    print()
    for name, key in (("wall-clock", "seconds"), ("CPU, driver and workers", "cpu")):
        jobs = np.array([row["jobs"] for row in some], dtype=np.float64)
        seconds = np.array([row[key] for row in some])
        exponent = float(np.polyfit(np.log(jobs), np.log(seconds), 1)[0])
        slope = math.log(seconds[-1] / seconds[-2]) / math.log(jobs[-1] / jobs[-2])
        weight = 1.0 / seconds  # relative residuals count alike
        columns = np.stack((np.ones(jobs.size), jobs), axis=1) * weight[:, None]
        fixed, each = np.linalg.lstsq(columns, seconds * weight, rcond=None)[0].tolist()
        where = f"from {some[0]['jobs']:,} jobs on, ^{slope:.2f} between the last two"
        print(f"{name}: ~ jobs^{exponent:.2f} {where}")
        minutes = (fixed + 1e9 * each) / 60
        print(f"    {fixed:.2f} s + {1e6 * each:.3f} s per million jobs: {minutes:.1f} minutes for 10^9 jobs")
    print(f"({executor})")


if __name__ == "__main__":
    with in_one_line("python -m benchmarks.decomposition_growth"):
        main()
