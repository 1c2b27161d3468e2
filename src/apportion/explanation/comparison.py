"""Two solutions side by side: what changes in the objective, for every job, and in the prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

import numpy as np

from apportion.core.display import Displayable
from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.explanation.parts import Difference, JobChange, Words, amount, spelt_out, words_of
from apportion.explanation.subject import Subject, difference

__all__ = ["Comparison", "compare", "gain_lines", "job_lines", "objective_text", "price_lines"]


_ROWS = 30
_NODES = 6


def objective_text(objective: float | None, termination: str) -> str:
    """Return an objective, or why there is none."""
    return f"no plan ({termination})" if objective is None else amount(objective)


def gain_lines(gain: Difference | None, change: float | None, words: Words) -> Iterator[str]:
    """Yield by how much the optimum gets better, or the change between two plans where that is not proven."""
    if gain is None:
        return
    if gain.exact is not None:
        better = "better" if gain.exact > 0 else "worse"
        size = f"{amount(abs(gain.exact))}{words.value} {better}" if gain.exact else "no change"
        yield f"  {size} (both optima are proven)"
    elif change is not None:
        sign = "+" if change >= 0 else "-"
        size = f"{sign}{amount(abs(change))}{words.value}"
        yield f"  {size} between plans that are not both proven optimal"


def job_lines(title: str, jobs: Sequence[JobChange], words: Words) -> Iterator[str]:
    """Yield a title and what changes for some jobs; nothing if there are none."""
    if not jobs:
        return
    yield ""
    yield f"{title}:"
    for job in jobs[:_ROWS]:
        change = f" by {amount(abs(job.gain))}{words.value}" if job.gain else ""
        moved = _moved(job)
        yield f"  {spelt_out(job.job)}: {_option(job, words)}{change}{moved}"
    if len(jobs) > _ROWS:
        yield f"  and {len(jobs) - _ROWS} more"


def _option(job: JobChange, words: Words) -> str:
    before = "new" if job.presence == "new" else words.option(job.before)
    after = "gone" if job.presence == "gone" else words.option(job.after)
    return f"stays at {after}" if before == after else f"{before} -> {after}"


def _moved(job: JobChange) -> str:
    parts = [
        f"{sign}{', '.join(spelt_out(node) for node in nodes[:_NODES])}"
        + (f" and {len(nodes) - _NODES} more" if len(nodes) > _NODES else "")
        for sign, nodes in (("+ ", job.nodes_gained), ("- ", job.nodes_lost))
        if nodes
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def price_lines(before: Mapping[str, float], after: Mapping[str, float], words: Words) -> Iterator[str]:
    """Yield the price of every capacity before and after."""
    if before or after:
        yield ""
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        shown = " -> ".join("none" if price is None else amount(price) for price in (old, new))
        yield f"price of a {words.unit(name)}: {shown}{words.value}"


@dataclass(frozen=True, slots=True)
class Comparison(Displayable):
    """The plan before and after a change.

    Attributes
    ----------
    kind, name, sense
        Kind and name of the instance, and whether it is maximised or minimised.
    edits
        The changes, in words.
    termination_before, termination_after
        Why the two solves ended.
    objective_before, objective_after
        ``None`` without a plan.
    change
        After less before, in the instance's units; ``None`` if either has no plan.
    proven
        Whether both objectives are proven optimal, and the change with them exact.
    gain
        By how much the optimum gets better, with bounds where it is not proven.
    jobs
        Every job whose option, value or nodes change, in the order of the instance, new ones last; empty if
        either has no plan.
    unchanged
        How many jobs do not change.
    prices_before, prices_after
        Multipliers by capacity; ``None`` without any.
    notes
        What could not be shown.
    before, after
        The two solutions.
    measure
        What the objective is called.
    """

    kind: str
    name: str
    sense: str
    edits: tuple[str, ...]
    termination_before: str
    termination_after: str
    objective_before: float | None
    objective_after: float | None
    change: float | None
    proven: bool
    gain: Difference | None
    jobs: tuple[JobChange, ...]
    unchanged: int
    prices_before: Mapping[str, float] | None
    prices_after: Mapping[str, float] | None
    notes: tuple[str, ...] = ()
    before: Solution | None = field(default=None, repr=False, compare=False)
    after: Solution | None = field(default=None, repr=False, compare=False)
    measure: str = "objective"

    @property
    def winners(self) -> tuple[JobChange, ...]:
        """The jobs that gain, the most first."""
        return tuple(sorted((job for job in self.jobs if job.gain > 0), key=lambda job: -job.gain))

    @property
    def losers(self) -> tuple[JobChange, ...]:
        """The jobs that lose, the most first."""
        return tuple(sorted((job for job in self.jobs if job.gain < 0), key=lambda job: job.gain))

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the solutions as plain dicts, lists, numbers and strings."""
        spelt_out = {name: getattr(self, name) for name in self.__slots__ if name not in ("before", "after")}
        spelt_out["gain"] = None if self.gain is None else asdict(self.gain)
        spelt_out["jobs"] = [
            {**asdict(job), "nodes_gained": list(job.nodes_gained), "nodes_lost": list(job.nodes_lost)}
            for job in self.jobs
        ]
        for name in ("edits", "notes"):
            spelt_out[name] = list(spelt_out[name])
        for name in ("prices_before", "prices_after"):
            spelt_out[name] = None if spelt_out[name] is None else dict(spelt_out[name])
        spelt_out["plan_before"] = None if self.before is None else _listed(self.before.plan)
        spelt_out["plan_after"] = None if self.after is None else _listed(self.after.plan)
        return spelt_out

    def table(self) -> dict[str, list[Any]]:
        """Return the jobs that change, as columns."""
        names = ("job", "before", "after", "value_before", "value_after", "gain")
        return {name: [getattr(job, name) for job in self.jobs] for name in names}

    def __repr__(self) -> str:
        before = objective_text(self.objective_before, self.termination_before)
        after = objective_text(self.objective_after, self.termination_after)
        return f"<Comparison: {self.measure} {before} -> {after}, {len(self.jobs)} jobs change>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        words = words_of(self.kind, self.sense, self.measure)
        yield f"{self.kind} {spelt_out(self.name)}".rstrip()
        yield from (f"  what if: {spelt_out(edit)}" for edit in self.edits)
        yield ""
        before = objective_text(self.objective_before, self.termination_before)
        after = objective_text(self.objective_after, self.termination_after)
        yield f"{self.measure}: {before} -> {after}"
        yield from gain_lines(self.gain, self.change, words)
        titles = ("ends earlier", "ends later") if words.timed else ("gains", "loses")
        for title, jobs in zip(titles, (self.winners, self.losers), strict=True):
            yield from job_lines(title, jobs, words)
        rest = "otherwise changed" if words.timed else "same worth, other option"
        yield from job_lines(rest, [job for job in self.jobs if job.gain == 0], words)
        if self.change is not None and self.unchanged:
            yield f"{self.unchanged} other jobs do not change"
        if not words.timed:
            yield from price_lines(self.prices_before or {}, self.prices_after or {}, words)
        yield from (f"note: {spelt_out(note)}" for note in self.notes)


