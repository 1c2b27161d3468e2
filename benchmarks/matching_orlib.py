"""Generalised assignment, linear assignment and R||Cmax on published files, beside the general solvers.

``python benchmarks/matching_orlib.py FOLDER [SECONDS]``: FOLDER holds ``gap/``, ``assign/`` and ``rcmax/``.
Every backend gets the same seconds and one thread; the last line of each family sums objectives.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import apportion
from apportion.instances import Instance
from apportion.models.assignment import Assignment

PEERS = ("highs", "cp-sat", "scip")


def problems(folder: Path, format: str, pattern: str) -> Iterator[tuple[str, Instance]]:
    """Yield every problem of every file of a format."""
    for path in sorted(folder.glob(pattern)):
        index = 0
        while True:
            try:
                yield f"{path.stem}[{index}]", apportion.read(path, format=format, index=index)
            except apportion.InvalidInstance:
                break
            index += 1


def compare(
    family: str, folder: Path, format: str, pattern: str, seconds: float, peers: tuple[str, ...]
) -> None:
    """Print one line per problem and the sums."""
    total = dict.fromkeys(("auto", *peers), 0.0)
    for name, instance in problems(folder, format, pattern):
        line = [f"{family} {name}"]
        for backend in total:
            began = time.perf_counter()
            solution = apportion.solve(instance, backend=backend, time_limit=seconds)
            took = time.perf_counter() - began
            total[backend] += solution.objective or float("nan")
            line.append(
                f"{backend} {solution.objective} [{solution.bound}] {solution.termination.value} {took:.2f} s"
            )
        print(" | ".join(line), flush=True)
    print(f"{family} sums: {total}", flush=True)


def linear(sizes: tuple[int, ...] = (100, 400, 800)) -> None:
    """Print seconds of random linear assignments, certificate included, beside scipy's matching alone."""
    from scipy.optimize import linear_sum_assignment

    for size in sizes:
        costs = np.random.default_rng(size).integers(1, 101, (size, size)).astype(float)
        model = Assignment.from_matrix("cost", costs, capacities=1)
        own, peer = [], []
        for _ in range(5):
            began = time.perf_counter()
            solution = apportion.solve(model)
            own.append(time.perf_counter() - began)
            began = time.perf_counter()
            linear_sum_assignment(costs)
            peer.append(time.perf_counter() - began)
        proof = solution.certificate.verified_bound
        print(
            f"linear {size}: {min(own):.3f} s (matching alone {min(peer):.3f} s), "
            f"{solution.objective} [{proof}]"
        )


def main() -> None:
    """Run everything."""
    folder = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    linear()
    compare("assign", folder / "assign", "orlib-assign", "assign[1-9]*.txt", seconds, ())
    compare("gap", folder / "gap", "orlib-gap", "gap[1-9a-e]*.txt", seconds, ("highs",))
    compare("rcmax", folder / "rcmax", "rcmax", "fr[0-9]*.txt", seconds, PEERS)


if __name__ == "__main__":
    main()
