"""One gap-filling event, our whole call beside the published node-indexed MILP on HiGHS, in one run.

The instance: `jobs` malleable jobs on `nodes` idle nodes, published throughput curves, seeded. Timed is
everything a scheduler waits for: compile, solve, complete to nodes, check, certify.
"""

from __future__ import annotations

import argparse

from apportion.instances.gap_filling.generator import generate
from benchmarks.solved import solved
from benchmarks.timing import best_of, provenance


def main() -> None:
    """Print seconds, objective and ratio per road; the roads must agree on the optimum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--milp-limit", type=float, default=60.0, help="seconds for the literal MILP")
    arguments = parser.parse_args()
    instance = generate(seed=arguments.seed, jobs=arguments.jobs, nodes=arguments.nodes)
    solved(instance)  # imports and first-call costs are not the event's

    ours, solution = best_of(arguments.repeats, lambda: solved(instance))
    dense, reference = best_of(3, lambda: solved(instance, backend="dense-dp"))
    literal, milp = best_of(
        1,
        lambda: solved(instance, formulation="by_node", backend="highs", time_limit=arguments.milp_limit),
    )
    counted, count_milp = best_of(
        1, lambda: solved(instance, backend="highs", time_limit=arguments.milp_limit)
    )
    print(f"{arguments.jobs} jobs x {arguments.nodes} nodes, seed {arguments.seed}, one thread")
    print(f"{'road':<34} {'seconds':>10} {'ratio':>9}  {'objective':>16}  {'bound':>16}  termination")
    for name, seconds, answer in (
        ("apportion.solve (exact)", ours, solution),
        ("apportion.solve (plain DP)", dense, reference),
        ("count MILP on HiGHS", counted, count_milp),
        ("published node MILP on HiGHS", literal, milp),
    ):
        print(
            f"{name:<34} {seconds:10.4f} {seconds / ours:9.1f}  {answer.objective:16.6f}  "
            f"{answer.bound:16.6f}  {answer.termination.value}"
        )
    phases = ", ".join(f"{phase} {seconds * 1e3:.2f} ms" for phase, seconds in solution.times.items())
    print(f"our phases: {phases}")
    print(provenance("highspy"))


if __name__ == "__main__":
    main()
