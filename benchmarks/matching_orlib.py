"""Generalised assignment, linear assignment and R||Cmax on published files, beside the general solvers.

``python -m benchmarks.matching_orlib FOLDER [--seconds S] [--quick] [--only FAMILY]``: FOLDER holds ``gap/``,
``assign/`` and ``rcmax/``. Every backend gets the same seconds and one thread; each family ends with the sums
and the ratio of every peer's to ours. ``--quick`` takes two files of each family and two seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import apportion
from apportion.instances import Instance
from apportion.models.assignment import Assignment
from benchmarks.solved import solved
from benchmarks.timing import provenance

PEERS = ("highs", "cp-sat", "scip")
FAMILIES = ("linear", "transportation", "assign", "gap", "gapc", "rcmax")
FIRST = """
import time, numpy as np, apportion
from apportion.models.assignment import Assignment
costs = np.random.default_rng({seed}).integers(1, {high} + 1, ({size}, {size})).astype(float)
model = Assignment.from_matrix("cost", costs, capacities=1)
began = time.perf_counter()
apportion.solve(model)
print(time.perf_counter() - began)
"""


def problems(folder: Path, format: str, pattern: str, quick: bool) -> Iterator[tuple[str, Instance]]:
    """Yield every problem of every file of a format; quick: the first of the first two files."""
    for path in sorted(folder.glob(pattern))[: 2 if quick else None]:
        index = 0
        while not (quick and index):
            try:
                yield f"{path.stem}[{index}]", apportion.read(path, format=format, index=index)
            except apportion.InvalidInstance:
                break
            index += 1


def compare(
    family: str, cases: Iterator[tuple[str, Instance]], seconds: float, peers: tuple[str, ...]
) -> None:
    """Print one line per problem, then sums, ratios and how many were proven."""
    names = ("auto", *peers)
    found: dict[str, list[float]] = {name: [] for name in names}
    took: dict[str, list[float]] = {name: [] for name in names}
    gaps: dict[str, list[float]] = {name: [] for name in names}
    busy: list[float] = []
    signs = []
    for name, instance in cases:
        signs.append(-1.0 if getattr(instance, "objective", "cost") == "value" else 1.0)
        line = [f"{family} {name}"]
        for backend in names:
            began, worked = time.perf_counter(), time.process_time()
            solution = solved(instance, backend=backend, time_limit=seconds)
            took[backend].append(time.perf_counter() - began)
            if backend == "auto":
                busy.append(time.process_time() - worked)
            found[backend].append(float("nan") if solution.objective is None else solution.objective)
            gaps[backend].append(float("inf") if solution.gap is None else solution.gap)
            line.append(f"{backend} {solution.objective} [{solution.bound}] {took[backend][-1]:.2f} s")
        print(" | ".join(line), flush=True)
    own = np.array(found["auto"])
    for backend in names:
        other, times = np.array(found[backend]), took[backend]
        behind = np.array(signs) * (own - other) / np.abs(other)
        told = (
            f"sum {other.sum():.6g} ({other.sum() / own.sum():.5f} of ours)",
            f"ours behind by at most {100 * max(behind.max(), 0.0):.3f} %",
            f"proven {sum(gap <= 0 for gap in gaps[backend])} of {own.size}",
            f"largest gap {100 * max(gaps[backend]):.3f} %",
            f"{sum(times):.1f} s ({sum(times) / sum(took['auto']):.2f} of ours), {max(times):.2f} s at most",
        )
        print(f"{family} {backend}: {'; '.join(told)}", flush=True)
    print(f"{family} auto: {max(busy):.2f} CPU seconds of this process at most", flush=True)


def linear(sizes: tuple[int, ...], highs: tuple[int, ...] = (100, 1_000, 1_000_000)) -> None:
    """Print seconds of random linear assignments, certificate included, first call and best of five."""
    from scipy.optimize import linear_sum_assignment

    for size in sizes:
        for high in highs:
            costs = np.random.default_rng(size).integers(1, high + 1, (size, size)).astype(float)
            model = Assignment.from_matrix("cost", costs, capacities=1)
            own, peer = [], []
            for _ in range(5):
                began = time.perf_counter()
                solution = solved(model)
                own.append(time.perf_counter() - began)
                began = time.perf_counter()
                linear_sum_assignment(costs)
                peer.append(time.perf_counter() - began)
            program = FIRST.format(seed=size, high=high, size=size)
            first = min(
                float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
                for _ in range(3)
            )
            print(
                f"linear {size} x {size}, costs to {high}: {min(own):.3f} s, in a new process {first:.3f} s "
                f"(the matching alone {min(peer):.3f} s, ours {min(own) / min(peer):.1f} times that), "
                f"{solution.objective} [{solution.certificate.verified_bound}]",
                flush=True,
            )


def transportation(jobs: int, kinds: int = 20, machines: int = 50) -> None:
    """Print seconds of jobs of a few kinds on machines with slots: our road beside HiGHS."""
    rng = np.random.default_rng(jobs)
    values = rng.integers(1, 1_000, (kinds, machines))[rng.integers(0, kinds, jobs)] / 4
    model = Assignment.from_matrix("cost", values, capacities=jobs // machines + 2)
    solved(model)  # loads the flow
    own, peer = [], []
    for _ in range(3):
        began = time.perf_counter()
        solution = solved(model)
        own.append(time.perf_counter() - began)
    began = time.perf_counter()
    other = solved(model, backend="highs", time_limit=60.0)
    peer.append(time.perf_counter() - began)
    print(
        f"transportation, {jobs} jobs of {kinds} kinds on {machines} machines: {min(own):.3f} s, HiGHS "
        f"{min(peer) / min(own):.0f} times that; {solution.objective} and {other.objective} "
        f"[{solution.certificate.verified_bound}]",
        flush=True,
    )


def main() -> None:
    """Run the families asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=FAMILIES, action="append")
    given = parser.parse_args()
    quick, only = given.quick, given.only or FAMILIES
    seconds = given.seconds or (2.0 if quick else 10.0)
    print(provenance("highspy", "ortools", "scipy"), flush=True)
    if "linear" in only:
        linear((100,) if quick else (100, 400, 800), (100,) if quick else (100, 1_000, 1_000_000))
    if "transportation" in only:
        transportation(500 if quick else 2_000)
    families = {
        "assign": ("assign", "orlib-assign", "assign[1-9]*.txt", ()),
        "gap": ("gap", "orlib-gap", "gap[1-9ab]*.txt", ("highs",)),
        "gapc": ("gap", "orlib-gap", "gap[c-e].txt", ("highs",)),
        "rcmax": ("rcmax", "rcmax", "fr[0-9]*.txt", PEERS),
    }
    for family, (folder, format, pattern, peers) in families.items():
        if family in only:
            cases = problems(given.folder / folder, format, pattern, quick)
            compare(family, cases, seconds, peers)


if __name__ == "__main__":
    main()
