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

import numpy as np

from apportion.executors import in_order, open_executor
from apportion.simulation.report_charts import COLOURS, bars
from apportion.simulation.report_page import whole_page
from paper_repro.malletrain.sweep import compared
from paper_repro.malletrain.unknown_scaling import GUESSES


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the grid, print the table, write ``results.md`` and ``results.html``."""
    parser = argparse.ArgumentParser(prog="paper_repro.malletrain", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the authors' trace; generated data without it")
    parser.add_argument("--out", type=Path, default=Path("malletrain-out"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument(
        "--executor", help="process, process:N, dask, dask:N or dask://HOST:PORT; here without"
    )
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    cells = [
        (kind, trainers, seed)
        for kind in ("hpo", "nas")
        for trainers in (10, 20)
        for seed in range(1, given.seeds + 1)
    ]
    rows = []
    with open_executor(given.executor) as executor:
        asked = ((given.data, given.nodes, given.days, *cell) for cell in cells)
        for (kind, trainers, seed), row in zip(cells, in_order(executor, compared, asked), strict=True):
            rows.append((kind, trainers, seed, row.require()))
            print(f"{kind} {trainers} trainers seed {seed}: {_told(rows[-1][3])}", flush=True)
    text = _table(rows, given)
    print("\n" + text)
    (given.out / "results.md").write_text(text + "\n")
    (given.out / "results.html").write_text(_page(rows))
    print(f"\nwritten: {given.out}/results.md, results.html")


def _told(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())


def _table(rows: list[tuple[str, int, int, dict[str, float]]], given: argparse.Namespace) -> str:
    names = list(rows[0][3])
    where = "Summit" if given.data else "a generated machine"
    lines = [
        f"# MalleTrain: unknown scaling, {given.nodes} nodes of {where}, {given.days:g} days",
        "",
        "Output as a share of the oracle's.",
        "",
        "| workload | trainers | seed | " + " | ".join(names) + " | gain over the guesses |",
        "|" + " --- |" * (len(names) + 4),
    ]
    for kind, trainers, seed, shares in rows:
        gains = [shares["MalleTrain"] / shares[f"guess: {guess}"] - 1 for guess in GUESSES]
        told = " | ".join(f"{100 * share:.2f} %" for share in shares.values())
        span = f"{100 * min(gains):+.1f} to {100 * max(gains):+.1f} %"
        lines.append(f"| {kind} | {trainers} | {seed} | {told} | {span} |")
    worst = min(shares["MalleTrain"] for *_, shares in rows)
    best = max(
        shares["MalleTrain"] / shares[f"guess: {guess}"] - 1 for *_, shares in rows for guess in GUESSES
    )
    lines += [
        "",
        f"Paper: up to +22.3 %. Here: up to {100 * best:+.1f} %, at least {100 * worst:.2f} % of the oracle.",
        "The gain comes from node counts: a wrong curve gives nodes to jobs that cannot use them. What is "
        "left to the oracle is the cost of profiling on purpose and of the first decisions about a new job.",
    ]
    return "\n".join(lines)


def _page(rows: list[tuple[str, int, int, dict[str, float]]]) -> str:
    parts = []
    for kind in ("hpo", "nas"):
        names = list(rows[0][3])
        means = [np.mean([100 * shares[name] for own, *_, shares in rows if own == kind]) for name in names]
        drawn = [
            (name, [("of the oracle", float(mean), COLOURS[0])])
            for name, mean in zip(names, means, strict=True)
        ]
        parts.append(bars(drawn, f"Output against the oracle, {kind}, mean over trainers and seeds"))
    title = "MalleTrain: jobs whose scaling is unknown"
    return whole_page(title, [f"<h1>{escape(title)}</h1>", *parts])


if __name__ == "__main__":
    main()
