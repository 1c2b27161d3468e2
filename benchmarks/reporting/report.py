"""The whole report: what was run, on what, and every section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.reporting.blocks import Section, Table
from benchmarks.reporting.courses import cells_section, gaps_section, growth_section
from benchmarks.reporting.evidence import evidence_section
from benchmarks.reporting.records import groups_of
from benchmarks.reporting.standing import (
    failures_section,
    means_section,
    profiles_section,
    standing_section,
)
from benchmarks.suite.sets import FAMILIES
from benchmarks.suite.solvers import OURS, SOLVERS

__all__ = ["TITLE", "report"]

TITLE = "apportion: benchmarks"


def report(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[Section]]:
    """Return the lead lines and the sections of a file of rows."""
    groups = groups_of(rows)
    present = {name for group in groups for name in group.records}
    solvers = [name for name in SOLVERS if name in present]
    solvers += sorted(present - set(solvers))
    # ours first, then the peers: the first colours go to what charts draw
    drawn_first = sorted(SOLVERS, key=lambda name: (name != OURS, SOLVERS[name].ours))
    styles = {name: k for k, name in enumerate([*drawn_first, *sorted(present - set(SOLVERS))])}
    sections = [
        standing_section(groups, solvers),
        failures_section(groups),
        evidence_section(groups),
        means_section(groups, solvers),
        profiles_section(groups, solvers, styles),
        gaps_section(groups, solvers, styles),
        growth_section(groups, solvers, styles),
        _method(rows),
        cells_section(groups),
    ]
    return _lead(rows), sections


def _lead(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [row for row in rows if row.get("kind") == "cell"]
    runs = [row for row in rows if row.get("kind") == "run"]
    machines = dict.fromkeys(_machine(row["machine"]) for row in cells if row.get("machine"))
    versions: dict[str, str] = {}
    for row in (*runs, *cells):
        versions.update({name: v for name, v in (row.get("versions") or {}).items() if v is not None})
    limits = sorted({row["limit_s"] for row in cells})
    days = sorted({str(row["at"])[:10] for row in cells if row.get("at")})
    commits = dict.fromkeys(str(row["commit"]) for row in runs if row.get("commit"))
    seeds = sorted({row["seed"] for row in cells if row.get("seed") is not None})
    instances = {(row["set"], row["instance"]) for row in cells}
    at_once = sorted({row["workers"] for row in runs if row.get("workers")})
    missing = _missing(runs)
    beside = f", {', '.join(map(str, at_once))} cells at a time" if at_once else ""
    lead = [
        f"{len(cells)} cells: {len(instances)} instances, {len({row['solver'] for row in cells})} solvers, "
        f"limits {', '.join(f'{limit:g} s' for limit in limits)} on one call, "
        f"{', '.join(sorted({str(row.get('threads', 1)) for row in cells}))} thread(s), solver seed "
        f"{', '.join(map(str, seeds))}; generator seeds stand in the instances' names after the s.",
        f"Measured {' to '.join(dict.fromkeys((days[0], days[-1]))) if days else 'on no day'} on "
        f"{'; '.join(machines) or 'no machine'}{beside}"
        + (f", commit {', '.join(commits)}" if commits else "")
        + f". {_load(cells)}Times are noise on shared machines: read the ratios.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) + ".",
    ]
    typed = dict.fromkeys(str(row["arguments"]) for row in runs if row.get("arguments"))
    if typed:
        commands = " and ".join(f"`python -m benchmarks run {arguments}`" for arguments in typed)
        lead.append(f"Run with {commands}; this page: `python -m benchmarks report`.")
    if missing:
        lead.append(f"Not run for want of their files: {', '.join(missing)}.")
    return lead


def _load(cells: Sequence[Mapping[str, Any]]) -> str:
    """Say what else the machine did."""
    loads = sorted(row["load"] for row in cells if row.get("load") is not None)
    if not loads:
        return ""
    return f"Load average beside it: median {loads[len(loads) // 2]:g}, at most {loads[-1]:g}. "


def _missing(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the published sets that no run had the files of."""
    without = [set(row.get("missing_data") or ()) for row in runs]
    return sorted(set.intersection(*without)) if without else []


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}"


def _method(rows: Sequence[Mapping[str, Any]]) -> Section:
    families = dict.fromkeys(str(row["family"]) for row in rows if row.get("kind") == "cell")
    table = Table(
        "Families",
        ("family", "what"),
        [(family, FAMILIES.get(family, "")) for family in families],
        text_columns=frozenset({1}),
    )
    lead = (
        "Every cell is a process of its own, warmed up on a tiny instance of the family, with a hard limit; "
        "a crash is a row. Each solver is told the same limit for the whole call, the same gap and threads. "
        "Peers get our formulations' arrays (node counts instead of nodes, one depth per place) and write "
        "the model through their own interface; only bftrainer-literal writes the published model over "
        "nodes. Calls below half a second are repeated up to five times and the least is taken. Objectives "
        "are recomputed by our checker from the plan; nobody's own figure is used. Our own time includes "
        "the check and the certificate; a peer's includes building its model and the check of its plan."
    )
    return Section("method", "How this was measured", lead, (table,))
