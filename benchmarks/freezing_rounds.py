"""One layer-freezing round here, phase by phase, and literally on HiGHS and CP-SAT.

Jobs, GPU counts and depths as in `apportion.instances.freezing.generator`. The peers get the same choice as a
MILP over every configuration (all depths), from arrays; what they need to build it is told apart.

    python -m benchmarks.freezing_rounds --size small large
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import msgspec

import apportion
from apportion.formulations.freezing.by_configuration import FreezingByConfiguration
from apportion.instances import FreezingInstance
from apportion.instances.freezing.generator import generate
from apportion.options import SolveOptions
from apportion.outcome import Outcome
from apportion.solvers.general import cp_sat, highs
from benchmarks.solved import solved
from benchmarks.timing import provenance

SIZES: dict[str, tuple[int, dict[str, int], int]] = {
    "small": (50, {"t4": 64}, 4),
    "middle": (200, {"t4": 256, "v100": 128, "a100": 128}, 8),
    "large": (2000, {"t4": 2048, "v100": 1024, "a100": 1024}, 8),
}
PHASES = ("compile", "start", "solve", "check", "total")


def here(instance: FreezingInstance, gap: float, repeats: int) -> apportion.Solution:
    """Solve an instance that is built already, print the phases of the fastest call, and return it."""
    solved(instance, gap=gap)  # imports
    found, busy = [], []
    for _ in range(repeats):
        began = time.process_time()
        found.append(solved(instance, gap=gap))
        busy.append(time.process_time() - began)
    best = min(found, key=lambda solution: solution.times["total"])
    told = ", ".join(f"{phase} {1e3 * best.times.get(phase, 0.0):.1f}" for phase in PHASES)
    told = f"{told} ms, of processor {1e3 * min(busy):.1f} ms"
    print(
        f"  here: {told}; {best.termination}, objective {best.objective:.6f}, gap {best.gap:.1e}",
        flush=True,
    )
    return best


def peer(
    name: str,
    solve: Callable[..., Outcome],
    instance: FreezingInstance,
    options: SolveOptions,
    ours: apportion.Solution,
) -> None:
    """Solve the MILP over all configurations and print time, objective and ratio."""
    began = time.perf_counter()
    model = FreezingByConfiguration(instance, separate_depth=False).lowered().model
    built = time.perf_counter() - began
    outcome = solve(model, options, None)
    seconds = time.perf_counter() - began
    objective = "no solution" if outcome.objective is None else f"objective {outcome.objective:.6f}"
    bound = "no bound" if outcome.bound is None else f"bound {outcome.bound:.6f}"
    print(
        f"  {name}: {model.num_columns} columns, {seconds:.2f} s ({built:.2f} s of it to build); "
        f"{outcome.termination}, {objective}, {bound}; {seconds / ours.times['total']:.0f} times ours",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", nargs="*", choices=list(SIZES), default=["small", "middle"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gap", type=float, default=1e-4)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each peer")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    print(
        provenance("highspy", "ortools"),
        f"; gap {arguments.gap:g}, one thread, best of {arguments.repeats} here",
    )
    for size in arguments.size:
        jobs, gpus, per_node = SIZES[size]
        instance = generate(arguments.seed, jobs, gpus, gpus_per_node=per_node, depths=10, counts=19)
        entries = sum(len(row.depths) for job in instance.jobs for row in job.menu)
        print(f"{size}: {jobs} jobs, {entries} configurations, GPUs {gpus}, placed on nodes of {per_node}")
        ours = here(instance, arguments.gap, arguments.repeats)
        print("  without placement:")
        here(msgspec.structs.replace(instance, gpus_per_node={}), arguments.gap, arguments.repeats)
        if not arguments.no_peers:
            options = SolveOptions(gap=arguments.gap, time_limit=arguments.limit)
            for name, solve in (("HiGHS", highs.solve), ("CP-SAT", cp_sat.solve)):
                peer(name, solve, instance, options, ours)


if __name__ == "__main__":
    main()
