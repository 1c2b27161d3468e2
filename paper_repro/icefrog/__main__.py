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
from typing import Any

from msgspec.structs import replace

from apportion.cli.running import in_one_line
from apportion.cluster.estimation.training.freezing_profile import FreezingProfiles
from paper_repro.icefrog.band_chart import band_chart
from paper_repro.icefrog.cases import Case
from paper_repro.icefrog.completion_chart import completion_chart
from paper_repro.icefrog.course_chart import course_chart
from paper_repro.icefrog.experiments import FREEZING, PARTS, Plan, cases, plan, reported_thetas
from paper_repro.icefrog.figures import Study
from paper_repro.icefrog.freezing import freezing_of
from paper_repro.icefrog.heat_chart import heat_chart
from paper_repro.icefrog.store import Runs
from paper_repro.icefrog.tables import (
    ablation,
    believed_thetas,
    depths,
    loads,
    policies,
    reductions,
    together,
    wrong_beliefs,
)
from paper_repro.shipped import NEEDS_DATA, average_completion
from paper_repro.tables import Table, markdown, write_table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print and write tables and drawings."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.icefrog")
    parser.add_argument("--data", type=Path, help="folder with pollux and sia")
    parser.add_argument("--out", type=Path, default=Path("icefrog-out"))
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two workloads and few cases, under a minute; without --data the example's 40 jobs",
    )
    parser.add_argument("--minutes", type=float, help="begin no run after so long; the next call goes on")
    parser.add_argument("--part", action="append", choices=PARTS, help="run and tell it alone; repeatable")
    parser.add_argument("--commit", help="of the code that ran, where it is no checkout")
    given = parser.parse_args(arguments)
    if given.data is None:
        if not given.quick:
            parser.error(NEEDS_DATA)
        print("\n".join(markdown(average_completion(("afs", "sia", "pollux", "icefrog"), _of_example()))))
        return
    (given.data / "pollux").stat()  # missing, that is all that is said
    given.out.mkdir(parents=True, exist_ok=True)
    runs, asked = Runs(given.data, given.out / "runs.jsonl", given.workers), plan(given.quick)
    parts = given.part or PARTS
    until = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    left = runs.run(_by_workload(parts, asked, given.quick), until)
    if left:
        print(f"{left} runs are left; the workloads that are whole are told, call again for the rest")
    planned = _whole(runs, {part: asked[part] for part in parts}, given.quick)
    text = list(_head(runs, planned, given.quick))
    for name, (part, title, rows) in _tables(runs, planned, given.quick).items():
        text += [f"## {title}", "", *markdown(rows), ""]
        seeds = f"workloads {', '.join(planned[part])}; error seed 0"
        made = Table("paper_repro.icefrog", rows, seeds, commit=given.commit)
        write_table(given.out / "results" / f"{name}.json", made)
    print("\n".join(text))
    (given.out / "results.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    for name, draw in _drawings(runs, planned, given.data).items():
        (given.out / name).write_text(draw(), encoding="utf-8")
        print(f"written: {given.out / name}")


def _of_example() -> FreezingProfiles:
    """Return the freezing profiles that stand for the example's two applications."""
    known = freezing_of()
    return {"large_net": known["bert"], "small_net": known["yolov3"]}


def _by_workload(parts: Sequence[str], asked: Plan, quick: bool) -> Iterator[Case]:
    """Yield all runs, one workload whole after the other: who stops early has whole ones of every part."""
    for workload in dict.fromkeys(one for part in parts for one in asked[part]):
        for part in parts:
            yield from cases(part, [workload] if workload in asked[part] else [], quick)


def _whole(runs: Runs, asked: Plan, quick: bool) -> Plan:
    """Return the workloads of every part that were run whole; a part with fewer than three is left out."""
    least = 1 if quick else 3
    found = {
        part: [one for one in workloads if all(case in runs.known for case in cases(part, [one], quick))]
        for part, workloads in asked.items()
    }
    return {part: workloads for part, workloads in found.items() if len(workloads) >= least}


def _head(runs: Runs, planned: Plan, quick: bool) -> Iterator[str]:
    asked = dict.fromkeys(case for part in planned for case in cases(part, planned[part], quick))
    cpu_s = sum(runs[case].seconds for case in asked)
    packages = ", ".join(f"{name} {version(name)}" for name in ("apportion", "numpy", "scipy"))
    yield (
        f"{len(asked)} runs of 160 jobs, {cpu_s:.0f} CPU seconds in all; "
        f"{packages}, Python {platform.python_version()}; error seed 0, restarts of 30 s, rebuilds of 5 s, "
        "rounds as each policy's authors set them."
    )
    starved = sum(runs[case].jobs_done < 160 for case in asked)
    yield f"Runs in which not all jobs ended within 10 days: {starved}."
    missing = [part for part in PARTS if part not in planned]
    if missing:
        yield f"Parts that are not told here: {', '.join(missing)}."
    yield ""


def _tables(runs: Runs, planned: Plan, quick: bool) -> dict[str, tuple[str, str, list[dict[str, Any]]]]:
    """Return part, title and rows of every table whose runs are there."""
    study = {part: Study(runs, workloads) for part, workloads in planned.items()}
    found: dict[str, tuple[str, str, list[dict[str, Any]]]] = {}
    for part, gpus in (("main", 48), ("wide", 64)):
        if part in study:
            where = f"{gpus} GPUs, each policy's own batches"
            found[f"policies_{gpus}"] = (part, where, policies(study[part], gpus, None))
            found[f"less_{gpus}"] = (part, f"{where}: less than", reductions(study[part], gpus, None))
    if "main" in study:
        found["together"] = ("main", "Deciding together, 48 GPUs", together(study["main"]))
    if "fixed" in study:
        sizes = (48,) if quick else (48, 64)
        rows = [row for gpus in sizes for row in policies(study["fixed"], gpus, False)]
        found["policies_users"] = ("fixed", "Users' batches", rows)
        rows = [row for gpus in sizes for row in reductions(study["fixed"], gpus, False)]
        found["less_users"] = ("fixed", "Users' batches: less than", rows)
    if "loads" in study:
        found["loads"] = ("loads", "Loads, 64 GPUs", loads(study["loads"]))
    if "depths" in study:
        found["depths"] = ("depths", "Theta and depth, 48 GPUs", depths(study["depths"]))
    if "beliefs" in study:
        rows = believed_thetas(study["beliefs"])
        found["beliefs"] = ("beliefs", "Theta and what is believed of it, 48 GPUs", rows)
    if "wrong" in study:
        found["wrong"] = (
            "wrong",
            "Other errors, 48 GPUs",
            wrong_beliefs(study["wrong"], reported_thetas(quick)),
        )
    if "ablation" in study:
        rows = ablation(study["ablation"], reported_thetas(quick))
        found["ablation"] = ("ablation", "Ablation, 48 GPUs", rows)
    return found


def _drawings(runs: Runs, planned: Plan, data: Path) -> dict[str, Callable[[], str]]:
    if "main" not in planned:
        return {}
    main_study = Study(runs, planned["main"])
    shown = replace(FREEZING["IceFrog, theta 0.5"], workload=planned["main"][0], gpus=48)
    drawn: dict[str, Callable[[], str]] = {
        "completion.svg": lambda: completion_chart(main_study, 48),
        "band.svg": lambda: band_chart(main_study, 48),
        "course.svg": lambda: course_chart(data, shown),
    }
    if "depths" in planned and "beliefs" in planned:
        by_depth, by_belief = Study(runs, planned["depths"]), Study(runs, planned["beliefs"])
        drawn["sensitivity.svg"] = lambda: heat_chart(by_depth, by_belief)
    return drawn


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.icefrog"):
        main()
