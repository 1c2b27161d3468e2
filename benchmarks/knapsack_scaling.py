"""How the exact knapsack engine grows with the number of jobs, beside HiGHS on the lowered model.

Run ``python -m benchmarks.knapsack_scaling`` for the table; ``--plot FILE.svg`` draws it on log-log axes.
Times are the least of some repeats, and the ratio to HiGHS is of two runs in this one process on one
thread.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from time import perf_counter

import numpy as np

from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.solvers.knapsack import engine

OPTIONS = 8


@dataclass(frozen=True)
class Row:
    """One line of the table; HiGHS's seconds are None where it was not run or did not end."""

    jobs: int
    seconds: float
    gap: float
    proven: bool
    highs: float | None


def uniform(jobs: int, seed: int = 0) -> MultipleChoiceKnapsack:
    """Return jobs with eight options each, values and uses uniform, capacity a quarter of the way up."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(1, 1001, jobs * OPTIONS)
    menus = uses.reshape(jobs, OPTIONS)
    least, most = int(menus.min(axis=1).sum()), int(menus.max(axis=1).sum())
    return MultipleChoiceKnapsack.from_arrays(
        rng.random(jobs * OPTIONS) * 1000,
        uses,
        np.arange(jobs + 1) * OPTIONS,
        [least + (most - least) // 4],
    )


def highs_seconds(model: MultipleChoiceKnapsack, limit: float) -> float | None:
    """Return how long HiGHS takes to a relative gap of 1e-6, ``None`` if it does not get there in time."""
    import highspy

    linear = lower(model).model
    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 1e-6), ("time_limit", limit)):
        solver.setOptionValue(name, value)
    problem = highspy.HighsLp()
    problem.num_col_, problem.num_row_ = linear.num_columns, linear.num_rows
    problem.col_cost_, problem.col_lower_, problem.col_upper_ = linear.cost, linear.lower, linear.upper
    problem.row_lower_, problem.row_upper_ = linear.row_lower, linear.row_upper
    problem.integrality_ = [highspy.HighsVarType.kInteger] * linear.num_columns
    problem.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    problem.a_matrix_.start_, problem.a_matrix_.index_ = linear.indptr, linear.indices
    problem.a_matrix_.value_ = linear.data
    problem.sense_ = highspy.ObjSense.kMaximize
    if solver.passModel(problem) == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS refused the lowered model")
    began = perf_counter()
    solver.run()
    seconds = perf_counter() - began
    return seconds if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal else None


def measure(jobs: int, highs_limit: float, highs_up_to: int) -> Row:
    """Return the line of one size."""
    model = uniform(jobs)
    least = float("inf")
    for _ in range(20 if jobs <= 10_000 else 3):
        began = perf_counter()
        outcome = engine.solve(model, SolveOptions(), None)
        least = min(least, perf_counter() - began)
    if outcome.objective is None or outcome.bound is None or outcome.point is None:
        raise RuntimeError(f"no choice for {jobs} jobs: {outcome.raw_status}")
    if not model.check(outcome.point).feasible:
        raise RuntimeError(f"the choice for {jobs} jobs is not feasible")
    gap = abs(outcome.bound - outcome.objective) / max(abs(outcome.objective), 1e-9)
    highs = highs_seconds(model, highs_limit) if jobs <= highs_up_to else None
    return Row(jobs, least, gap, outcome.termination is Termination.OPTIMAL, highs)


def plot(rows: list[Row]) -> str:
    """Return a log-log SVG of seconds by jobs."""
    series = [
        ("apportion", "#0b6e4f", [(row.jobs, row.seconds) for row in rows]),
        ("HiGHS", "#b23a48", [(row.jobs, row.highs) for row in rows if row.highs is not None]),
    ]
    seconds = [s for _, _, points in series for _, s in points]
    low, high = floor(log10(min(seconds))), ceil(log10(max(seconds)))
    first, last = floor(log10(rows[0].jobs)), ceil(log10(rows[-1].jobs))
    last = max(last, first + 1)
    width, height, left, top = 560, 360, 70, 20

    def at(jobs: float, second: float) -> tuple[float, float]:
        x = left + (log10(jobs) - first) / (last - first) * (width - left - 110)
        y = top + (high - log10(second)) / max(high - low, 1) * (height - top - 50)
        return x, y

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f"<title>Seconds to solve by number of jobs, {OPTIONS} options each, one thread</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for exponent in range(first, last + 1):
        x, y = at(10**exponent, 10**low)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{10**exponent:,}</text>')
    for exponent in range(low, high + 1):
        x, y = at(10**first, 10.0**exponent)
        end, _ = at(10**last, 1.0)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**exponent:g} s</text>')
    for name, colour, points in series:
        if not points:
            continue
        places = [at(jobs, second) for jobs, second in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(
            f'<text x="{places[-1][0] + 8:.1f}" y="{places[-1][1] + 4:.1f}" fill="{colour}">{name}</text>'
        )
    middle = (left + width - 110) / 2
    parts.append(f'<text x="{middle:.0f}" y="{height - 8}" text-anchor="middle">jobs</text></svg>')
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="write a log-log SVG")
    parser.add_argument("--largest", type=int, default=1_000_000, help="largest number of jobs")
    parser.add_argument("--highs-up-to", type=int, default=10_000, help="run HiGHS up to this many jobs")
    parser.add_argument("--highs-limit", type=float, default=60.0, help="seconds HiGHS may take per size")
    given = parser.parse_args()
    sizes = [10**e for e in range(2, 10) if 10**e <= given.largest]
    rows = []
    print(f"{'jobs':>9} {'seconds':>10} {'us/job':>8} {'gap':>8} {'proven':>6} {'HiGHS s':>9} {'ratio':>8}")
    for jobs in sizes:
        row = measure(jobs, given.highs_limit, given.highs_up_to)
        rows.append(row)
        highs = "-" if row.highs is None else f"{row.highs:.3f}"
        ratio = "-" if row.highs is None else f"{row.highs / row.seconds:.0f}"
        print(
            f"{jobs:>9,} {row.seconds:>10.5f} {1e6 * row.seconds / jobs:>8.3f} {row.gap:>8.1e} "
            f"{'yes' if row.proven else 'no':>6} {highs:>9} {ratio:>8}"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak resident set {peak:.0f} MiB (instance included)")
    if given.plot is not None:
        given.plot.write_text(plot(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
