"""What a check says about a plan or a point: feasible or not, its objective, and every violation by name."""

from __future__ import annotations

from dataclasses import dataclass, field

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
class Report:
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

    @property
    def feasible(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations
