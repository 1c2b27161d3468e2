"""Mean completion time under prices of work and under published policies: ``python -m paper_repro.costate``.

Ten workloads of 160 jobs, as in `paper_repro.icefrog`, on 48 and 64 GPUs, and on 48 with jobs of one
application that differ in their work, or that end before they were asked to. Writes ``costate_48.json`` and
so on: a row a policy and what it is told of remaining work, with how much less the average completion time is
than that of AFS and Sia as published, how far it is above what no policy undercuts (`completion_bound`), and
what it is paid with; intervals are 95 % by Student's t over pairs on the same workload.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.cli.running import in_one_line
from apportion.cluster.policies.names import CLUSTER_POLICIES
from paper_repro.costate.bounds import Bounds, above, way_gone
from paper_repro.costate.decisions import decision_rows
from paper_repro.costate.gaps import gap_rows
from paper_repro.costate.three_types import three_types_rows
from paper_repro.costate.variants import VARIANTS, variant_rows
from paper_repro.icefrog.cases import WORKLOADS, Case, Result, prepared
from paper_repro.icefrog.store import Runs
from paper_repro.intervals import Mean
from paper_repro.shipped import NEEDS_DATA, average_completion
from paper_repro.tables import Table, markdown, write_table

ROWS: tuple[tuple[str, str], ...] = (
    ("afs", "true"),
    ("sia", "true"),
    ("pollux", "true"),
    ("titan", "true"),
    ("costate", "true"),
    ("afs", "by-application"),
    ("costate", "by-application"),
    ("afs", "attained"),
    ("costate", "attained"),
    ("icefrog", "true"),
    ("afs+depth", "true"),
    ("costate+depth", "true"),
    ("costate-freezing", "true"),
)
"""Policies, and what they are told; ``+depth``: frozen afterwards where they run, theta 1."""
UNLIKE: tuple[tuple[str, str], ...] = (
    ("afs", "true"),
    ("sia", "true"),
    ("pollux", "true"),
    ("costate", "true"),
    ("afs", "by-application"),
    ("costate", "by-application"),
    ("afs", "attained"),
    ("costate", "attained"),
)
"""Where jobs of one application differ."""


@dataclass(frozen=True, slots=True)
class Study:
    """One table: its rows, and what differs from the published workloads.

    Attributes
    ----------
    rows
        Policies, and what they are told.
    gpus
        Of the cluster.
    spread, early
        As of `Case`.
    """

    rows: tuple[tuple[str, str], ...]
    gpus: int = 48
    spread: float = 0.0
    early: float = 0.0

    def case(self, workload: str, policy: str, remaining: str) -> Case:
        """Return a run."""
        return Case(
            workload, policy, gpus=self.gpus, remaining=remaining, spread=self.spread, early=self.early
        )


STUDIES: Mapping[str, Study] = MappingProxyType(
    {
        "48": Study(ROWS),
        "64": Study(ROWS, 64),
        "48_spread": Study(UNLIKE, spread=0.7),
        "48_early": Study((*UNLIKE, ("afs", "asked"), ("costate", "asked")), early=0.6),
    }
)
SETTINGS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "as published": {},
        "half the load": {"load": 0.5},
        "one and a half times the load": {"load": 1.5},
        "twice the load": {"load": 2.0},
        "throughputs wrong by 10 %": {"noise": 0.1},
        "throughputs wrong by 30 %": {"noise": 0.3},
        "restarts of 0 s": {"restart_s": 0.0},
        "restarts of 90 s": {"restart_s": 90.0},
        "80 jobs": {"jobs": 80},
        "320 jobs, 64 GPUs": {"jobs": 320, "gpus": 64},
    }
)
"""What is changed, one at a time, on 48 GPUs unless said."""
GPUS = {"gpus": 48}
AGAINST = ("afs", "sia", "pollux")
PAID: Mapping[str, Callable[[Result], float]] = MappingProxyType(
    {
        "99th percentile": lambda one: one.p99_jct_s,
        "makespan": lambda one: one.makespan_s,
        "GPU-hours": lambda one: one.gpu_hours,
    }
)
"""What a low mean is paid with."""


def rows_of(runs: Runs, study: Study, bounds: Sequence[float]) -> list[dict[str, Any]]:
    """Return a table's rows, given what no policy undercuts on every workload."""
    found = []
    first = [runs[study.case(workload, "afs", "true")] for workload in WORKLOADS]
    for policy, remaining in study.rows:
        own = [runs[study.case(workload, policy, remaining)] for workload in WORKLOADS]
        row: dict[str, Any] = {
            "policy": policy,
            "remaining work": remaining,
            "average, s": Mean.of([one.avg_jct_s for one in own]).words(),
        }
        for other in AGAINST:
            theirs = [runs[study.case(workload, other, "true")] for workload in WORKLOADS]
            less = [1.0 - one.avg_jct_s / beside.avg_jct_s for one, beside in zip(own, theirs, strict=True)]
            row[f"less than {other}, per cent"] = Mean.of(less).words(100.0, 1)
        unfrozen = "+" not in policy and not CLUSTER_POLICIES[policy].freezes
        means = [one.avg_jct_s for one in own]
        row["above the bound, per cent"] = above(means, bounds) if unfrozen else ""
        way = way_gone([one.avg_jct_s for one in first], means, bounds)
        row["of the way from afs to the bound, per cent"] = way if unfrozen else ""
        for name, figure in PAID.items():
            more = [figure(one) / figure(beside) - 1.0 for one, beside in zip(own, first, strict=True)]
            row[f"{name} more than afs, per cent"] = Mean.of(more).words(100.0, 1)
        row["restarts"] = round(Mean.of([float(one.restarts) for one in own]).value)
        found.append(row | {"CPU seconds": sum(one.seconds for one in own)})
    return found


