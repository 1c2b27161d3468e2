"""Matching by similarity, packing, and the joint policy, in the cluster simulation.

``python -m paper_repro.joint --data FOLDER [--quick] [--out FOLDER] [--workers 2]``

Writes ``results.md``, a table a part (``matching.json``, ...), ``matching.svg`` and ``joint.svg``.
``--part`` runs one of the parts alone.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from apportion.cli.running import in_one_line
from apportion.cluster.policies.names import BELIEFS
from paper_repro.joint.ablation import ABLATION, FULL
from paper_repro.joint.drawing import dots
from paper_repro.joint.matching import MATCHING, matching_tasks
from paper_repro.joint.packing import PACKING
from paper_repro.joint.pairs import pair_rows
from paper_repro.joint.parts import PARTS, run_one, tasks_of
from paper_repro.joint.sia_options import SIA
from paper_repro.joint.tables import COLUMNS, Estimate, Row, estimate, figures, rows, table
from paper_repro.joint.tasks import Result, run_all
from paper_repro.joint.with_rounds import ROUNDS
from paper_repro.shipped import NEEDS_DATA
from paper_repro.tables import Table, write_table

_AVERAGE = COLUMNS[0][1]
_FIRST = "first come, first served"


def tables(part: str, results: Sequence[Result]) -> Iterator[list[Row]]:
    """Yield the tables of a part."""
    settings = list(dict.fromkeys(one.task.setting for one in results))
    if part == "joint":
        # what freezes nothing ran under one theta and holds for all
        same = {name: "theta 1" for name, case in ABLATION.items() if not case.freezes}
        for setting in sorted(settings):
            yield list(rows(results, setting, list(ABLATION), FULL, same))
        return
    cases = {
        "matching": list(MATCHING),
        "packing": list(PACKING),
        "beliefs": list(BELIEFS),
        "sia": list(SIA),
        "rounds": list(ROUNDS),
    }[part]
    for setting in settings:
        yield list(rows(results, setting, cases, cases[0], {}))


def matching_drawing(results: Sequence[Result]) -> str:
    """Return average completion times over those of first come, first served."""
    series: dict[str, dict[str, Estimate]] = {}
    for setting in dict.fromkeys(one.task.setting for one in results):
        base = figures(results, setting, _FIRST, _AVERAGE)
        estimates = {case: figures(results, setting, case, _AVERAGE) for case in MATCHING}
        series[setting] = {case: estimate(own / base) for case, own in estimates.items() if own.size}
    rows = [case for case in MATCHING if case != _FIRST]
    return dots(
        "Matching jobs to GPU types round by round",
        "average completion time over that of first come, first served",
        rows,
        series,
    )


def joint_drawing(results: Sequence[Result]) -> str:
    """Return average completion times over those of the full policy."""
    series: dict[str, dict[str, Estimate]] = {}
    for setting in sorted({one.task.setting for one in results}):
        base = figures(results, setting, FULL, _AVERAGE)
        estimates = {}
        for name, case in ABLATION.items():
            own = figures(results, setting if case.freezes else "theta 1", name, _AVERAGE)
            if own.size:
                estimates[name] = estimate(own / base)
        series[f"frozen penalty x {setting.split(' ')[1]}"] = estimates
    rows = [name for name in ABLATION if any(name in estimates for estimates in series.values())]
    return dots(
        "What each ingredient of the joint policy adds",
        "average completion time over that of all of it together",
        rows,
        series,
    )


def main() -> None:
    """Run the parts asked for, write tables and drawings."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.joint")
    parser.add_argument("--data", type=Path, help="folder with gavel, sia, pytorch_gpu_benchmark")
    parser.add_argument("--out", type=Path, default=Path("joint_results"))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few seeds, one workload: a minute; without --data matching alone, on a generated table",
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be repeated")
    parser.add_argument("--workers", type=int, default=2, help="processes side by side")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    parts: Sequence[str] = asked.part or PARTS
    wanted = [task for part in parts for task in tasks_of(part, asked.quick)]
    if asked.data is None:
        if not asked.quick:
            parser.error(NEEDS_DATA)
        parts, wanted = ("matching",), matching_tasks(range(2), quick=True, source="generated")
    else:
        asked.data.stat()  # missing, that is all that is said
    results = run_all(run_one, asked.data or Path(), wanted, asked.workers)
    versions = ", ".join(f"{name} {version(name)}" for name in ("apportion", "numpy", "scipy", "highspy"))
    spent = sum(one.summary.seconds for one in results)
    lines = [
        f"{len(results)} runs, {spent:.0f} s of processor time, {time.perf_counter() - begun:.0f} s in all "
        f"with {asked.workers} processes; Python {platform.python_version()}, {versions}.",
        "",
    ]
    drawings = {"matching": matching_drawing, "joint": joint_drawing}
    for part in parts:
        own = [one for one in results if one.task.part == part]
        lines += [f"## {part.capitalize()}", ""]
        estimates: list[dict[str, Any]] = []
        for one in tables(part, own):
            lines += [*table(one), ""]
            estimates += [row.as_row() for row in one]
        estimates += pair_rows(part, own)
        estimates.append({"runs": len(own), "processor s": round(sum(one.summary.seconds for one in own))})
        seeds = f"seeds or workloads {', '.join(map(str, sorted({one.task.seed for one in own})))}"
        packages = ("apportion", "numpy", "scipy", "highspy")
        write_table(asked.out / f"{part}.json", Table("paper_repro.joint", estimates, seeds, packages))
        if part in drawings:
            (asked.out / f"{part}.svg").write_text(drawings[part](own), encoding="utf-8")
    (asked.out / "results.md").write_text("\n".join(lines), encoding="utf-8")
    print(f"written: {asked.out}")


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.joint"):
        main()
