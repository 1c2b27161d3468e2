"""Several-capacity knapsacks beside HiGHS and CP-SAT at equal seconds, one thread each.

Runs the MMKP and multidimensional knapsack files of the data folder (APPORTION_DATA, else ../shared/data),
or seeded instances of the same families, and prints the gap of each solver to the best known value and the
sums.

    python -m benchmarks.multiknapsack_orlib --seconds 10 --only mmkp_b_01 5.100-00
    python -m benchmarks.multiknapsack_orlib --generated --seconds 10
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from apportion.formulations.multiple_choice import MenuFormulation
from apportion.instances import MultipleChoiceKnapsackInstance
from apportion.instances.readers import FORMATS
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.options import SolveOptions
from apportion.solvers.multiknapsack import engine
from benchmarks.timing import provenance

Entry = tuple[str, MultipleChoiceKnapsack, float | None]
PROVEN = {"I01": 173.0, "I02": 364.0, "I03": 1602.0}


def read(path: Path, layout: str, index: int = 0) -> MultipleChoiceKnapsack:
    """Read one problem of a file with the package's reader, as arrays."""
    instance = FORMATS[layout].load()(path.read_bytes(), index, None, path.stem)
    assert isinstance(instance, MultipleChoiceKnapsackInstance)
    return MenuFormulation(instance).model


def files(folder: Path) -> Iterator[Entry]:
    """Yield name, model and best known value of every file."""
    with (folder / "mmkp" / "bounds.csv").open() as stream:
        known = {row["instance"][:-4]: row["solutions_csv"] for row in csv.DictReader(stream)}
    for path in sorted((folder / "mmkp").glob("*.txt")):
        value = PROVEN.get(path.stem) or float(known.get(path.stem) or "nan")
        yield path.stem, read(path, "mmkp"), value
    best: dict[str, float] = {}
    for line in (folder / "mkp" / "best_known.txt").read_text().splitlines():
        words = line.split()
        if len(words) == 2:
            # The file lists the best values first and the values of the relaxation after them.
            best.setdefault(words[0], float(words[1]))
    for stem, prefix in (("mknapcb1", "5.100"), ("mknapcb4", "10.100")):
        for index in range(30):
            name = f"{prefix}-{index:02d}"
            yield name, read(folder / "mkp" / f"{stem}.txt", "orlib-mknap", index), best[name]
    for index, value in enumerate((3800.0, 8706.1, 4015.0, 6120.0, 12400.0, 10618.0, 16537.0)):
        yield f"mknap1-{index}", read(folder / "mkp" / "mknap1.txt", "orlib-mknap", index), value


def generated() -> Iterator[Entry]:
    """Yield seeded instances after Khan's and after Chu and Beasley's recipes."""
    for jobs, capacities in ((100, 10), (200, 10), (300, 10), (400, 10), (100, 5)):
        rng = np.random.default_rng(jobs)
        uses = rng.integers(0, 10, (jobs * 10, capacities))
        values = uses @ rng.integers(1, 11, capacities) + rng.integers(0, 30, jobs * 10)
        yield f"khan-{jobs}x10x{capacities}", _required(values, uses, jobs, 5 * jobs), None
    for jobs in (100, 250, 400):
        rng = np.random.default_rng(jobs)
        uses = rng.integers(0, 10, (jobs * 10, 10))
        values = np.round(uses.sum(axis=1) * rng.uniform(0.5, 1.5, jobs * 10) + 20 * rng.random(jobs * 10))
        yield f"weak-{jobs}x10x10", _required(values, uses, jobs, 5 * jobs), None
    shapes = ((250, 5, 0.25), (500, 5, 0.5), (250, 10, 0.5), (500, 10, 0.25), (250, 30, 0.5), (500, 30, 0.25))
    for items, capacities, tightness in shapes:
        rng = np.random.default_rng(items + capacities)
        weights = rng.integers(1, 1000, (capacities, items))
        values = np.round(weights.sum(axis=0) / capacities + 500 * rng.random(items))
        limits = (weights.sum(axis=1) * tightness).astype(np.int64)
        model = MultipleChoiceKnapsack.from_arrays(
            values, weights.T, np.arange(items + 1), limits, required=False
        )
        yield f"cb-{capacities}.{items}-{tightness}", model, None


