"""What is proved of every published instance: value, claim, size of the proof and what checking it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.reporting.blocks import Section, Table
from benchmarks.reporting.records import Group, Record, groups_of
from benchmarks.suite.solvers import OURS

__all__ = ["record_sections"]

_HEADS = ("instance", "value", "best known", "claim", "CPU s", "proof, bytes", "found in s", "checked in s")
_CLAIMS = {"by_multipliers": "by multipliers", "by_proof": "by a proof", "by_search": "by a search alone"}


def record_sections(rows: Iterable[Mapping[str, Any]]) -> list[Section]:
    """Return a section a set: an instance a row, and how many are proved and can be checked.

    Parameters
    ----------
    rows
        Of a run of `apportion` on published instances.
    """
    by_set: dict[str, list[tuple[Group, Record]]] = {}
    for group in groups_of(rows):
        if OURS in group.records:
            by_set.setdefault(group.set_name, []).append((group, group.records[OURS]))
    return [_section(name, own) for name, own in by_set.items()]


def _section(name: str, own: Sequence[tuple[Group, Record]]) -> Section:
    checked = sum(one.proven and one.row.get("evidence") in ("by_multipliers", "by_proof") for _, one in own)
    lead = (
        f"{len(own)} instances: {sum(one.proven for _, one in own)} claimed optimal, {checked} of these by "
        "what anybody can check without a solver."
    )
    lines = [_line(group, one) for group, one in own]
    return Section(name, name, lead, (Table("", _HEADS, lines, text_columns=frozenset({3})),))


def _line(group: Group, one: Record) -> tuple[str, ...]:
    row, proof = one.row, one.row.get("proof") or {}
    spent = row.get("cpu_samples") or [None]
    return (
        group.instance,
        _figure(row.get("objective")),
        _figure(row.get("best_known")),
        _claim(one),
        _seconds(spent[0]),
        f"{proof['bytes']:,}" if proof else "",
        _seconds(proof.get("found_s")),
        _seconds(proof.get("check_s")),
    )


def _claim(one: Record) -> str:
    if one.proven:
        return f"optimal, {_CLAIMS.get(str(one.row.get('evidence')), 'with no evidence')}"
    bound, objective = one.row.get("bound"), one.row.get("objective")
    if objective is None or bound is None:
        return f"open: {one.row['termination']}"
    return f"open: bound {_figure(bound)}, {100 * abs(bound - objective) / max(abs(objective), 1e-9):.3f} %"


def _figure(value: Any) -> str:
    return "" if value is None else f"{value:.10g}"


def _seconds(value: Any) -> str:
    return "" if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"
