"""Reproduce FreeTrain / BFTrainer: ``python -m paper_repro.freetrain [--data FOLDER] [--out FOLDER]``.

Without ``--data`` a seeded machine with the published idle statistics is replayed; with the folder of the
authors' trace (``summit_idle_intervals.npz`` and ``ImageNet-imgps-jobs.csv``) the first 1,024 nodes and the
whole machine are, and the tables show ours beside independent figures for the same data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from apportion.cluster.policies.names import policy
from apportion.cluster.simulation.idle_trace import node_changes, read_idle_trace
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.run_record import RunRecord, record_of
from apportion.cluster.simulation.snapshot import Workload
from apportion.cluster.simulation.summary import makespan_bound
from apportion.draw.report_page import COLOURS, Line, cells, heads, lines, report_page, whole_page
from apportion.scale.executors import in_order, open_executor
from paper_repro.freetrain.sweep import inputs, replayed
from paper_repro.progress import followed
from paper_repro.tables import Table, write_table

TRAINERS = (10, 20, 35)
HORIZONS_S = (10.0, 60.0, 120.0, 300.0, 600.0)
POLICIES = ("freetrain", "freetrain-published", "equal-share", "greedy", "adaptive")
KNOWN_H = {
    ("freetrain", 10): "245.0 / 245.9",
    ("freetrain", 20): "239.9 / 239.3",
    ("freetrain", 35): "234.9 / 234.0",
    ("freetrain-published", 10): "245.7",
    ("equal-share", 10): "251.9",
}
"""Makespans of independent replays of the first 1,024 nodes, hours; the papers print none for this."""
KNOWN_HORIZON_H = {10.0: "242.4", 60.0: "245.0", 120.0: "245.0", 300.0: "248.4", 600.0: "251.0"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweeps; write ``results.md``, ``policies.json``, ``sweeps.html`` and ``replay.html``."""
    parser = argparse.ArgumentParser(prog="paper_repro.freetrain", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the authors' trace; generated data without it")
    parser.add_argument("--out", type=Path, default=Path("freetrain-out"))
    parser.add_argument("--seed", type=int, default=1, help="of generated data")
    parser.add_argument("--quick", action="store_true", help="128 generated nodes and 21 jobs: seconds")
    parser.add_argument(
        "--executor", help="process, process:N, dask, dask:N or dask://HOST:PORT; here without"
    )
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    changes, jobs, title = inputs(given.data, given.seed, given.quick)
    seed = None if given.data else given.seed
    cells = [(name, count, 120.0) for count in TRAINERS for name in POLICIES]
    horizons = [("freetrain", 10, horizon_s) for horizon_s in HORIZONS_S]
    with open_executor(given.executor) as executor:
        asked = [(given.data, given.seed, given.quick, *one) for one in cells + horizons]
        rows = followed(in_order(executor, replayed, asked), "replays", len(asked))
        records = [row.require() for row in rows]
    grid = {(name, count): record for (name, count, _), record in zip(cells, records, strict=False)}
    sweep = dict(zip(HORIZONS_S, records[len(cells) :], strict=True))
    bounds = {count: makespan_bound(changes, jobs, count) for count in TRAINERS}
    known = bool(given.data)
    figures = [
        *(_row(title, count, record, bounds[count]) for (_, count), record in grid.items()),
        *(_row(title, 10, record, bounds[10]) for record in sweep.values()),
    ]
    text = [f"# FreeTrain: {title}", "", *_policies(grid, bounds, known), "", *_horizons(sweep, known), ""]
    if known:
        whole, rows = _whole_machine(given.data, jobs)
        text += whole
        figures += rows
    versions = ", ".join(f"{name} {version}" for name, version in grid["freetrain", 10].versions.items())
    text += [f"Seed {seed}. {versions}." if seed is not None else f"{versions}."]
    report = "\n".join(text)
    print(report)
    seeds = "none: the trace decides" if known else f"{seed}"
    write_table(given.out / "policies.json", Table("paper_repro.freetrain", figures, seeds))
    (given.out / "results.md").write_text(report + "\n")
    (given.out / "sweeps.html").write_text(_charts(title, grid, sweep))
    (given.out / "replay.html").write_text(report_page([grid[name, 10] for name in POLICIES]))
    print(f"\nwritten: {given.out}/results.md, policies.json, sweeps.html, replay.html")


def _row(place: str, trainers: int, record: RunRecord, bound_s: float | None) -> dict[str, Any]:
    """Return one replay as a row of the table of results."""
    summary = record.summary
    return {
        "place": place,
        "trainers": trainers,
        "policy": summary.policy,
        "horizon_s": summary.horizon_s,
        "makespan_h": summary.makespan_h,
        "bound_h": None if bound_s is None else bound_s / 3600,
        "to_dedicated": summary.to_dedicated,
        "lost_preemption": summary.lost_preemption,
        "lost_rescale": summary.lost_rescale,
        "lost_excess": summary.lost_excess,
    }


def _policies(
    grid: dict[tuple[str, int], RunRecord], bounds: dict[int, float | None], known: bool
) -> list[str]:
    rows = [["trainers", *heads(), "bound h", *(["independent replays h"] if known else [])]]
    for (name, count), record in grid.items():
        bound = bounds[count]
        hours = "-" if bound is None else f"{bound / 3600:.2f}"
        rows.append(
            [
                str(count),
                *cells(record.summary),
                hours,
                *([KNOWN_H.get((name, count), "")] if known else []),
            ]
        )
    note = "The bound is a makespan that no policy can beat, not even a clairvoyant one that loses nothing."
    return ["## Policies (T_fwd = 120 s)", "", *_markdown(rows), "", note]


def _horizons(sweep: dict[float, RunRecord], known: bool) -> list[str]:
    rows = [["T_fwd s", *heads()[1:], *(["independent replay h"] if known else [])]]
    for horizon_s, record in sweep.items():
        hours = [KNOWN_HORIZON_H[horizon_s]] if known else []
        rows.append([f"{horizon_s:g}", *cells(record.summary)[1:], *hours])
    return ["## Forward-looking time, FreeTrain, 10 trainers", "", *_markdown(rows)]


def _whole_machine(data: Path, jobs: Workload) -> tuple[list[str], list[dict[str, Any]]]:
    trace = read_idle_trace(data / "summit_idle_intervals.npz")
    changes = node_changes(trace, None, float(jobs.submitted_s[0]))
    bound = makespan_bound(changes, jobs, 35)
    hours = "-" if bound is None else f"{bound / 3600:.2f}"
    rows = [["policy", *heads()[1:], "bound h", "independent replay h"]]
    figures = []
    for name in ("freetrain", "adaptive"):
        replay = Replay(changes, jobs, policy(name, 120.0), 35)
        replay.run()
        record = record_of(replay, name, 120.0)
        figures.append(_row("all 4,734 nodes", 35, record, bound))
        rows.append([name, *cells(record.summary)[1:], hours, "56.1" if name == "freetrain" else ""])
    return ["## All 4,734 nodes, 35 trainers", "", *_markdown(rows), ""], figures


def _markdown(rows: list[list[str]]) -> list[str]:
    head, *body = rows
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)] + [
        "| " + " | ".join(row) + " |" for row in body
    ]


