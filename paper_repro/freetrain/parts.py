"""What each ingredient of `adaptive` brings: ``python -m paper_repro.freetrain.parts --data FOLDER``.

FreeTrain with several fixed horizons, with and without being woken at completions, beside `adaptive` with
its parts switched off, on blocks of 1,024 nodes of the authors' trace (the first was looked at while the
policy was put together, the others were not) or on generated machines by seed. Writes ``parts.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from apportion.cli.running import in_one_line
from apportion.instances.gap_filling.published_curves import PUBLISHED_CURVES
from apportion.policies import FreeTrain, Policy
from apportion.policies.adaptive import Adaptive
from apportion.simulation.bound import makespan_bound
from apportion.simulation.generated import generated_jobs, generated_trace
from apportion.simulation.idle_trace import IdleTrace, read_idle_trace
from apportion.simulation.job_table import read_job_table
from apportion.simulation.node_changes import NodeChanges, node_changes
from apportion.simulation.replay import Replay
from apportion.simulation.run_record import record_of
from apportion.simulation.workload import Workload, workload
from paper_repro.tables import Table, markdown, write_table

_BLOCK = 1024
RULES: Mapping[str, Callable[[], Policy]] = {
    "freetrain, 120 s": lambda: FreeTrain(120.0),
    "freetrain, 60 s": lambda: FreeTrain(60.0),
    "freetrain, 10 s": lambda: FreeTrain(10.0),
    "freetrain, 120 s, wakes": lambda: FreeTrain(120.0, wakes=True),
    "freetrain, 60 s, wakes": lambda: FreeTrain(60.0, wakes=True),
    "freetrain, 10 s, wakes": lambda: FreeTrain(10.0, wakes=True),
    "departures and horizon": lambda: Adaptive(wakes=False, weighs=False),
    "departures and horizon, wakes": lambda: Adaptive(weighs=False),
    "departures and horizon, weights": lambda: Adaptive(wakes=False),
    "weights, wakes": lambda: Adaptive(departures=False),
    "adaptive": Adaptive,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay every rule on every place, and write the table after each."""
    parser = argparse.ArgumentParser(prog="paper_repro.freetrain.parts", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the authors' trace; generated data without it")
    parser.add_argument("--out", type=Path, default=Path("freetrain-out"))
    parser.add_argument("--blocks", type=int, nargs="+", default=[0, 1, 2, 3], help="of 1,024 nodes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12], help="of generated machines")
    parser.add_argument("--trainers", type=int, nargs="+", default=[10])
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for place, changes, jobs in _places(given):
        for trainers in given.trainers:
            bound = makespan_bound(changes, jobs, trainers)
            for name in given.rules:
                replay = Replay(changes, jobs, RULES[name](), trainers)
                begun = time.process_time()
                replay.run()
                cpu_s = time.process_time() - begun
                summary = record_of(replay, name, None).summary
                rows.append(
                    {"place": place, "trainers": trainers, "rule": name, "makespan, h": summary.makespan_h}
                    | {"bound, h": None if bound is None else bound / 3600}
                    | {"lost to pre-emption, %": 100 * summary.lost_preemption}
                    | {"lost to rescaling, %": 100 * summary.lost_rescale}
                    | {"lost past the end, %": 100 * summary.lost_excess, "CPU seconds": cpu_s}
                )
                print(list(markdown(rows))[-1], flush=True)
                seeds = f"blocks {given.blocks} of the trace" if given.data else f"seeds {given.seeds}"
                write_table(given.out / "parts.json", Table("paper_repro.freetrain.parts", rows, seeds))
    print("\n".join(markdown(rows)))


def _places(given: argparse.Namespace) -> Any:
    """Yield a name, the idle nodes and the jobs of every place."""
    if given.data is None:
        for seed in given.seeds:
            trace = generated_trace(seed, _BLOCK, 14.0)
            jobs = workload(generated_jobs(seed, 1001), PUBLISHED_CURVES)
            yield f"generated, seed {seed}", node_changes(trace), jobs
        return
    trace = read_idle_trace(given.data / "summit_idle_intervals.npz")
    jobs = workload(read_job_table(given.data / "ImageNet-imgps-jobs.csv"), PUBLISHED_CURVES)
    for block in given.blocks:
        yield f"block {block}", _block(trace, block, jobs), jobs


def _block(trace: IdleTrace, block: int, jobs: Workload) -> NodeChanges:
    """Return the changes of the nodes of one block."""
    first = block * _BLOCK
    own = (trace.node >= first) & (trace.node < first + _BLOCK)
    moved = replace(
        trace,
        node=trace.node[own] - first,
        start_s=trace.start_s[own],
        end_s=trace.end_s[own],
        names=trace.names[first : first + _BLOCK],
    )
    return node_changes(moved, _BLOCK, float(jobs.submitted_s[0]))


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.freetrain.parts"):
        main()
