"""Published instances, read where a data folder is given: their recipes and the best values known for them.

The folder holds ``or/{gap,mkp,mmkp,rcmax,assign}``, ``bftrainer`` and ``gavel``. Nothing of it is
part of the project.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.suite.cell import InstanceSpec

__all__ = ["PUBLISHED", "published"]

PUBLISHED = {
    "summit-events": "gap_filling",
    "orlib-gap": "generalised_assignment",
    "orlib-knapsack": "knapsack",
    "mmkp-files": "mmkp",
    "rcmax-files": "unrelated_machines",
    "orlib-assign": "linear_assignment",
    "gavel-throughputs": "gavel",
}
"""The sets by family."""

_MMKP_PROVEN = {"I01": 173.0, "I02": 364.0, "I03": 1602.0}
_MKNAP1 = (3800.0, 8706.1, 4015.0, 6120.0, 12400.0, 10618.0, 16537.0)
_SUMMIT_ROWS = tuple(range(1000, 22_000, 2000))


def published(folder: Path, quick: bool) -> Iterator[InstanceSpec]:
    """Yield the published instances that the folder has; the quick suite takes the first of every set."""
    for source in (_summit, _gap, _knapsack, _mmkp, _rcmax, _assign, _gavel):
        found = source(folder)
        for count, spec in enumerate(found):
            if quick and count >= 1:
                break
            yield spec


def _spec(set_name: str, name: str, best: float | None, **arguments: Any) -> InstanceSpec:
    maker = {"summit-events": "summit", "gavel-throughputs": "gavel_table"}.get(set_name, "file")
    return InstanceSpec(
        family=PUBLISHED[set_name],
        set_name=set_name,
        name=name,
        maker=maker,
        arguments=tuple(arguments.items()),
        best_known=best,
    )


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open() as stream:
        return list(csv.DictReader(stream))


def _summit(folder: Path) -> Iterator[InstanceSpec]:
    if not (folder / "bftrainer/summit_idle_intervals.npz").is_file():
        return
    for row in _SUMMIT_ROWS:
        for trainers in (10, 35):
            yield _spec("summit-events", f"row{row}-{trainers}", None, row=row, trainers=trainers)


def _gap(folder: Path) -> Iterator[InstanceSpec]:
    best = {row["Path"].split("/")[-1]: row for row in _rows(folder / "or/gap/best_known.csv")}
    for law in "ac":
        if (folder / f"or/gap/gap{law}.txt").is_file():
            for index, size in enumerate(("05100", "05200", "10100", "10200", "20100", "20200")):
                known = best.get(f"{law}{size}")
                value = None if known is None else float(known["Best known solution value"])
                path = f"or/gap/gap{law}.txt"
                yield _spec(
                    "orlib-gap",
                    f"{law}{size}",
                    value,
                    path=path,
                    format="orlib-gap",
                    index=index,
                    sense="min",
                )
    for row in _rows(folder / "or/gap/gap1_6_opt.csv"):
        value = float(row["opt_max"]) if row["status_max"] == "Optimal" else None
        yield _spec(
            "orlib-gap",
            f"{row['file']}-{row['problem']}",
            value,
            path=f"or/gap/{row['file']}.txt",
            format="orlib-gap",
            index=int(row["problem"]),
            sense="max",
        )


def _knapsack(folder: Path) -> Iterator[InstanceSpec]:
    known = folder / "or/mkp/best_known.txt"
    best: dict[str, float] = {}
    if known.is_file():
        for line in known.read_text().splitlines():
            words = line.split()
            if len(words) == 2:
                best.setdefault(words[0], float(words[1]))  # the relaxation's values follow the best ones
    for stem, prefix, count in (("mknapcb1", "5.100", 30), ("mknapcb4", "10.100", 30)):
        if (folder / f"or/mkp/{stem}.txt").is_file():
            for index in range(count):
                name = f"{prefix}-{index:02d}"
                path = f"or/mkp/{stem}.txt"
                yield _spec(
                    "orlib-knapsack", name, best.get(name), path=path, format="orlib-mknap", index=index
                )
    if (folder / "or/mkp/mknap1.txt").is_file():
        for index, value in enumerate(_MKNAP1):
            path = "or/mkp/mknap1.txt"
            yield _spec(
                "orlib-knapsack", f"mknap1-{index}", value, path=path, format="orlib-mknap", index=index
            )


def _mmkp(folder: Path) -> Iterator[InstanceSpec]:
    known = {row["instance"][:-4]: row["solutions_csv"] for row in _rows(folder / "or/mmkp/bounds.csv")}
    for path in sorted((folder / "or/mmkp").glob("*.txt")):
        listed = known.get(path.stem)
        value = _MMKP_PROVEN.get(path.stem, float(listed) if listed else None)
        yield _spec("mmkp-files", path.stem, value, path=f"or/mmkp/{path.name}", format="mmkp")


def _rcmax(folder: Path) -> Iterator[InstanceSpec]:
    for row in _rows(folder / "or/rcmax/bounds.csv"):
        if (folder / "or/rcmax" / row["instance"]).is_file():
            name = row["instance"][:-4]
            value = float(row["mip_value"])
            yield _spec("rcmax-files", name, value, path=f"or/rcmax/{row['instance']}", format="rcmax")


def _assign(folder: Path) -> Iterator[InstanceSpec]:
    known = folder / "or/assign/assignopt.txt"
    if not known.is_file():
        return
    for line in known.read_text().splitlines():
        words = line.split()
        if len(words) == 2 and (folder / f"or/assign/{words[0]}.txt").is_file():
            path = f"or/assign/{words[0]}.txt"
            yield _spec("orlib-assign", words[0], float(words[1]), path=path, format="orlib-assign")


def _gavel(folder: Path) -> Iterator[InstanceSpec]:
    path = "gavel/simulation_throughputs.json"
    if (folder / path).is_file():
        for jobs in (64, 256, 1024, 2048):
            for seed in range(3):
                yield _spec("gavel-throughputs", f"{jobs}-s{seed}", None, path=path, jobs=jobs, seed=seed)
