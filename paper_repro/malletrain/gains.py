"""By how much one way to know curves beats another: ``python -m paper_repro.malletrain.gains SHARES.json``.

Machine, workload and errors are drawn by the seed, so replays of the same seed with another number of
trainers are no independent witnesses: intervals are over seeds alone, for every number of trainers and for
the mean of them. The study's command writes ``gains.json`` so; this one makes it from ``shares.json`` alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from paper_repro.intervals import Mean
from paper_repro.tables import Table, markdown, write_table

__all__ = ["gains"]

_MEAN = "mean of all"


def gains(rows: Sequence[Mapping[str, Any]], noise: float) -> Iterator[dict[str, Any]]:
    """Yield by how many per cent one output exceeds another, paired seed by seed.

    Parameters
    ----------
    rows
        Of ``shares.json``: a row a workload, number of trainers and seed.
    noise
        Of the measurements in those columns that say so.
    """
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = [row for row in rows if row["workload"] == workload]
        counts = list(dict.fromkeys(row["trainers"] for row in own))
        for ours, theirs in _pairs(noise):
            for trainers in (*counts, _MEAN):
                cells = [row for row in own if trainers in (row["trainers"], _MEAN)]
                more = _by_seed(cells, ours, theirs)
                mean = Mean.of(more)
                yield {
                    "workload": workload,
                    "trainers": trainers,
                    "output of": ours,
                    "over": theirs,
                    "more, %": mean.value,
                    "half-width": mean.half,
                    "least": min(more),
                    "most": max(more),
                    "seeds": mean.count,
                }


def _pairs(noise: float) -> tuple[tuple[str, str], ...]:
    suffix = f", noise {noise:g}"
    return (
        (f"MalleTrain{suffix}", "guess: linear"),
        (f"MalleTrain{suffix}", "guess: average"),
        (f"MalleTrain{suffix}", f"ordinary running{suffix}"),
        (f"ordinary running{suffix}", "guess: average"),
        ("MalleTrain", "guess: average"),
        ("MalleTrain", "ordinary running"),
        ("MalleTrain", "MalleTrain, told the costs"),
    )


def _by_seed(cells: Sequence[Mapping[str, Any]], ours: str, theirs: str) -> list[float]:
    seeds = dict.fromkeys(row["seed"] for row in cells)
    more = {
        seed: [100 * (row[ours] / row[theirs] - 1) for row in cells if row["seed"] == seed] for seed in seeds
    }
    return [float(np.mean(values)) for values in more.values()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a table of shares, print and write the gains."""
    parser = argparse.ArgumentParser(prog="paper_repro.malletrain.gains", description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--noise", type=float, default=0.1, help="that the table was made with")
    parser.add_argument("--out", type=Path, default=Path("malletrain-out"))
    given = parser.parse_args(arguments)
    read = json.loads(given.table.read_text(encoding="utf-8"))
    rows = list(gains(read["rows"], given.noise))
    print("\n".join(markdown(rows)))
    made = read["made"]
    told = f"{made['seeds']}; from {given.table.name}, made by the code of {made['commit']}"
    write_table(given.out / "gains.json", Table("paper_repro.malletrain.gains", rows, told))


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.malletrain.gains"):
        main()
