"""What a check says about a plan or a point: feasible or not, its objective, and every violation by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from apportion.shown import Shown

__all__ = ["Report", "Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Attributes
    ----------
    rule
        The rule's name, for instance ``capacity`` or ``no_migration``.
    subject
        The job, node, capacity or row it concerns, in the instance's own names.
    message
        The rule in words with the numbers that break it.
    """

    rule: str
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}[{self.subject}]: {self.message}"


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """The verdict of a checker that shares no code with any formulation or solver.

    Attributes
    ----------
    objective
        The objective recomputed from the plan, in the instance's own sense; ``None`` if the plan is
        so malformed that it has none.
    violations
        Every broken rule found; empty if the plan is feasible.
    """

    objective: float | None
    violations: tuple[Violation, ...] = field(default=())

    def __repr__(self) -> str:
        objective = "no objective" if self.objective is None else f"objective {self.objective:.10g}"
        if self.feasible:
            return f"<Report: feasible, {objective}>"
        return f"<Report: {len(self.violations)} violations, {objective}; first {self.violations[0]}>"

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, objective and violations as plain dicts, lists, numbers and strings."""
        return {
            "feasible": self.feasible,
            "objective": self.objective,
            "violations": list(map(str, self.violations)),
        }

    def table(self) -> dict[str, list[Any]]:
        """Return the violations as columns; none of them has a row where the plan is feasible."""
        rows = [asdict(violation) for violation in self.violations]
        return {name: [row[name] for row in rows] for name in ("rule", "subject", "message")}

    @property
    def feasible(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations
