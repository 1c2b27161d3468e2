"""Reproduce MalleTrain: ``python -m paper_repro.malletrain [--data FOLDER] [--out FOLDER] [--seeds N]``.

A backlog of jobs whose scaling nobody knows (hyperparameter trials, architectures) on idle nodes:
FreeTrain's policy with guessed curves, with curves learnt on the way (MalleTrain), and with the true ones
(oracle). All maximise the sum of speed-ups on one node, and output is work done, in jobs that are all
equally long on one node. The paper reports up to +22.3 % throughput over FreeTrain without user-provided
scalability.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from apportion.draw.report_page import COLOURS, bars, whole_page
from apportion.scale.executors import in_order, open_executor
from paper_repro.malletrain.gains import gains
from paper_repro.malletrain.sweep import IDLE_LOG, compared
from paper_repro.progress import followed
from paper_repro.tables import Table, markdown, write_table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the grid, print the table, write ``results.md`` and ``results.html``."""
    parser = argparse.ArgumentParser(prog="paper_repro.malletrain", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the authors' trace; generated data without it")
    parser.add_argument("--out", type=Path, default=Path("malletrain-out"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--noise", type=float, default=0.1, help="error of what is measured, log-normal")
    parser.add_argument(
        "--executor", help="process, process:N, dask, dask:N or dask://HOST:PORT; here without"
    )
    parser.add_argument(
        "--quick", action="store_true", help="32 generated nodes, six hours, one seed: seconds"
    )
    given = parser.parse_args(arguments)
    if given.quick:
        given.seeds, given.nodes, given.days = 1, 32, 0.25
    if given.data is not None:
        (given.data / IDLE_LOG).stat()  # missing, that is all that is said
    given.out.mkdir(parents=True, exist_ok=True)
    cells = [
        (kind, halving, trainers, seed)
        for seed in range(1, given.seeds + 1)
        for trainers in (10, 20)
        for kind in ("nas", "hpo")
        for halving in (False, True)
    ]
    where = "Summit" if given.data else "a generated machine"
    seeds = f"1 to {given.seeds}, {given.nodes} nodes of {where}, {given.days:g} days"
    rows: list[dict[str, Any]] = []
    with open_executor(given.executor) as executor:
        asked = ((given.data, given.nodes, given.days, *cell, given.noise) for cell in cells)
        compared_rows = followed(in_order(executor, compared, asked), "comparisons", len(cells))
        for cell, row in zip(cells, compared_rows, strict=True):
            kind, halving, trainers, seed = cell
            cell_of = {
                "workload": kind + (", halving" if halving else ""),
                "trainers": trainers,
                "seed": seed,
            }
            rows.append(cell_of | row.require())
            print("\n".join(list(markdown(rows))[-1:]), flush=True)
            # what is done so far, whole, should the rest be stopped
            write_table(given.out / "shares.json", Table("paper_repro.malletrain", rows, seeds))
    compared_to = list(gains(rows, given.noise))
    text = [f"# MalleTrain: unknown scaling, {given.nodes} nodes of {where}, {given.days:g} days", ""]
    text += ["Output as a share of the oracle's.", "", *markdown(rows), "", *markdown(compared_to)]
    print("\n" + "\n".join(text))
    (given.out / "results.md").write_text("\n".join(text) + "\n")
    write_table(given.out / "gains.json", Table("paper_repro.malletrain", compared_to, seeds))
    (given.out / "results.html").write_text(_page(rows))
    print(f"\nwritten: {given.out}/results.md, shares.json, gains.json, results.html")


def _page(rows: list[dict[str, Any]]) -> str:
    parts = []
    names = [name for name in rows[0] if name not in ("workload", "trainers", "seed")]
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = [row for row in rows if row["workload"] == workload]
        means = [float(np.mean([100 * row[name] for row in own])) for name in names]
        drawn = [
            (name, [("of the oracle", mean, COLOURS[0])]) for name, mean in zip(names, means, strict=True)
        ]
        parts.append(bars(drawn, f"Output against the oracle, {workload}, mean over trainers and seeds"))
    title = "MalleTrain: jobs whose scaling is unknown"
    return whole_page(title, [f"<h1>{escape(title)}</h1>", *parts])


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.malletrain"):
        main()
