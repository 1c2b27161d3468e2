"""Presets of the suite: one command each for the figures that README and docs quote, printed as a table.

``python -m benchmarks preset NAME [--only PATTERN] [--data FOLDER] [--limit S] [--seeds N]``: the cells are
those of ``python -m benchmarks run``, measured in the same way, and nothing is written. Seconds are the
processor's, the least of the calls that a solver was given, whose number is told; a long call is not
repeated. The ratio is the quotient of the two seconds that are printed. Where one side had fewer calls, which
favours the other, the quotient of equally many calls follows with its own two figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from apportion.core.outcome import relative_gap
from benchmarks.reporting.behind import behind
from benchmarks.suite.guard import run_cell
from benchmarks.suite.published import PUBLISHED
from benchmarks.suite.registry import Selection, cells_of
from benchmarks.suite.solvers import OURS
from benchmarks.timing import provenance

__all__ = ["PRESETS", "Preset", "Ratio", "printed", "ratio"]


@dataclass(frozen=True, slots=True)
class Preset:
    """A selection of the suite with a name.

    Attributes
    ----------
    about
        What it shows, in one line.
    instances, solvers
        Patterns as `Selection.only` has them. Published sets are left out without a data folder.
    limit_s, seeds
        As in `Selection`.
    """

    about: str
    instances: tuple[str, ...]
    solvers: tuple[str, ...] = (OURS, "apportion:highs")
    limit_s: float | None = None
    seeds: int = 1


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "gap_filling_event": Preset(
            "One gap-filling event, beside plain dynamic programming and the count and node MILPs on HiGHS.",
            ("events/20-200-s0",),
            (OURS, "apportion:highs", "apportion:by_node"),
        ),
        "knapsack_scaling": Preset(
            "How the exact knapsack engine grows with the number of jobs, beside HiGHS up to 10,000.",
            ("menus-uniform",),
        ),
        "sia_rounds": Preset(
            "A scheduling round of a Sia-style cluster, 64 GPUs and 48 jobs times 4 and 16.",
            ("sia-rounds/4-s*", "sia-rounds/16-s*"),
        ),
        "tenant_rounds": Preset(
            "Fair shares over a tree of tenants, then the sum, beside a sequence of MILPs on HiGHS.",
            ("tenants-rounds",),
            (OURS, "leximin-milps+highs"),
            seeds=3,
        ),
        "freezing_rounds": Preset(
            "A layer-freezing round placed on nodes, beside the MILP over all configurations.",
            ("freezing-on-nodes",),
            (OURS, "apportion:all_depths", "apportion:all_depths+cp-sat"),
        ),
        "gavel_makespan": Preset(
            "Gavel's minimum-makespan program, beside the bisection it replaces.",
            ("gavel-rounds", "gavel-throughputs"),
            (OURS, "gavel-bisection"),
            seeds=3,
        ),
        "assignment_search": Preset(
            "Generalised assignment and R||Cmax by the compiled tree, beside HiGHS and CP-SAT.",
            ("orlib-gap", "assignment-hard/*-s0", "rcmax-files", "unrelated/*-s*"),
            (OURS, "apportion:highs", "apportion:cp-sat"),
            limit_s=10.0,
            seeds=3,
        ),
        "unrelated_makespans": Preset(
            "R||Cmax, eight files and 21 generated ones, beside single engines: behind whom, and where.",
            ("rcmax-files", "unrelated", "unrelated-classes"),
            (OURS, "apportion:highs", "apportion:cp-sat", "ortools-cp-sat", "pyjobshop"),
            limit_s=10.0,
            seeds=3,
        ),
        "matching_orlib": Preset(
            "Assignment, transportation, generalised assignment and R||Cmax, beside the general solvers.",
            ("linear-costs", "transportation", "orlib-assign", "orlib-gap", "rcmax-files"),
            (OURS, "apportion:highs", "apportion:cp-sat", "apportion:scip", "scipy-matching"),
            limit_s=10.0,
        ),
        "exact_search": Preset(
            "The exact search on small menus and on OR-Library's 5.100, beside HiGHS and CP-SAT.",
            ("half-menus", "orlib-knapsack/5.100-*"),
            (OURS, "apportion:highs", "apportion:cp-sat"),
            limit_s=10.0,
        ),
        "multiknapsack_orlib": Preset(
            "Knapsacks with several capacities, beside HiGHS and CP-SAT at equal seconds.",
            ("several-capacities", "chu-beasley", "mmkp-files", "orlib-knapsack"),
            (OURS, "apportion:highs", "apportion:cp-sat"),
            limit_s=10.0,
        ),
    }
)


def printed(
    name: str, only: tuple[str, ...], data: Path | None, limit_s: float | None, seeds: int | None
) -> None:
    """Measure the cells of a preset, those of a pattern if any is given, and print a table."""
    preset = PRESETS[name]
    instances = tuple(
        one for one in preset.instances if data is not None or one.split("/")[0] not in PUBLISHED
    )
    selection = Selection(
        only=(*instances, *preset.solvers),
        data=data,
        limit_s=limit_s or preset.limit_s,
        seeds=seeds or preset.seeds,
    )
    click.echo(f"{preset.about}\n{provenance('highspy', 'ortools', 'scipy')}")
    rows: dict[str, list[dict[str, Any]]] = {}
    for cell in cells_of(selection):
        spec = cell.instance
        names = (spec.set_name, f"{spec.set_name}/{spec.name}", cell.solver.name)
        if not only or any(fnmatchcase(one, pattern) for one in names for pattern in only):
            row = run_cell(cell)
            known = rows.setdefault(f"{spec.set_name}/{spec.name}", [])
            click.echo(_line(row, known[0] if known else None))
            known.append(row)
    measured = [row for found in rows.values() for row in found]
    for line in (*_sums(measured), *behind(measured)):
        click.echo(line)


def _line(row: dict[str, Any], first: dict[str, Any] | None) -> str:
    """Return what one cell came to, and its seconds as a multiple of those of the instance's first solver."""
    head = f"{row['set']}/{row['instance']:<12} {row['solver']:<26}"
    objective, bound = row.get("objective"), row.get("bound")
    if row.get("seconds") is None:
        return f"{head} {row['termination']}: {row.get('told', '')}"
    found = "no plan" if objective is None else f"objective {objective:.6f}"
    proven = "no bound" if bound is None else f"bound {bound:.6f}"
    gap = "" if objective is None or bound is None else f", gap {relative_gap(objective, bound):.1e}"
    line = f"{head} {_times(row, first)}  {found}, {proven}{gap}; {row['termination']}"
    claimed = row.get("claimed")
    if objective is not None and claimed is not None and relative_gap(objective, claimed) > 1e-6:
        line += f"; it claimed {claimed:.6f}, {claimed / (objective or 1.0):.4f} times that"
    if first is None:
        parts = (f"{name} {1e3 * part:.2f}" for name, part in row["phases"].items() if part is not None)
        line += f"; {row['jobs']} jobs, {row['options']} options, ms: {', '.join(parts)}"
        line += "" if row.get("peak_mib") is None else f"; {row['peak_mib']:.0f} MiB"
    return line