def _required(values: np.ndarray, uses: np.ndarray, jobs: int, limit: int) -> MultipleChoiceKnapsack:
    limits = np.full(uses.shape[1], limit)
    return MultipleChoiceKnapsack.from_arrays(values, uses, np.arange(jobs + 1) * 10, limits)


def ours(model: MultipleChoiceKnapsack, seconds: float) -> float | None:
    return engine.solve(model, SolveOptions(time_limit=seconds), None).objective


def highs(model: MultipleChoiceKnapsack, seconds: float) -> float | None:
    import highspy

    linear = lower(model).model
    solver = highspy.Highs()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("time_limit", seconds),
        ("mip_rel_gap", 0.0),
    ):
        solver.setOptionValue(name, value)
    solver.passModel(
        linear.num_columns, linear.num_rows, linear.num_nonzeros, 2, -1, linear.offset, linear.cost,
        linear.lower, linear.upper, linear.row_lower, linear.row_upper, linear.indptr, linear.indices,
        linear.data, linear.integer.astype(np.int32),
    )  # fmt: skip
    solver.run()
    info = solver.getInfo()
    return float(info.objective_function_value) if info.primal_solution_status == 2 else None


def cp_sat(model: MultipleChoiceKnapsack, seconds: float) -> float | None:
    from ortools.sat.python import cp_model

    program = cp_model.CpModel()
    x = [program.new_bool_var("") for _ in range(model.num_options)]
    for job in range(model.num_jobs):
        menu = x[model.offsets[job] : model.offsets[job + 1]]
        (program.add_exactly_one if model.required[job] else program.add_at_most_one)(menu)
    for k in range(model.num_capacities):
        use = cp_model.LinearExpr.weighted_sum(x, model.uses[:, k].tolist())
        program.add(use <= int(model.capacities[k]))
    scale = 1 if (model.values == np.round(model.values)).all() else 10
    program.maximize(cp_model.LinearExpr.weighted_sum(x, np.round(model.values * scale).astype(int).tolist()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(program)
    return solver.objective_value / scale if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


SOLVERS: dict[str, Callable[[MultipleChoiceKnapsack, float], float | None]] = {
    "ours": ours,
    "highs": highs,
    "cp-sat": cp_sat,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--generated", action="store_true", help="seeded instances instead of the files")
    parser.add_argument("--only", nargs="*", default=None, help="names of instances")
    parser.add_argument("--solvers", nargs="*", default=list(SOLVERS), choices=list(SOLVERS))
    arguments = parser.parse_args()
    folder = Path(os.environ.get("APPORTION_DATA", Path(__file__).parents[2] / "shared" / "data")) / "or"
    print(
        provenance("highspy", "ortools"), f"; {arguments.seconds} s, one thread; gaps in % of the reference"
    )
    print("instance".ljust(18), "reference".rjust(10), *(name.rjust(20) for name in arguments.solvers))
    gaps: dict[str, list[float]] = {name: [] for name in arguments.solvers}
    worst = 0.0
    for name, model, known in generated() if arguments.generated else files(folder):
        if arguments.only is not None and name not in arguments.only:
            continue
        found: dict[str, tuple[float, float]] = {}
        for solver in arguments.solvers:
            began = time.perf_counter()
            value = SOLVERS[solver](model, arguments.seconds)
            found[solver] = (float("nan") if value is None else value, time.perf_counter() - began)
        reference = known if known is not None else float(np.nanmax([v for v, _ in found.values()]))
        cells = []
        for solver, (value, seconds) in found.items():
            gap = 100.0 * (reference - value) / reference
            gaps[solver].append(gap)
            cells.append(f"{gap:9.4f} {seconds:8.2f} s".rjust(20))
        if "ours" in found:
            peers = [value for solver, (value, _) in found.items() if solver != "ours"]
            worst = max([worst, *(100.0 * (value - found["ours"][0]) / reference for value in peers)])
        print(name.ljust(18), f"{reference:10.1f}", *cells, flush=True)
    print("sum of gaps".ljust(29), *(f"{np.nansum(values):9.4f}".rjust(20) for values in gaps.values()))
    print("largest gap".ljust(29), *(f"{np.nanmax(values):9.4f}".rjust(20) for values in gaps.values()))
    print(f"ours behind another solver by at most {worst:.4f} %")


if __name__ == "__main__":
    main()
