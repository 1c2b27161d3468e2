"""What every tenant has in a plan, as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.cli.tables import plain, table

__all__ = ["tenant_lines"]

_ROWS = 30


def tenant_lines(instance: Any, answer: Mapping[str, Any]) -> Iterable[str]:
    """Return weight, share, and use over guarantee of every tenant without children, and where it stopped."""
    from apportion.instances.kinds import kind_of
    from apportion.instances.tenants.ledger import under_floors
    from apportion.instances.tenants.meaning import ledger_of, positions, shared_capacities

    kind = kind_of(instance)
    ledger = ledger_of(kind, under_floors(instance, answer["floors"]))
    places = positions(kind, instance, answer["plan"], ledger)
    capacities = shared_capacities(kind, instance)
    shown = list(capacities)[:4]
    levels = {level["name"]: level for level in answer.get("levels", ())}
    rows = [("tenant", "weight", "share", "level", *(f"{plain(name)} (guaranteed)" for name in shown))]
    for leaf in ledger.tree.leaves[:_ROWS]:
        held = [(job, place) for job in ledger.members(leaf) if (place := places.get(job)) is not None]
        share = sum(ledger.shares[job][place] for job, place in held) / ledger.unit
        level = levels.get(leaf)
        at = "" if level is None else f"{level['share']:.4g}" + ("" if level["evidence"] else " unproved")
        uses = [
            f"{sum(ledger.offers[job][place].uses.get(name, 0) for job, place in held)} "
            f"({ledger.tree.guarantees(name)[leaf]})"
            for name in shown
        ]
        weight = ledger.tree.nodes[leaf].tenant.weight
        rows.append((leaf, f"{weight:g}", f"{share:.4g}", at, *uses))
    if len(rows) > 1:
        yield from table(rows, "<>>>" + ">" * len(shown))
    if len(ledger.tree.leaves) > _ROWS:
        yield f"... and {len(ledger.tree.leaves) - _ROWS} tenants"