def _times(row: dict[str, Any], first: dict[str, Any] | None) -> str:
    own = _cpu(row)
    told = f"{min(own):10.5f} CPU s of {len(own)}" if own else f"{row['seconds']:10.5f} s"
    over = None if first is None else ratio(row, first)
    if over is None:
        return told
    told = f"{told} {min(own) / max(min(_cpu(first or {})), 1e-9):9.1f}x"
    if len(own) == len(_cpu(first or {})):
        return told
    return f"{told} ({over.quotient:.1f}x = {over.own:.5f} / {over.base:.5f} by the first {over.calls})"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Processor seconds of a row beside those of the same calls of another.

    Attributes
    ----------
    own, base
        The least of the calls, of the row and of the other, in seconds.
    calls
        How many calls of each.
    """

    own: float
    base: float
    calls: int

    @property
    def quotient(self) -> float:
        """The one by the other."""
        return self.own / max(self.base, 1e-9)


def ratio(row: dict[str, Any], first: dict[str, Any]) -> Ratio | None:
    """Return a row's processor seconds beside those of the same calls of another row.

    ``None`` where nobody counted: a cell that was ended from outside.
    """
    own, base = _cpu(row), _cpu(first)
    calls = min(len(own), len(base))
    return Ratio(min(own[:calls]), min(base[:calls]), calls) if calls else None


def _cpu(row: dict[str, Any]) -> list[float]:
    return [one for one in row.get("cpu_samples") or [] if one is not None]


def _sums(rows: list[dict[str, Any]]) -> list[str]:
    """Return one line per set and solver: sum of objectives and seconds, gaps to the best known, proofs."""
    lines = []
    for set_name, solver in dict.fromkeys((row["set"], row["solver"]) for row in rows):
        own = [row for row in rows if (row["set"], row["solver"]) == (set_name, solver)]
        found = [row["objective"] for row in own if row.get("objective") is not None]
        gaps = [
            abs(row["objective"] - row["best_known"]) / max(abs(row["best_known"]), 1e-9)
            for row in own
            if row.get("objective") is not None and row.get("best_known") is not None
        ]
        text = f"{set_name}, {solver}: {len(found)} of {len(own)} answered, sum {math.fsum(found):.6g}"
        text += f", {sum(row['termination'] == 'optimal' for row in own)} proven"
        text += f", {math.fsum(row.get('seconds') or 0.0 for row in own):.2f} s"
        if gaps:
            text += (
                f", from the best known {100 * max(gaps):.3f} % at most, in sum {100 * math.fsum(gaps):.3f} %"
            )
        lines.append(text)
    return lines
