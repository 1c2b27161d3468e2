"""The section on evidence: what share of our claims can be checked, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.reporting.blocks import Section, Table
from benchmarks.reporting.records import Group
from benchmarks.suite.solvers import OURS

__all__ = ["evidence_section"]

_KINDS = ("by multipliers", "by proof", "by search")
_CHECKED = ("by_multipliers", "by_proof")


def evidence_section(groups: Sequence[Group]) -> Section:
    """Return, per family, the share of our claims "optimal" and "infeasible" that anybody can check."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for group in groups:
        record = group.records.get(OURS)
        if record is not None and record.row.get("evidence") is not None:
            rows.setdefault(group.family, []).append(record.row)
    table = Table(
        "",
        ("family", "claims", "checked", *_KINDS, "check / solve", "largest proof"),
        [_family(family, claims) for family, claims in rows.items()],
        "Checked: by the multipliers in closed form, or by a proof that the checker accepted within 10 s. "
        "Check / solve: median of the CPU seconds the checker needs over the seconds of the solve."
        if rows
        else "The rows of this file say nothing of evidence.",
    )
    return Section("evidence", "What of our claims anybody can check", "", (table,))


def _family(family: str, claims: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    def count(*kinds: str) -> int:
        return sum(row["evidence"] in kinds for row in claims)

    proofs = [(row["proof"], row["seconds"]) for row in claims if row.get("proof")]
    ratios = [proof["check_s"] / seconds for proof, seconds in proofs if seconds]
    return (
        family,
        str(len(claims)),
        f"{100 * count(*_CHECKED) / len(claims):.0f} %",
        str(count("by_multipliers")),
        str(count("by_proof")),
        str(count("by_search")),
        f"{median(ratios):.2g}" if ratios else "",
        f"{max(proof['bytes'] for proof, _ in proofs)} B" if proofs else "",
    )
