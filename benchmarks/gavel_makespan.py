"""Gavel's minimum-makespan policy: one linear program beside the bisection it replaces.

``python benchmarks/gavel_makespan.py [THROUGHPUTS.json]``: jobs drawn from a throughput table (a synthetic
one without the file), steps for a log-uniform 10^1.5 to 10^4 minutes on the slowest type, a quarter as many
GPUs of every type as jobs, divided by `CONGESTION`. The bisection is Gavel's (min_total_duration.py, OSDI
2020): feasibility programs in T from 100 to 10^6 seconds until 1.05 lo >= hi, here on HiGHS as well.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import lower_assignment
from apportion.solvers.assignment.lp import Unsolved, relax
from benchmarks.solved import solved

CONGESTION = 8
SIZES = (64, 256, 1024, 2048)


def speeds(path: Path | None) -> NDArray[np.float64]:
    """Return float64 [job types, GPU types]: steps per second of single-GPU jobs."""
    if path is None:
        rng = np.random.default_rng(0)
        return np.asarray(rng.lognormal(0, 1, (26, 1)) * [1.0, 2.5, 4.0] * rng.lognormal(0, 0.4, (26, 3)))
    from apportion.instances.readers.gavel import throughputs

    table = throughputs(path.read_bytes())
    kinds = sorted({gpu for row in table.values() for gpu in row})
    rows = [
        [row[k] for k in kinds] for (_, gpus), row in table.items() if gpus == 1 and len(row) == len(kinds)
    ]
    return np.array(rows)


def drawn(seed: int, size: int, table: NDArray[np.float64]) -> Assignment:
    """Return a divisible makespan of jobs drawn from a table."""
    rng = np.random.default_rng(seed)
    rates = table[rng.integers(0, table.shape[0], size)]
    steps = 60 * 10 ** rng.uniform(1.5, 4, size) * rates.min(axis=1)
    times = steps[:, None] / rates
    jobs, types = times.shape
    count = max(size // 4 // CONGESTION, 1)
    return Assignment.from_arrays(
        "makespan",
        times.ravel(),
        np.tile(np.arange(types), jobs),
        np.arange(0, jobs * types + 1, types),
        types,
        counts=np.full(types, count),
        divisible=True,
    )


def bisected(model: Assignment) -> float:
    """Return the makespan Gavel's bisection stops at."""
    low, high = 100.0, 1e6
    lowered = lower_assignment(model).model
    while 1.05 * low < high:
        middle = (low + high) / 2
        lowered.upper[-1] = middle
        if isinstance(relax(lowered), Unsolved):
            low = middle
        else:
            high = middle
    return high


def main() -> None:
    """Print seconds and makespans for every size."""
    table = speeds(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    for size in SIZES:
        for seed in range(3):
            model = drawn(seed, size, table)
            began = time.perf_counter()
            solution = solved(model, time_limit=60.0)
            direct = time.perf_counter() - began
            began = time.perf_counter()
            stopped = bisected(model)
            slow = time.perf_counter() - began
            assert solution.objective is not None
            print(
                f"{size} jobs, seed {seed}: one LP {solution.objective:.1f} s, verified "
                f"{solution.certificate.verified_bound}, {direct:.3f} s; bisection "
                f"{stopped / solution.objective:.4f} times that, {slow:.3f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