def study_rows(runs: Runs, bounds: Bounds, study: Study) -> list[dict[str, Any]]:
    """Run what a table needs and return its rows."""
    runs.run([study.case(workload, *row) for workload in WORKLOADS for row in study.rows])
    rounds_s = {CLUSTER_POLICIES[name].round_s for name, _ in study.rows if "+" not in name}
    own = bounds.of(rounds_s, gpus=study.gpus, spread=study.spread, early=study.early)
    return rows_of(runs, study, own)


def setting_rows(runs: Runs, bounds: Bounds) -> list[dict[str, Any]]:
    """Run and return how AFS and prices of work, told the same, stand in every setting."""
    found = []
    for setting, changed in SETTINGS.items():
        row: dict[str, Any] = {"setting": setting}
        for remaining in ("true", "attained"):
            both = [
                [Case(workload, policy, remaining=remaining, **GPUS | changed) for workload in WORKLOADS]
                for policy in ("afs", "costate")
            ]
            runs.run([case for cases in both for case in cases])
            afs, ours = ([runs[case].avg_jct_s for case in cases] for cases in both)
            row[f"afs, {remaining}, s"] = Mean.of(afs).words()
            row[f"costate, {remaining}, s"] = Mean.of(ours).words()
            less = [1.0 - one / other for one, other in zip(ours, afs, strict=True)]
            row[f"less than afs, {remaining}, per cent"] = Mean.of(less).words(100.0, 1)
            if remaining == "true":
                known = afs, ours
        row["of the way to the bound, true, per cent"] = ""
        if changed.get("restart_s", 30.0) > 0.0:  # the bound leaves restarts room for rounding
            rounds_s = {CLUSTER_POLICIES[name].round_s for name in ("afs", "costate")}
            truth = {name: own for name, own in changed.items() if name != "noise"}
            way = way_gone(*known, bounds.of(rounds_s, **truth))
            row["of the way to the bound, true, per cent"] = way
        found.append(row)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is not known yet, print and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.costate")
    parser.add_argument("--data", type=Path, help="folder with pollux, sia and layer_freezing")
    parser.add_argument("--out", type=Path, default=Path("costate-out"))
    parser.add_argument("--workers", type=int, default=1)
    names = [*STUDIES, "settings", *VARIANTS, "three_types", "gaps", "decisions"]
    parser.add_argument("--tables", nargs="+", default=names, choices=names)
    parser.add_argument("--quick", action="store_true", help="two policies on the example's jobs")
    given = parser.parse_args(arguments)
    if given.quick:
        print("\n".join(markdown(average_completion(("afs", "costate"), {}))))
        return
    if given.data is None:
        parser.error(NEEDS_DATA)
    prepared(given.data, STUDIES["48"].case(WORKLOADS[0], "afs", "true"))  # what is missing is said at once
    given.out.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.data, given.out / "runs.jsonl", given.workers)
    bounds = Bounds(given.data, runs, given.out / "bounds.jsonl", given.workers)
    for name in given.tables:
        if name == "settings":
            found = setting_rows(runs, bounds)
        elif name in VARIANTS:
            found = variant_rows(given.data, bounds, name)
        elif name == "gaps":
            found = gap_rows()
        elif name == "decisions":
            found = decision_rows(given.data)
        elif name == "three_types":
            found = three_types_rows(given.data)
        else:
            found = study_rows(runs, bounds, STUDIES[name])
        print("\n".join(markdown(found)))
        seeds = "the ten workloads; what differs from them is drawn by the sums of their names"
        write_table(
            given.out / f"costate_{name}.json", Table(f"paper_repro.costate --tables {name}", found, seeds)
        )


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.costate"):
        main()
