"""Harvest a real Slurm on one machine: ``python -m paper_repro.malletrain.live [--seconds S] [--seed N]``.

A main queue of short jobs loads eight nodes to about 70 %; behind it malleable trainers run on what is left,
by one policy after the other, the main queue's jobs the same every time. Told are the samples trained and
what the main queue waited. Several "nodes" on a few cores scale only as far as their trainers wait in
proportion to a curve, which they do (`apportion.live.trainers.numpy_mlp`, ``--rates``).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from apportion.draw.report_page import COLOURS, bars, whole_page
from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.one_machine import OneMachineSlurm
from paper_repro.tables import Table, write_table

NODES = 8
CURVES = {
    "near-linear": "1:400,2:780,4:1520,8:2900",
    "middling": "1:400,2:700,4:1100,8:1500",
    "flat": "1:400,2:440,4:470,8:480",
}
"""Samples per second by nodes of the three trainers; all the same on one node."""
POLICIES = ("no harvest", "equal-share", "freetrain", "malletrain")
SCRIPT = '#!/bin/sh\ndate +%s.%N > "$1"\nexec sleep "$2"\n'


@dataclass(frozen=True, slots=True)
class MainJob:
    """A job of the main queue: when it is submitted, on how many nodes, for how long (seconds)."""

    at_s: float
    nodes: int
    run_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """What one policy came to.

    Attributes
    ----------
    samples
        Trained by each trainer and safe in its checkpoint at the end.
    waits_s
        Of every main-queue job, from its submission to its first line.
    held_node_s
        Node-seconds of the harvest partition, sampled twice a second.
    main_node_s
        Node-seconds of the main queue, likewise.
    starts
        How often trainers were started.
    taken_back
        Pilots that Slurm took back for the main queue.
    """

    policy: str
    samples: dict[str, int]
    waits_s: list[float]
    held_node_s: float
    main_node_s: float
    starts: int
    taken_back: int


def main_queue(seed: int, seconds: float, load: float = 0.7) -> list[MainJob]:
    """Return Poisson arrivals of jobs of 1 to 4 nodes and 4 to 40 s whose work is `load` of the machine."""
    draw = np.random.default_rng(seed)
    jobs: list[MainJob] = []
    at_s, work, mean_work = 0.0, 0.0, 2.1 * 14.1
    while work < load * NODES * seconds:
        nodes = int(draw.choice([1, 2, 3, 4], p=[0.4, 0.25, 0.2, 0.15]))
        run_s = float(np.exp(draw.uniform(np.log(4.0), np.log(40.0))))
        jobs.append(MainJob(at_s, nodes, round(run_s, 2)))
        work += nodes * run_s
        at_s += float(draw.exponential(mean_work / (load * NODES)))
    # arrivals fill the time they are meant for
    scale = 0.95 * seconds / max(jobs[-1].at_s, 1e-9)
    return [MainJob(round(job.at_s * scale, 2), job.nodes, job.run_s) for job in jobs]


def run_policy(policy: str, jobs: Sequence[MainJob], seconds: float) -> Result:
    """Start a fresh Slurm, run main queue and trainers for so long, and tell what came of it."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        OneMachineSlurm(Path(folder) / "c", NODES) as slurm,
        Harvest(slurm, Path(folder), "--trainers", str(len(CURVES))) as harvest,
    ):
        script = Path(folder) / "main.sh"
        script.write_text(SCRIPT)
        trainers: dict[str, str] = {}
        if policy != "no harvest":
            harvest.start("--policy", policy)
            for name, rates in CURVES.items():
                given = ["--curve", rates] if policy == "freetrain" else []
                trainers[harvest.submit(None, numpy_trainer(rates), more=given)] = name
        submitted, held_s, main_s = _load(slurm, Path(folder), script, jobs, seconds)
        records = harvest.jobs() if trainers else {}
        if trainers:
            harvest.drain()
            records = harvest.jobs()
        slurm.wait_until(
            lambda: all((Path(folder) / f"started-{number}").exists() for number in range(len(jobs))),
            "every main-queue job has begun",
            120.0,
        )
        waits = [
            float((Path(folder) / f"started-{number}").read_text()) - at_s
            for number, at_s in enumerate(submitted)
        ]
        return Result(
            policy,
            {name: int(records[job]["durable"]) for job, name in trainers.items()},
            waits,
            held_s,
            main_s,
            sum(int(record["generation"]) for record in records.values()),
            len({one["pilot"] for kind in ("node_leaves", "node_gone") for one in harvest.events(kind)}),
        )


