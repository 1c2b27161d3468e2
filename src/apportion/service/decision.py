"""What a session answers: a checked plan, how good it is, and what it changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from apportion.core.display import Displayable
from apportion.core.outcome import Termination, figure
from apportion.core.solution import Evidence, PlanT, Solution

if TYPE_CHECKING:
    from apportion.explanation.result import Explanation

__all__ = ["Change", "Decision", "changes_between", "digest_of"]


@dataclass(frozen=True, slots=True)
class Change:
    """What one job gets now and got before, as its plan says it.

    Attributes
    ----------
    job
        The job's id.
    before, after
        Its part of the plan: a list of nodes, an option, a configuration; ``None`` for nothing.
    """

    job: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, eq=False)
class Decision(Displayable, Generic[PlanT]):
    """One answer of a session.

    Attributes
    ----------
    number
        Decisions of the session so far, this one included.
    policy
        The name of the policy that decided; ``None`` for the optimum.
    solution
        Plan, bounds and certificate; its plan passed the checker.
    changes
        Every job whose part of the plan is another than in the session's last plan, in the order of the
        instance; jobs that are gone come last.
    edits
        The deltas since the last decision, in words.
    seconds
        Wall-clock seconds of the whole decision.
    """

    number: int
    policy: str | None
    solution: Solution[PlanT]
    changes: tuple[Change, ...]
    edits: tuple[str, ...]
    seconds: float

    def __repr__(self) -> str:
        by = "" if self.policy is None else f" by {self.policy}"
        return (
            f"<Decision {self.number}{by}: {self.status}, objective {figure(self.objective)}, "
            f"bound {figure(self.bound)}, {len(self.changes)} changes>"
        )

    @property
    def plan(self) -> PlanT | None:
        """The plan, ``None`` without one; `Decision.require` raises instead."""
        return self.solution.plan

    @property
    def objective(self) -> float | None:
        """The plan's recomputed objective."""
        return self.solution.objective

    @property
    def bound(self) -> float | None:
        """The best bound on the optimum."""
        return self.solution.bound

    @property
    def gap(self) -> float | None:
        """The relative gap between the two."""
        return self.solution.gap

    @property
    def status(self) -> Termination:
        """Why the decision ended where it did."""
        return self.solution.termination

    @property
    def evidence(self) -> Evidence | None:
        """How far the status can be checked."""
        return self.solution.evidence

    @property
    def instance(self) -> Any:
        """The instance that was decided."""
        return self.solution.instance

    @property
    def digest(self) -> str:
        """SHA-256 of the instance that was decided, as hex; see `Session.digest`."""
        return digest_of(self.instance)

    def require(self) -> PlanT:
        """Return the plan.

        Raises
        ------
        NoPlan
            If there is none; the message says why.
        """
        return self.solution.require()

    def explain(self, job: str | None = None, option: str | None = None) -> Explanation:
        """Return why the plan is as it is, or why there is none; see `apportion.explain`."""
        from apportion.explanation.explain import explain

        return explain(self.instance, self.solution, job, option)

    def table(self) -> dict[str, list[Any]]:
        """Return the plan as columns; see `apportion.Solution.table`."""
        return self.solution.table()

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw instance and plan into a file; see `apportion.Solution.plot`."""
        self.solution.plot(path)

    def _facts(self) -> Mapping[str, str]:
        return {
            "decision": repr(self).strip("<>"),
            "edits": "; ".join(self.edits),
            "changes": ", ".join(change.job for change in self.changes),
        }

    def _head(self, most: int) -> Mapping[str, list[Any]]:
        return {} if self.plan is None else self.table()

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as JSON has it: the stored solution, with number, policy, changes and edits."""
        from apportion.io.stored import document

        return {
            "number": self.number,
            "policy": self.policy,
            "digest": self.digest,
            "edits": list(self.edits),
            "changes": [
                {"job": change.job, "before": change.before, "after": change.after} for change in self.changes
            ],
            "seconds": self.seconds,
            "solution": document(self.solution),
        }


def digest_of(instance: Any) -> str:
    """Return the SHA-256, as hex, of an instance as canonical JSON."""
    return hashlib.sha256(msgspec.json.encode(instance, order="deterministic")).hexdigest()


def changes_between(before: Any, after: Any) -> tuple[Change, ...]:
    """Return what differs between two plans, by job; an absent plan gives nothing to anybody."""
    old, new = _parts(before), _parts(after)
    given = [Change(job, old.get(job), part) for job, part in new.items() if old.get(job) != part]
    gone = [Change(job, part, None) for job, part in old.items() if job not in new and part is not None]
    return (*given, *gone)


def _parts(plan: Any) -> Mapping[str, Any]:
    """Return the part of every job of a plan: of the first object in it, or of all that it has."""
    if not isinstance(plan, Mapping) or not plan:
        return {}
    columns = [column for column in plan.values() if isinstance(column, Mapping)]
    if len(columns) == 1 and all(columns[0].values()):
        return columns[0]
    if len(columns) == 1:
        return {job: part or None for job, part in columns[0].items()}
    jobs = dict.fromkeys(job for column in columns for job in column)
    return {job: {name: column[job] for name, column in plan.items() if job in column} for job in jobs}
