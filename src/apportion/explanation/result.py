"""An explanation: its parts together, as plain JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from apportion.explanation import wording
from apportion.explanation.parts import CapacityWorth, Conflict, JobWorth, Relaxation, TenantWorth, Waiting
from apportion.explanation.subject import Subject
from apportion.explanation.words import amount, plain, words_of
from apportion.shown import Shown
from apportion.solution import Solution

__all__ = ["Explanation", "explanation_of"]


@dataclass(frozen=True, slots=True)
class Explanation(Shown):
    """Why nothing is feasible, or why the plan is as it is.

    Attributes
    ----------
    kind, name, sense
        Kind and name of the instance, and whether it is maximised or minimised.
    termination
        Why the solve ended.
    feasible
        ``True`` with a plan, ``False`` if it is shown that there is none, ``None`` if neither is known.
    objective, bound, verified_bound
        Objective of the plan, the bound that the backend states, and the bound that was recomputed.
    conflicts
        If nothing is feasible: jobs and capacities in conflict, the smallest conflict first.
    relaxations
        If nothing is feasible: the cheapest changes that make the instance feasible.
    capacities, jobs
        If there is a plan: what every capacity and every job is worth.
    tenants, waiting
        If jobs belong to tenants: what every tenant has and on whose account, and why jobs wait.
    notes
        What could not be shown, and why.
    solution
        The solution that is explained.
    measure
        What the objective is called.
    """

    kind: str
    name: str
    sense: str
    termination: str
    feasible: bool | None
    objective: float | None
    bound: float | None
    verified_bound: float | None
    conflicts: tuple[Conflict, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    capacities: tuple[CapacityWorth, ...] = ()
    jobs: tuple[JobWorth, ...] = ()
    notes: tuple[str, ...] = ()
    solution: Solution | None = field(default=None, repr=False, compare=False)
    measure: str = "objective"
    tenants: tuple[TenantWorth, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the solution as plain dicts, lists, numbers and strings."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "solution"}
        for name in ("conflicts", "relaxations", "capacities", "jobs", "tenants", "waiting"):
            plain[name] = [_plain(part) for part in plain[name]]
        plain["notes"] = list(self.notes)
        return plain

    def table(self) -> dict[str, list[Any]]:
        """Return what every job has and what it is worth, as columns; empty without a plan."""
        return {
            "job": [job.job for job in self.jobs],
            "option": [job.chosen.option for job in self.jobs],
            "value": [job.chosen.value for job in self.jobs],
            "pays": [job.chosen.pays for job in self.jobs],
            "net": [job.chosen.net for job in self.jobs],
            "runner_up": [None if job.runner_up is None else job.runner_up.worth.option for job in self.jobs],
        }

    def __repr__(self) -> str:
        return f"<Explanation: {next(self._lines())}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        words = words_of(self.kind, self.sense, self.measure)
        title = f"{self.kind} {plain(self.name)}".rstrip()
        if self.feasible:
            assert self.objective is not None
            yield f"{title}: {self.termination}, {self.measure} {amount(self.objective)}{words.value}"
        elif self.feasible is False:
            yield f"{title}: no plan is feasible"
        else:
            yield f"{title}: {self.termination}, no plan"
        for conflict in self.conflicts:
            yield ""
            yield from wording.conflict_lines(conflict)
        if self.relaxations:
            yield ""
            yield "the cheapest ways out:"
            yield from (f"  {wording.relaxation_line(relaxation)}" for relaxation in self.relaxations)
        for tenant in self.tenants:
            yield ""
            yield from wording.tenant_lines(tenant)
        for waiting in self.waiting:
            yield ""
            yield from wording.waiting_lines(waiting)
        for capacity in self.capacities:
            yield ""
            yield from wording.capacity_lines(capacity, words)
        single = self.capacities[0] if len(self.capacities) == 1 else None
        for job in self.jobs:
            yield ""
            yield from wording.job_lines(job, single, words)
        if self.notes:
            yield ""
            yield from (f"note: {plain(note)}" for note in self.notes)


def explanation_of(
    subject: Subject, solution: Solution, feasible: bool | None, notes: Sequence[str], **parts: Any
) -> Explanation:
    """Return the explanation of a solution; `parts` are the conflicts, relaxations, capacities and jobs."""
    certificate = solution.certificate
    return Explanation(
        kind=subject.kind.name,
        name=subject.name,
        sense=subject.sense,
        termination=solution.termination.value,
        feasible=feasible,
        objective=certificate.objective,
        bound=certificate.bound,
        verified_bound=certificate.verified_bound,
        notes=tuple(notes),
        solution=solution,
        measure=subject.measure,
        **parts,
    )


def _plain(part: Any) -> dict[str, Any]:
    plain_part: dict[str, Any] = _lists(asdict(part))
    return plain_part


def _lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lists(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_lists(inner) for inner in value]
    return value