def _charts(title: str, grid: dict[tuple[str, int], RunRecord], sweep: dict[float, RunRecord]) -> str:
    def curve(name: str, value: Callable[[RunRecord], float | None], colour: str) -> Line:
        points = [(count, value(grid[name, count])) for count in TRAINERS]
        some = [(x, y) for x, y in points if y is not None]
        return Line(
            name, np.array([x for x, _ in some], float), np.array([y for _, y in some], float), colour
        )

    horizons = np.array(HORIZONS_S)
    losses = [
        Line(
            name, horizons, np.array([100 * getattr(sweep[t].summary, field) for t in HORIZONS_S]), COLOURS[k]
        )
        for k, (name, field) in enumerate(
            (
                ("pre-emption", "lost_preemption"),
                ("rescaling", "lost_rescale"),
                ("past the end", "lost_excess"),
            )
        )
    ]
    ratios = np.array([sweep[t].summary.to_dedicated or 0.0 for t in HORIZONS_S])
    return whole_page(
        title,
        [
            f"<h1>FreeTrain: {escape(title)}</h1>",
            lines(
                [curve(n, lambda r: r.summary.to_dedicated, COLOURS[k]) for k, n in enumerate(POLICIES)],
                "Makespan on a dedicated pool over the replay's, against parallel trainers",
                "to dedicated",
                axis="parallel trainers",
            ),
            lines(
                [Line("freetrain, 10 trainers", horizons, ratios, COLOURS[0])],
                "The same against the forward-looking time",
                "to dedicated",
                axis="T_fwd, seconds",
            ),
            lines(losses, "Where the loss goes", "% of the output", axis="T_fwd, seconds"),
        ],
    )


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.freetrain"):
        main()