def compare(before: Solution, after: Solution, edits: tuple[str, ...] = ()) -> Comparison:
    """Set two solutions side by side.

    Parameters
    ----------
    before, after
        Solutions of two instances of one kind and sense.
    edits
        What was changed, in words.
    """
    old, new = (Subject(solution.instance) for solution in (before, after))
    sign = 1.0 if new.sense == "maximize" else -1.0
    both = before.objective is not None and after.objective is not None
    jobs = _changes(old, before.plan, new, after.plan, sign) if both else []
    changed = tuple(job for job in jobs if _differs(job))
    notes = [
        f"there is no plan {when}: {solution.termination.value}"
        for when, solution in (("before", before), ("after", after))
        if solution.plan is None
    ]
    return Comparison(
        kind=new.kind.name,
        name=new.name,
        sense=new.sense,
        edits=edits,
        termination_before=before.termination.value,
        termination_after=after.termination.value,
        objective_before=before.objective,
        objective_after=after.objective,
        change=None if not both else float(after.objective) - float(before.objective),  # type: ignore[arg-type]
        proven=before.termination is after.termination is Termination.OPTIMAL,
        gain=difference(after, before, sign, least=None) if both else None,
        jobs=changed,
        unchanged=len(jobs) - len(changed),
        prices_before=before.certificate.multipliers,
        prices_after=after.certificate.multipliers,
        notes=tuple(notes),
        before=before,
        after=after,
        measure=new.measure,
    )


def _changes(before: Subject, old_plan: Any, after: Subject, new_plan: Any, sign: float) -> list[JobChange]:
    old, new = before.shares(old_plan), after.shares(new_plan)
    timed = after.measure == "makespan"
    old_nodes, new_nodes = _nodes(old_plan), _nodes(new_plan)
    changes = []
    for job in dict.fromkeys((*old, *new)):
        option_before, value_before = old.get(job, (None, 0.0))
        option_after, value_after = new.get(job, (None, 0.0))
        held, holds = old_nodes.get(job, ()), new_nodes.get(job, ())
        stays = job in new and job in old
        # a job that comes or goes ends neither earlier nor later
        gain = sign * (value_after - value_before) if stays or not timed else 0.0
        scale = max(abs(value_before), abs(value_after))
        changes.append(
            JobChange(
                job=job,
                presence="gone" if job not in new else "new" if job not in old else "stays",
                before=option_before,
                after=option_after,
                value_before=value_before,
                value_after=value_after,
                gain=0.0 if abs(gain) <= 1e-12 * scale else gain,
                nodes_gained=tuple(node for node in holds if node not in set(held)),
                nodes_lost=tuple(node for node in held if node not in set(holds)),
            )
        )
    return changes


def _nodes(plan: Any) -> Mapping[str, tuple[str, ...]]:
    allocation = plan.get("allocation") if isinstance(plan, Mapping) else None
    return {} if allocation is None else {job: tuple(nodes) for job, nodes in allocation.items()}


def _differs(job: JobChange) -> bool:
    moved = bool(job.nodes_gained or job.nodes_lost)
    return job.presence != "stays" or job.before != job.after or job.gain != 0.0 or moved


def _listed(plan: Any) -> Any:
    return plan.tolist() if isinstance(plan, np.ndarray) else plan