def _load(
    slurm: OneMachineSlurm, folder: Path, script: Path, jobs: Sequence[MainJob], seconds: float
) -> tuple[list[float], float, float]:
    """Submit the main queue in time; return when each job was submitted, and the node-seconds held."""
    submitted: list[float] = []
    held_s = main_s = 0.0
    begun = before = time.time()
    while (now := time.time()) < begun + seconds:
        while len(submitted) < len(jobs) and now >= begun + jobs[len(submitted)].at_s:
            job = jobs[len(submitted)]
            mark = folder / f"started-{len(submitted)}"
            submitted.append(time.time())
            where = ["--chdir=/", "--output=/dev/null", "-p", "main", f"-N{job.nodes}"]
            slurm.run(["sbatch", *where, str(script), str(mark), str(job.run_s)])
        counts = {"main": 0, "harvest": 0}
        for line in slurm.run(["squeue", "-h", "-t", "R", "-o", "%P %D"]).splitlines():
            partition, nodes = line.split()
            counts[partition] += int(nodes)
        now = time.time()
        held_s, main_s = held_s + counts["harvest"] * (now - before), main_s + counts["main"] * (now - before)
        before = now
        time.sleep(0.1 if len(submitted) < len(jobs) else 0.5)
    return submitted, held_s, main_s


def report(results: Sequence[Result], jobs: Sequence[MainJob], given: argparse.Namespace) -> str:
    """Return the table and its limits in Markdown."""
    room = NODES * given.seconds
    base = next((one for one in results if one.policy == "no harvest"), None)
    lines = [
        f"Main queue: {len(jobs)} jobs in {given.seconds:g} s on {NODES} nodes, seed {given.seed}; behind it "
        "three trainers.",
        "",
        "| policy | samples trained (thousands) | near-linear / middling / flat | nodes held | main queue "
        "| starts | taken back | waits: mean, median, 95 % (s) | added: median, 95 % (s) |",
        "|" + " --- |" * 9,
    ]
    for one in results:
        waits = np.array(one.waits_s)
        samples = " / ".join(f"{one.samples[name] / 1e3:.1f}" for name in CURVES) if one.samples else "-"
        added = "-"
        if base is not None and one is not base:
            more = waits - np.array(base.waits_s)
            added = f"{np.median(more):+.2f}, {np.quantile(more, 0.95):+.2f}"
        lines.append(
            f"| {one.policy} | {sum(one.samples.values()) / 1e3:.1f} | {samples} "
            f"| {one.held_node_s / room:.1%} | {one.main_node_s / room:.1%} "
            f"| {one.starts} | {one.taken_back} "
            f"| {waits.mean():.2f}, {np.median(waits):.2f}, {np.quantile(waits, 0.95):.2f} | {added} |"
        )
    return "\n".join(lines)


def rows(results: Sequence[Result], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the figures of every policy; what the harvest adds to waits is told job by job."""
    base = next((np.array(one.waits_s) for one in results if one.policy == "no harvest"), None)
    for one in results:
        waits = np.array(one.waits_s)
        yield {
            "policy": one.policy,
            "samples, thousands": sum(one.samples.values()) / 1e3,
            **{f"{name}, thousands": one.samples.get(name, 0) / 1e3 for name in CURVES},
            "nodes held, %": 100 * one.held_node_s / (NODES * seconds),
            "main queue, %": 100 * one.main_node_s / (NODES * seconds),
            "starts": one.starts,
            "taken back": one.taken_back,
            "mean wait, s": float(waits.mean()),
            "median wait, s": float(np.median(waits)),
            "95th percentile, s": float(np.quantile(waits, 0.95)),
            "median added, s": None if base is None else float(np.median(waits - base)),
            "95th percentile added, s": None if base is None else float(np.quantile(waits - base, 0.95)),
        }


def page(results: Sequence[Result]) -> str:
    """Return the figure as a page."""
    trained = [
        (one.policy, [(name, one.samples.get(name, 0) / 1e3, COLOURS[at]) for at, name in enumerate(CURVES)])
        for one in results
    ]
    waited = [
        (
            one.policy,
            [
                ("mean", float(np.mean(one.waits_s)), COLOURS[0]),
                ("95th percentile", float(np.quantile(one.waits_s, 0.95)), COLOURS[1]),
            ],
        )
        for one in results
    ]
    title = "Harvesting a real Slurm on one machine"
    charts = [
        bars(trained, "Thousand samples trained, by trainer"),
        bars(waited, "Seconds the main queue's jobs waited"),
    ]
    return whole_page(title, [f"<h1>{escape(title)}</h1>", *charts])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the policies, print the table, write ``live.md``, ``live.json``, ``live.html``, ``waits.json``."""
    parser = argparse.ArgumentParser(prog="paper_repro.malletrain.live", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="for each policy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument("--out", type=Path, default=Path("malletrain-out"))
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    jobs = main_queue(given.seed, given.seconds)
    results = []
    for policy in given.policies:
        results.append(run_policy(policy, jobs, given.seconds))
        print(report(results, jobs, given), flush=True)
        (given.out / "waits.json").write_text(json.dumps([asdict(one) for one in results], indent=1))
        told = f"seed {given.seed}, {given.seconds:g} s, {len(jobs)} main-queue jobs on {NODES} nodes"
        table = Table("paper_repro.malletrain.live", list(rows(results, given.seconds)), told)
        write_table(given.out / "live.json", table)
    (given.out / "live.md").write_text(report(results, jobs, given) + "\n")
    (given.out / "live.html").write_text(page(results))


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.malletrain.live"):
        main()
