"""What each ingredient of `adaptive` brings: ``python -m paper_repro.freetrain.parts --data FOLDER``.

FreeTrain with several fixed horizons, with and without being woken at completions, beside `adaptive` with
its parts switched off, on blocks of 1,024 nodes of the authors' trace (the first was looked at while the
policy was put together, the others were not), on the whole machine of a log begun at several instants, or on
generated machines by seed; with either of the published job sets. Writes ``parts.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apportion.cli.running import in_one_line
from apportion.cluster.policies import EqualShare, FreeTrain, Policy
from apportion.cluster.policies.adaptive import Adaptive
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.run_record import record_of
from apportion.cluster.simulation.summary import makespan_bound
from paper_repro.freetrain.places import Place, blocks, generated, windows
from paper_repro.tables import Table, markdown, write_table

RULES: Mapping[str, Callable[[], Policy]] = {
    "equal share": EqualShare,
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
    parser.add_argument("--log", type=Path, help="the whole machine of it, by windows, in place of blocks")
    parser.add_argument("--windows", type=int, default=6, help="replays begun at equal distances over a log")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12], help="of generated machines")
    parser.add_argument("--trainers", type=int, nargs="+", default=[10])
    parser.add_argument("--jobs", choices=("imagenet", "hpo"), default="imagenet", help="published job set")
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    places, seeds = _places(given)
    for place, changes, jobs in places:
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
                write_table(given.out / "parts.json", Table("paper_repro.freetrain.parts", rows, seeds))
    print("\n".join(markdown(rows)))


def _places(given: argparse.Namespace) -> tuple[Iterator[Place], str]:
    """Return the places asked for, and what they are in words."""
    told = f"{given.jobs} jobs"
    if given.data is None:
        return generated(given.seeds, given.jobs), f"{told}, seeds {given.seeds}"
    if given.log is not None:
        found = windows(given.data, given.log, given.windows, given.jobs)
        return found, f"{told}, {given.windows} windows of {given.log.name}"
    return blocks(given.data, given.blocks, given.jobs), f"{told}, blocks {given.blocks} of the trace"


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.freetrain.parts"):
        main()
