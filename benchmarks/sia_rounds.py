"""One scheduling round of a Sia-style cluster: the allocation ILP here and, literally, on HiGHS.

Synthetic goodputs on Sia's 64-GPU cluster (6 x 4, 3 x 8 and 2 x 8 GPUs of three types) scaled by k, 48 k
jobs; at k = 16 it has 1,024 GPUs and 768 jobs with 184 configurations each (Subramanya et al., *Sia*, SOSP
2023, section 3.3).

    python -m benchmarks.sia_rounds --k 4 16
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.options import SolveOptions
from apportion.solvers.multiknapsack import engine
from benchmarks.timing import best_of, provenance


def round_of(k: int, seed: int = 0) -> MultipleChoiceKnapsack:
    """Return one round: value = goodput^0.5 - 1.1, jobs may wait."""
    rng = np.random.default_rng(seed)
    types = ((4, 6 * k), (8, 3 * k), (8, 2 * k))
    jobs = 48 * k
    gpus: list[int] = []
    kind: list[int] = []
    for index, (per_node, nodes) in enumerate(types):
        sizes = [2**i for i in range(per_node.bit_length())] + [per_node * n for n in range(2, nodes + 1)]
        gpus += sizes
        kind += [index] * len(sizes)
    g, t = np.array(gpus), np.array(kind)
    exponent = rng.uniform(0.6, 0.98, (jobs, 1))
    speed = np.array([1.0, 2.0, 4.0]) * np.exp(rng.normal(0.0, 0.25, (jobs, 3)))
    crossover = rng.choice([8, 32, 128, 1024], (jobs, 1))
    goodput = speed[:, t] * g**exponent / (1 + g / crossover)
    goodput /= goodput.min(axis=1, keepdims=True)
    uses = np.zeros((jobs, g.size, 3), dtype=np.int64)
    uses[:, np.arange(g.size), t] = g
    return MultipleChoiceKnapsack.from_arrays(
        (goodput**0.5 - 1.1).ravel(),
        uses.reshape(-1, 3),
        np.arange(jobs + 1) * g.size,
        [per_node * nodes for per_node, nodes in types],
        required=False,
        capacity_names=("t4", "rtx", "a100"),
    )


def on_highs(model: MultipleChoiceKnapsack, gap: float, seconds: float) -> tuple[float, float]:
    """Return HiGHS's objective and relative gap."""
    import highspy

    linear = lower(model).model
    solver = highspy.Highs()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("mip_rel_gap", gap),
        ("time_limit", seconds),
    ):
        solver.setOptionValue(name, value)
    solver.passModel(
        linear.num_columns, linear.num_rows, linear.num_nonzeros, 2, -1, linear.offset, linear.cost,
        linear.lower, linear.upper, linear.row_lower, linear.row_upper, linear.indptr, linear.indices,
        linear.data, linear.integer.astype(np.int32),
    )  # fmt: skip
    solver.run()
    info = solver.getInfo()
    return float(info.objective_function_value), float(info.mip_gap)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--k", type=int, nargs="*", default=[4, 16])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--gap", type=float, default=1e-4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for HiGHS")
    parser.add_argument("--no-highs", action="store_true")
    arguments = parser.parse_args()
    print(provenance("highspy"), f"; gap {arguments.gap:g}, one thread, best of {arguments.repeats} here")
    options = SolveOptions(gap=arguments.gap, time_limit=arguments.limit)
    for k in arguments.k:
        for seed in range(arguments.seeds):
            model = round_of(k, seed)
            seconds, outcome = best_of(
                arguments.repeats, lambda model=model: engine.solve(model, options, None)
            )
            assert outcome.point is not None and outcome.objective is not None and outcome.bound is not None
            assert model.check(outcome.point).feasible
            gap = (outcome.bound - outcome.objective) / outcome.objective
            line = (
                f"k={k} seed={seed}: {model.num_jobs} jobs, {model.num_options} options: "
                f"ours {1e3 * seconds:.1f} ms, objective {outcome.objective:.4f}, gap {gap:.1e}"
            )
            if not arguments.no_highs:
                began = time.perf_counter()
                objective, peer_gap = on_highs(model, arguments.gap, arguments.limit)
                peer = time.perf_counter() - began
                line += f"; HiGHS {peer:.2f} s, objective {objective:.4f}, gap {peer_gap:.1e}"
                line += f"; {peer / seconds:.0f} times"
            print(line, flush=True)


if __name__ == "__main__":
    main()
