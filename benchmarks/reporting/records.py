"""Rows put side by side: what each cell achieved against the best value known for its instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FAILED", "NOT_RUN", "Group", "Record", "groups_of", "relative"]

NOT_RUN = ("unavailable", "cannot_take", "no_data", "lost")
"""Terminations of cells in which nothing was solved, through no fault of the instance."""
FAILED = ("crash", "killed", "error", "memory_limit", "numerical_error")
"""Terminations that are failures of the solver where it has no plan either."""
_PROVEN = ("optimal", "gap_reached")


@dataclass(frozen=True, slots=True)
class Record:
    """One cell in the light of its group.

    Attributes
    ----------
    row
        The row as written.
    gap
        Relative distance of its checked objective from the reference, 0 for the best; ``None`` without a
        plan that passed the check.
    proven
        Whether it claims its answer optimal or within the gap asked for.
    tolerance
        What counts as the same quality: the gap asked for, at least 1e-6.
    """

    row: Mapping[str, Any]
    gap: float | None
    proven: bool
    tolerance: float

    @property
    def solver(self) -> str:
        """The solver's name."""
        return str(self.row["solver"])

    @property
    def seconds(self) -> float | None:
        """Least seconds of the whole call, ``None`` if it never ended by itself."""
        measured = self.row.get("seconds")
        return None if measured is None else float(measured)

    @property
    def ran(self) -> bool:
        """Whether anything was solved at all."""
        return self.row["termination"] not in NOT_RUN

    @property
    def failed(self) -> bool:
        """Whether it failed and has no plan to show; an engine may stop at its own memory limit with one."""
        return self.row["termination"] in FAILED and self.gap is None

    @property
    def good(self) -> bool:
        """Whether its plan passed the check and is as good as the reference."""
        return self.gap is not None and self.gap <= self.tolerance

    @property
    def label(self) -> str:
        """Set and instance."""
        return f"{self.row['set']}/{self.row['instance']}"


@dataclass(frozen=True, slots=True)
class Group:
    """All solvers on one instance under one limit.

    Attributes
    ----------
    family, set_name, instance, size, size_of, limit_s
        As in the rows.
    reference
        The best of the best known value and all checked objectives; ``None`` without any.
    maximizes
        The sense; ``None`` if no solver got so far as to say it.
    records
        One per solver, by name.
    """

    family: str
    set_name: str
    instance: str
    size: int | None
    size_of: str
    limit_s: float
    reference: float | None
    maximizes: bool | None
    records: Mapping[str, Record]


def relative(objective: float, reference: float, maximizes: bool) -> float:
    """Return how much worse an objective is than a reference, relative to the reference, at least 0."""
    behind = reference - objective if maximizes else objective - reference
    return max(behind, 0.0) / max(abs(reference), 1e-9)


def groups_of(rows: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Return the groups of all cells of a file, in the order of their first rows."""
    by_key: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("kind") == "cell":
            key = tuple(
                row.get(name) for name in ("set", "instance", "limit_s", "gap_asked", "threads", "seed")
            )
            by_key.setdefault(key, []).append(row)
    return [_group(members) for members in by_key.values()]


def _group(members: Sequence[Mapping[str, Any]]) -> Group:
    first = members[0]
    maximizes = next((row["maximizes"] for row in members if row.get("maximizes") is not None), None)
    known = [row["objective"] for row in members if row.get("objective") is not None]
    known += [row["best_known"] for row in members if row.get("best_known") is not None]
    reference = None if not known or maximizes is None else (max(known) if maximizes else min(known))
    records = {}
    for row in members:
        objective = row.get("objective")
        gap = None
        if objective is not None and reference is not None and maximizes is not None:
            gap = relative(objective, reference, maximizes)
        tolerance = max(float(row.get("gap_asked") or 0.0), 1e-6)
        proven = row["termination"] in _PROVEN and gap is not None
        records[str(row["solver"])] = Record(row, gap, proven, tolerance)
    return Group(
        family=str(first["family"]),
        set_name=str(first["set"]),
        instance=str(first["instance"]),
        size=first.get("size"),
        size_of=str(first.get("size_of") or ""),
        limit_s=float(first["limit_s"]),
        reference=reference,
        maximizes=maximizes,
        records=records,
    )
