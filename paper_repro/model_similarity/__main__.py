"""Reproduce the claim of the model-similarity policy on measured throughputs.

``python -m paper_repro.model_similarity --data FOLDER [--out FOLDER] [--seeds 30]``

The paper (Thanapol et al., ACIIDS 2023) says that matching models to GPU architectures reduces the makespan
of distributed training with a large batch. Its text and tables are not public. Inferred here: its similarity
(ours is in ``cluster/estimation/similarity.py``), its baselines, its cluster (8 GPUs of each architecture),
its job lengths, and that its policy never waits. Writes ``results.md``, ``makespan.json`` and
``makespan.svg``.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from paper_repro.model_similarity.chart import Result, chart, interval
from paper_repro.model_similarity.figures import pair_rows, rows
from paper_repro.model_similarity.measured import Measured, benchmark, gavel, generated, timm
from paper_repro.model_similarity.policies import POLICIES, Work
from paper_repro.model_similarity.scenarios import PER_TYPE, Beliefs, Scenario, beliefs, draw, scenarios
from paper_repro.progress import Progress
from paper_repro.shipped import NEEDS_DATA
from paper_repro.tables import Table, write_table

_PACKAGES = ("apportion", "numpy", "scipy", "highspy")


def run(scenario: Scenario, measured: Measured, believed: Beliefs, seeds: int, work: Work) -> Result:
    """Return the makespans of every policy on jobs drawn with every seed."""
    ends = np.zeros((seeds, len(POLICIES)))
    pools = np.full(len(measured.architectures), PER_TYPE, dtype=np.int64)
    for seed in range(seeds):
        times, gangs = draw(scenario, measured, believed, seed)
        for column, (_, policy, believes) in enumerate(POLICIES):
            ends[seed, column] = policy(times[believes], times["true"], gangs, pools, work)
    return Result(scenario.source, scenario.name, scenario.jobs, ends / ends[:, :1], ends.mean(axis=0) / 3600)


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    names = [name for name, _, _ in POLICIES]
    yield "| jobs | load | " + f"{names[0]}, h | " + " | ".join(names[1:]) + " |"
    yield "|---|---|---" + "|---" * (len(names) - 1) + "|"
    for result in results:
        mean, half = interval(result)
        cells = [f"{m:.2f} ± {h:.2f}" for m, h in zip(mean[1:], half[1:], strict=True)]
        where = f"{result.source}: {result.name}"
        yield f"| {where} | {result.jobs} | {result.hours[0]:.1f} | " + " | ".join(cells) + " |"


def errors(measured: Measured, believed: Beliefs) -> tuple[float, float]:
    """Return mean relative errors of times from one profile, elsewhere, and of unknown jobs."""
    true = 1.0 / measured.speeds
    profiled = np.abs(believed.profiled[:, 1:] / true[:, 1:] - 1.0).mean()
    unknown = np.abs(believed.unknown / true - 1.0).mean()
    return float(profiled), float(unknown)


def in_words(measured: Measured, profiled: float, unknown: float) -> str:
    """Return in words how far off predictions are."""
    types = ", ".join(measured.architectures)
    return (
        f"{measured.name}: {len(measured.signatures)} job types on {types}; mean error of predicted times "
        f"{100 * profiled:.1f} % from one profile, {100 * unknown:.1f} % of unknown jobs"
    )


def main() -> None:
    """Run every scenario and write the table and the drawing."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.model_similarity")
    parser.add_argument("--data", type=Path, help="folder with gavel, pytorch_gpu_benchmark, timm")
    parser.add_argument("--out", type=Path, default=Path("model_similarity_results"))
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=Work().nodes, help="limit of a plan of one-GPU jobs")
    parser.add_argument(
        "--steps", type=int, default=Work().steps, help="thousands, limit of a plan with gangs"
    )
    parser.add_argument("--quick", action="store_true", help="a generated table and two seeds, without data")
    asked = parser.parse_args()
    if asked.quick:
        asked.seeds, asked.nodes, asked.steps = 2, 200, 100
    elif asked.data is None:
        parser.error(NEEDS_DATA)
    work = Work(asked.nodes, asked.steps)
    limits = f"a plan takes at most {work.nodes} nodes, with gangs {work.steps} thousand steps"
    told = f"0 to {asked.seeds - 1}; {limits}"
    asked.out.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    results, error_lines = [], []
    figures: list[dict[str, Any]] = []
    sources = [generated()] if asked.quick else [source(asked.data) for source in (gavel, benchmark, timm)]
    progress = Progress("scenarios", sum(len(scenarios(measured)) for measured in sources))
    for measured in sources:
        believed = beliefs(measured)
        profiled, unknown = errors(measured, believed)
        figures.append(
            {
                "jobs": measured.name,
                "types": len(measured.signatures),
                "profiled": profiled,
                "unknown": unknown,
            }
        )
        error_lines.append(f"- {in_words(measured, profiled, unknown)}")
        print(error_lines[-1], flush=True)
        for scenario in scenarios(measured):
            results.append(run(scenario, measured, believed, asked.seeds, work))
            progress.step()
            figures += [*rows(results[-1]), *pair_rows(results[-1])]
            print(*list(table(results[-1:]))[2:], flush=True)
            # what is done so far, whole, should the rest be stopped
            spent = {"scenarios": len(results), "processor s": round(time.process_time() - began)}
            made = Table("paper_repro.model_similarity", [*figures, spent], told, _PACKAGES)
            write_table(asked.out / "makespan.json", made)
    import highspy
    import scipy

    import apportion

    versions = (
        f"apportion {apportion.__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, highspy {highspy.Highs().version()}"
    )
    took = time.process_time() - began
    head = f"Seeds {told}, {PER_TYPE} GPUs of each architecture; {versions}; {took:.0f} s of processor time."
    lines = [head, "", *error_lines, "", *table(results), ""]
    (asked.out / "results.md").write_text("\n".join(lines), encoding="utf-8")
    drawing = chart(results, [name for name, _, _ in POLICIES])
    (asked.out / "makespan.svg").write_text(drawing, encoding="utf-8")
    print(f"{head}\nwritten: {asked.out / 'results.md'}, {asked.out / 'makespan.svg'}")


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.model_similarity"):
        main()
