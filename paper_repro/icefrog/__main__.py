"""Test IceFrog's claim: ``python -m paper_repro.icefrog --data FOLDER [--out FOLDER] [--quick]``.

FOLDER holds ``pollux`` (profiles of six applications, two workloads) and ``sia`` (eight Philly workloads).
Writes ``results.md`` and SVGs. Every run is kept in ``runs.jsonl`` of the output folder, so that what was
stopped goes on where it was; delete that file to run anew.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from msgspec.structs import replace

from paper_repro.icefrog.band_chart import band_chart
from paper_repro.icefrog.completion_chart import completion_chart
from paper_repro.icefrog.course_chart import course_chart
from paper_repro.icefrog.experiments import FREEZING, PARTS, Plan, cases, plan, truths_told
from paper_repro.icefrog.figures import Study
from paper_repro.icefrog.heat_chart import heat_chart
from paper_repro.icefrog.store import Runs
from paper_repro.icefrog.tables import ablation, claims, grid, loads, policies, reductions, wrong_beliefs

_BATCHES = {None: "each policy's own batches", False: "users' batches"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print and write tables and drawings."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.icefrog")
    parser.add_argument("--data", type=Path, required=True, help="folder with pollux and sia")
    parser.add_argument("--out", type=Path, default=Path("icefrog-out"))
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--quick", action="store_true", help="two workloads and few cases, under a minute")
    parser.add_argument("--minutes", type=float, help="begin no run after so long; the next call goes on")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    runs, told = Runs(given.data, given.out / "runs.jsonl", given.workers), plan(given.quick)
    until = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    left = runs.run((case for part in PARTS for case in cases(part, told[part], given.quick)), until)
    if left:
        print(f"{left} runs are left; call again")
        return
    text = "\n".join([*_head(runs, told, given.quick), *_tables(runs, told, given.quick)])
    print(text)
    (given.out / "results.md").write_text(text + "\n", encoding="utf-8")
    for name, draw in _drawings(runs, told, given.data).items():
        (given.out / name).write_text(draw(), encoding="utf-8")
        print(f"written: {given.out / name}")


def _head(runs: Runs, told: Plan, quick: bool) -> Iterator[str]:
    asked = dict.fromkeys(case for part in PARTS for case in cases(part, told[part], quick))
    cpu_s = sum(runs[case].seconds for case in asked)
    packages = ", ".join(f"{name} {version(name)}" for name in ("apportion", "numpy", "scipy"))
    yield (
        f"{len(asked)} runs of 160 jobs, {cpu_s:.0f} CPU seconds in all; "
        f"{packages}, Python {platform.python_version()}; error seed 0, rounds of 60 s, restarts of 30 s, "
        "rebuilds of 5 s."
    )
    starved = sum(runs[case].jobs_done < 160 for case in asked)
    yield f"Runs in which not all jobs ended within 10 days: {starved}."
    yield ""


def _tables(runs: Runs, told: Plan, quick: bool) -> Iterator[str]:
    for part, adaptive in (("main", None), ("fixed", False)):
        study = Study(runs, told[part])
        for gpus in (48,) if quick else (48, 64):
            yield from (f"## {gpus} GPUs, {_BATCHES[adaptive]}", "", *policies(study, gpus, adaptive))
            yield from reductions(study, gpus, adaptive)
            yield from claims(study, gpus, adaptive)
    yield from ("## Loads, 64 GPUs", "", *loads(Study(runs, told["loads"])))
    yield from ("## Theta, depth and belief, 48 GPUs: less than Sia, %", "")
    yield from grid(Study(runs, told["depths"]), Study(runs, told["beliefs"]))
    yield from ("## Other errors, 48 GPUs: average completion time over that of true beliefs", "")
    yield from wrong_beliefs(Study(runs, told["wrong"]), truths_told(quick))
    yield from ("## Ablation, 48 GPUs", "", *ablation(Study(runs, told["ablation"]), truths_told(quick)))


def _drawings(runs: Runs, told: Plan, data: Path) -> dict[str, Callable[[], str]]:
    main_study = Study(runs, told["main"])
    shown = replace(FREEZING["IceFrog, theta 0.5"], workload=told["main"][0], gpus=48)
    return {
        "completion.svg": lambda: completion_chart(main_study, 48),
        "band.svg": lambda: band_chart(main_study, 48),
        "sensitivity.svg": lambda: heat_chart(Study(runs, told["depths"]), Study(runs, told["beliefs"])),
        "course.svg": lambda: course_chart(data, shown),
    }


if __name__ == "__main__":
    main()
