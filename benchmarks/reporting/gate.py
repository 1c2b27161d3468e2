"""What fails a run: quality alone. Wall time never does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.reporting.records import Group, Record, groups_of
from benchmarks.suite.sets import FAMILIES
from benchmarks.suite.solvers import OURS, SOLVERS

__all__ = ["LARGEST_GAP", "failures", "remarks"]

LARGEST_GAP: Mapping[str, float] = {
    "gap_filling": 1e-6,
    "mckp": 1e-3,
    "mmkp": 2e-2,
    "sia": 1e-4,
    "knapsack": 1e-2,
    "freezing": 1e-6,
    "linear_assignment": 1e-9,
    "generalised_assignment": 1e-2,
    "unrelated_machines": 3e-2,
    "gavel": 1e-6,
    "gangs": 1e-1,
}
"""Largest distance of our solver's objective from the best known value, by family, at the declared limits."""
_SLACK = 1e-6


def failures(rows: Sequence[Mapping[str, Any]], complete: bool = False) -> list[str]:
    """Return everything that must not be, in words; empty if the run passes.

    - a cell of ours that crashed, was killed or failed, or is unavailable though it is not an extra;
    - a plan of ours that fails the check;
    - a bound of ours, claimed or verified, that a checked plan beats;
    - an answer of ours that claims to be optimal (or within the gap) and is not;
    - our solver's gap to the best known value above `LARGEST_GAP`;
    - with `complete`, a family or a solver of the registry without any row.
    """
    groups = groups_of(rows)
    broken: list[str] = []
    for group in groups:
        for record in group.records.values():
            if record.row.get("ours"):
                broken += [f"{record.row['key']}: {words}" for words in _wrong(record, group)]
    if complete:
        seen = {group.family for group in groups}
        broken += [f"family {family} has no row" for family in FAMILIES if family not in seen]
        ran = {name for group in groups for name in group.records}
        broken += [f"solver {solver} has no row" for solver in SOLVERS if solver not in ran]
    return broken


def remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the same of the peers: it is told, and fails nothing."""
    broken = []
    for group in groups_of(rows):
        for record in group.records.values():
            if not record.row.get("ours") and record.ran:
                broken += [f"{record.row['key']}: {words}" for words in _wrong(record, group)]
    return broken


def _wrong(record: Record, group: Group) -> list[str]:
    row = record.row
    termination = row["termination"]
    if record.failed or termination == "unavailable":
        return [f"{termination}: {row.get('told', '')}"]
    broken = []
    check = row.get("check")
    if check is not None and not check["feasible"]:
        broken.append(f"its plan fails the check: {'; '.join(check['violations'])}")
    if group.reference is not None and group.maximizes is not None:
        for name in ("bound", "verified_bound"):
            bound = row.get(name)
            if bound is not None and _beaten(bound, group):
                broken.append(
                    f"its {name.replace('_', ' ')} {bound!r} is beaten by a plan of {group.reference!r}"
                )
        claimed_gap = float(row.get("gap_asked") or 0.0)
        if record.proven and record.gap is not None and record.gap > claimed_gap + _SLACK:
            broken.append(f"claims {termination} at {row['objective']!r}; {group.reference!r} exists")
        limit = LARGEST_GAP.get(group.family)
        if row["solver"] == OURS and limit is not None and record.gap is not None and record.gap > limit:
            broken.append(f"gap {record.gap:.2e} to the best known value, above {limit:g}")
    if row["solver"] == OURS and record.ran and record.gap is None and termination != "infeasible":
        broken.append(f"no plan: {termination}")
    return broken


def _beaten(bound: float, group: Group) -> bool:
    """Whether the reference is on the wrong side of a bound, beyond rounding."""
    assert group.reference is not None
    slack = _SLACK * max(abs(bound), abs(group.reference), 1e-9)
    ahead = group.reference - bound if group.maximizes else bound - group.reference
    return ahead > slack
