"""Products of prices and uses: the sums that numpy's own are, and none of them leaves its thread."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from apportion.models.exact_sums import over_columns, over_rows, product


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (3, 40), (3, 8_000), (98, 2_000), (40, 40)])
def test_weighted_sums_of_rows_and_columns(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    matrix, weights = rng.normal(size=shape), rng.normal(size=shape[0])
    assert over_rows(weights, matrix) == pytest.approx(weights @ matrix, abs=1e-11)
    assert over_columns(matrix.T, weights) == pytest.approx(matrix.T @ weights, abs=1e-11)
    whole = rng.integers(0, 50, shape)
    assert over_rows(weights, whole) == pytest.approx(weights @ whole, abs=1e-9)


@pytest.mark.parametrize("sizes", [(3, 4, 5), (30, 9_000, 30), (2_000, 30, 40), (700, 700, 3)])
def test_products_of_matrices(sizes: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=sizes[:2]), rng.normal(size=sizes[1:])
    assert product(left, right) == pytest.approx(left @ right, abs=1e-10)


_SOLVE = """
import time
import numpy as np
import apportion
rng = np.random.default_rng(1)
jobs, options, capacities = 2_000, 10, 20
uses = rng.integers(0, 50, (jobs * options, capacities))
values = uses.sum(axis=1) * rng.uniform(0.8, 1.2, jobs * options)
offsets = np.arange(jobs + 1) * options
model = apportion.MultipleChoiceKnapsack.from_arrays(values, uses, offsets, uses.sum(axis=0) // 25)
apportion.solve(model, time_limit=1.0, gap=1e-1)
process, thread = time.process_time(), time.thread_time()
apportion.solve(model, time_limit=2.0, gap=1e-5)
print(time.process_time() - process, time.thread_time() - thread)
"""


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="BLAS has one thread on one core")
def test_a_solve_stays_in_its_thread() -> None:
    told = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", _SOLVE], env=told, capture_output=True, text=True, check=True, timeout=300
    )
    process, thread = map(float, done.stdout.split())
    assert process - thread <= 0.05 * process + 0.01
