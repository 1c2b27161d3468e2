"""What a result says of fairness beside what is due: floors, levels, the bound over equally fair plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from apportion.claims.deciding import CLAIMS, Line, Shares, Verdict
from apportion.claims.due_shares import DueShares, due_shares, holders_by_group, levels_of
from apportion.gap import meets
from apportion.instances.kinds import Kind
from apportion.instances.tenants.ledger import Ledger, shares_are_due
from apportion.instances.tenants.meaning import ledger_of
from apportion.outcome import Termination

__all__ = ["shares_of"]

_FIELDS = ("floors", "levels", "fair_bound")
_NEAR = Fraction(1, 10**9)


def shares_of(
    kind: Kind, instance: Any, record: Mapping[str, Any], bound: Fraction | None
) -> tuple[Shares, list[Line]]:
    """Return how the shares of a result stand beside those that are due, and a line for each of its fields.

    Parameters
    ----------
    kind, instance
        What was solved, without the floors of the result.
    record
        The result.
    bound
        The tightest bound on the plans that keep the stated floors, as far as one is derived.
    """
    stated = [name for name in _FIELDS if record.get(name) is not None]
    if not shares_are_due(instance):
        lines = [Line(name, Verdict.REFUSED, "the instance has no shares to be due") for name in stated]
        return (Shares.WRONG if lines else Shares.NOT_DUE), lines
    if record.get("floors") is None:
        wrong = record["termination"] in CLAIMS or bool(stated)
        told = "shares are due, and the result does not say which its plan keeps"
        return (
            Shares.WRONG if wrong else Shares.NOT_DERIVED,
            [Line("floors", Verdict.REFUSED if wrong else Verdict.WORD, told)],
        )
    ledger = ledger_of(kind, instance)
    if not record["floors"] and not record.get("levels") and record["plan"] is None:
        return _no_shares(record)
    due = due_shares(kind, instance, record["floors"] if record["plan"] is not None else {})
    floors = _floors(ledger, record, due)
    lines = [floors, _levels(ledger, record, due, floors.verdict)]
    if record.get("fair_bound") is not None:
        sure = due if floors.verdict is Verdict.DERIVED else None
        lines.append(_fair_bound(kind, instance, record, sure, bound))
    refused = any(line.verdict is Verdict.REFUSED for line in lines[:2])
    underived = any(line.verdict is Verdict.WORD for line in lines[:2])
    standing = Shares.WRONG if refused else Shares.NOT_DERIVED if underived else Shares.AS_DUE
    return standing, lines


def _no_shares(record: Mapping[str, Any]) -> tuple[Shares, list[Line]]:
    """Return how it stands where no plan was found before any share was looked at."""
    if record["termination"] == Termination.INFEASIBLE:
        return Shares.NOT_DUE, [Line("floors", Verdict.NOTHING, "without a plan nobody has a share")]
    return Shares.NOT_DERIVED, [Line("floors", Verdict.NOTHING, "no plan was found, and no share looked at")]


def _floors(ledger: Ledger, record: Mapping[str, Any], due: DueShares | None) -> Line:
    floors: Mapping[str, int] = record["floors"]
    groups = holders_by_group(ledger)
    known = {holder.name for group in groups for holder in group}
    if due is None:
        return Line("floors", Verdict.WORD, f"{len(floors)} shares are kept; what is due is not derived")
    strange = sorted(set(floors) - known - set(due.guaranteed))
    if strange:
        return Line("floors", Verdict.REFUSED, f"nothing is due to {', '.join(strange[:3])}")
    lost = [name for name, share in due.guaranteed.items() if floors.get(name, 0) < share]
    if lost:
        alone = due.guaranteed[lost[0]]
        told = f"{lost[0]} has {alone} alone on its guarantee, {floors.get(lost[0], 0)} is kept"
        return Line("floors", Verdict.REFUSED if due.kept else Verdict.WORD, told)
    more = [name for name in floors if name not in known and floors[name] > due.guaranteed[name]]
    if more:
        return Line("floors", Verdict.REFUSED, f"{more[0]} is due {due.guaranteed[more[0]]}, not more")
    if not groups:
        return Line("floors", Verdict.DERIVED, f"{len(floors)} shares are due, and kept by the plan")
    if due.levels is None:
        return Line("floors", Verdict.WORD, f"{len(floors)} shares are kept; the levels are not derived")
    if ledger.fairness.keep != 1.0:
        return Line("floors", Verdict.WORD, f"{len(floors)} shares are kept, a part of every level")
    have = levels_of(ledger, floors)
    if have == due.levels:
        return Line("floors", Verdict.DERIVED, f"{len(floors)} shares are due, and kept by the plan")
    if any(level["evidence"] is None for level in record.get("levels", ())) and have < due.levels:
        return Line(
            "floors", Verdict.WORD, "shares are kept, and levels that a limit left open could be greater"
        )
    return Line("floors", Verdict.REFUSED, "the sorted shares are not the greatest that can be had")


def _levels(ledger: Ledger, record: Mapping[str, Any], due: DueShares | None, floors: Verdict) -> Line:
    levels: Sequence[Mapping[str, Any]] = record.get("levels", ())
    holders = {holder.name: holder for group in holders_by_group(ledger) for holder in group}
    if sorted(level["name"] for level in levels) != sorted(holders):
        return Line("levels", Verdict.REFUSED, "are not those of everybody whose shares are made equal")
    if not levels:
        return Line("levels", Verdict.NOTHING, "there is no rule by which shares are made equal")
    for level in levels:
        name, share, bound = level["name"], level["share"], level["bound"]
        if level["weight"] != float(holders[name].weight):
            return Line("levels", Verdict.REFUSED, f"{name} has the weight {float(holders[name].weight)!r}")
        if bound < share or (level["evidence"] is not None and bound != share):
            return Line("levels", Verdict.REFUSED, f"the bound of {name} does not fit its share")
        if ledger.fairness.keep == 1.0 and share != record["floors"].get(name, 0) / ledger.unit:
            return Line("levels", Verdict.REFUSED, f"the level of {name} is not the share that is kept")
    if floors is Verdict.DERIVED and due is not None and ledger.fairness.keep == 1.0:
        return Line("levels", Verdict.DERIVED, "the sorted shares are the greatest of all choices")
    unproved = sum(level["evidence"] is None for level in levels)
    told = f"{len(levels)} levels are our own search's word"
    return Line("levels", Verdict.WORD, f"{told}, and {unproved} not proved" if unproved else told)


def _fair_bound(
    kind: Kind, instance: Any, record: Mapping[str, Any], due: DueShares | None, bound: Fraction | None
) -> Line:
    """Hold the bound over equally fair plans against the objective, which it may not refute."""
    stated, objective = record["fair_bound"], record["objective"]
    sign = 1 if kind.maximizes(instance) else -1
    if objective is not None and sign * (objective - stated) > 0 and not meets(objective, stated):
        return Line("fair_bound", Verdict.REFUSED, "the plan, which is as fair, is beyond it")
    told = f"no plan as fair is said to be beyond {stated:.12g}"
    shown = bound if due is not None and due.levels == () else None if due is None else due.best
    if shown is not None and sign * (Fraction(stated) - shown) >= -_NEAR * abs(shown):
        return Line("fair_bound", Verdict.DERIVED, f"no plan as fair is beyond {stated:.12g}")
    if shown is not None and due is not None and due.levels:
        short = sign * (shown - Fraction(stated)) - due.rounding
        if short <= _NEAR * abs(shown):
            return Line("fair_bound", Verdict.WORD, told)
        return Line("fair_bound", Verdict.REFUSED, "a plan as fair is beyond it")
    return Line("fair_bound", Verdict.WORD, told)
