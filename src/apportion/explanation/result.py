"""An explanation: its parts together, as plain JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from apportion.core.display import Displayable
from apportion.core.solution import Solution
from apportion.explanation.parts import (
    CapacityWorth,
    Conflict,
    Difference,
    JobWorth,
    OptionWorth,
    Relaxation,
    Rival,
    TenantWorth,
    Waiting,
    Words,
    added,
    amount,
    spelt_out,
    words_of,
)
from apportion.explanation.subject import Subject

__all__ = [
    "Explanation",
    "capacity_lines",
    "conflict_lines",
    "explanation_of",
    "job_lines",
    "relaxation_line",
    "tenant_lines",
    "waiting_lines",
]


_NAMES = 12


def conflict_lines(conflict: Conflict) -> Iterator[str]:
    """Yield the lines of a conflict."""
    over = f" and {_listed(conflict.capacities)}" if conflict.capacities else ""
    yield f"in conflict: {_listed(conflict.jobs)}{over}"
    yield f"  {spelt_out(conflict.reason)}"
    if conflict.smallest:
        yield "  no conflict has fewer members"
    elif conflict.irreducible:
        yield "  without any one of them there would be no conflict among the others"
    if conflict.undecided:
        yield f"  kept without a decision, for want of time: {_listed(conflict.undecided)}"


def relaxation_line(relaxation: Relaxation) -> str:
    """Return a way out as one line."""
    if relaxation.kind == "add_capacity":
        way = f"add {added(relaxation.add)}"
    elif relaxation.kind == "unpin":
        way = f"unpin {_listed(relaxation.unpin)}"
    else:
        way = f"leave out {_listed(relaxation.leave_out)}"
    cheapest = "the least that helps" if relaxation.minimal else "not shown to be the least"
    verified = "verified by re-solving" if relaxation.verified else relaxation.note or "not verified"
    return f"{way} ({cheapest}; {verified})"


def capacity_lines(capacity: CapacityWorth, words: Words) -> Iterator[str]:
    """Yield the lines of a capacity, or of a pool of machines that are busy for part of a makespan."""
    if capacity.busy is not None:
        yield from _pool(capacity, words)
        return
    unit = words.unit(capacity.name)
    free = f"{capacity.free:,d} free" if capacity.free else "none free"
    yield f"{spelt_out(capacity.name)}: {capacity.used:,d} of {capacity.capacity:,d} used, {free}"
    if capacity.price is not None:
        price = f"{amount(capacity.price)}{words.value} a {unit}"
        yield f"  price: {price} (the slope of the bound over many units)"
    if capacity.one_more is not None:
        most = ""
        if capacity.one_more_at_most is not None:
            most = f"; the prices alone say at most {amount(capacity.one_more_at_most)}"
        if (lost := _lost(capacity.one_more)) is not None:
            yield f"  one more {unit} makes it worse by {amount(lost)}: shares come first (by re-solving)"
        else:
            worth = words.difference(capacity.one_more)
            yield f"  one more {unit} {words.gains} {worth} (by re-solving{most})"
    if capacity.one_fewer is not None:
        if (lost := _lost(capacity.one_fewer)) is not None:
            yield f"  one {unit} fewer makes it better by {amount(lost)}: less is due (by re-solving)"
        else:
            yield f"  one {unit} fewer costs {words.difference(capacity.one_fewer)} (by re-solving)"


def _lost(worth: Difference) -> float | None:
    """Return by how much a difference is below 0, ``None`` where it is not known to be."""
    return -worth.exact if worth.exact is not None and worth.exact < 0 else None


def _pool(pool: CapacityWorth, words: Words) -> Iterator[str]:
    machines = "1 machine" if pool.capacity == 1 else f"{pool.capacity:,d} machines"
    idle = f", {pool.free:,d} without any job" if pool.free else ""
    yield f"{spelt_out(pool.name)}: {machines}{idle}, busy {100 * (pool.busy or 0.0):.1f} % of the makespan"
    if pool.one_more is not None:
        yield f"  one machine more ends everything {words.difference(pool.one_more)} earlier (by re-solving)"
    if pool.one_fewer is not None:
        yield f"  one machine fewer ends everything {words.difference(pool.one_fewer)} later (by re-solving)"


def job_lines(job: JobWorth, single: CapacityWorth | None, words: Words) -> Iterator[str]:
    """Yield the lines of a job; `single` is the capacity if there is only one."""
    chosen = job.chosen
    worth = f": {amount(chosen.value)}{words.value}" if words.timed else _at_prices(chosen, words)
    yield f"{spelt_out(job.job)} {words.has(chosen.option)}{worth}"
    yield from (f"  {spelt_out(remark)}" for remark in job.remarks)
    if words.timed:
        yield from _elsewhere(job, words)
        return
    if job.unfrozen is not None:
        yield from _unfrozen(job.unfrozen, words)
    if job.idle:
        yield from _entry(job, single, words)
    if words.kind.counts_nodes and single is not None and single.price is not None:
        yield from _next_node(job, single.price, words)
    for title, rival in (("runner-up", job.runner_up), ("asked about", job.asked)):
        if rival is not None:
            yield from _rival(title, rival, chosen, words)


def _elsewhere(job: JobWorth, words: Words) -> Iterator[str]:
    for title, rival in (("runner-up", job.runner_up), ("asked about", job.asked)):
        if rival is None:
            continue
        pool = words.option(rival.worth.option)
        if rival.worth.option == job.chosen.option:
            yield f"  {title}: {pool} is where it runs"
            continue
        yield f"  {title}: {pool}, {amount(rival.worth.value)}{words.value}"
        if rival.needed is not None and rival.needed.exact == 0:
            yield "    an equally good plan has it there (by re-solving)"
        elif rival.needed is not None:
            yield f"    held there, everything ends {words.difference(rival.needed)} later (by re-solving)"


def _unfrozen(rival: Rival, words: Words) -> Iterator[str]:
    if rival.needed is not None and rival.needed.exact == 0:
        yield "  unfreezing it on the same GPUs costs nothing (by re-solving)"
    elif rival.needed is not None:
        yield f"  unfreezing it on the same GPUs costs {words.difference(rival.needed)} (by re-solving)"
    elif rival.estimate is not None and rival.estimate > 0:
        yield f"  unfreezing it on the same GPUs costs {amount(rival.estimate)}, estimated at the prices"


def _at_prices(worth: OptionWorth, words: Words) -> str:
    if worth.option is None:
        return ""
    verb = "worth" if words.maximizes else "costs"
    text = f": {verb} {amount(worth.value)}{words.value}"
    if worth.pays is not None and worth.net is not None:
        text += f", pays {amount(worth.pays)} for {words.uses(worth)}, net worth {amount(worth.net)}"
    return text


def _entry(job: JobWorth, single: CapacityWorth | None, words: Words) -> Iterator[str]:
    if job.enters_at_price is not None and single is not None and single.price is not None:
        unit, price = words.unit(single.name), single.price
        if job.enters_at_price < price:
            yield (
                f"  a {unit} is worth {amount(price)}{words.value} to the others; the price would have to "
                f"fall to {amount(job.enters_at_price)} before this job pays for any"
            )
        else:
            yield (
                f"  it could pay up to {amount(job.enters_at_price)}{words.value} a {unit}, the price is "
                f"{amount(price)}; but it finds no room beside the others"
            )
    elif job.enters_at is not None:
        if job.enters_at < 1:
            share = f"{100 * job.enters_at:.4g} % of what they are"
            yield f"  all prices would have to fall to {share} before an option of it pays"
        else:
            yield "  at these prices it would pay, but it finds no room beside the others"
    elif job.runner_up is not None and (job.runner_up.worth.value > job.chosen.value) is not words.maximizes:
        yield "  no option of it gains anything, whatever the price"


def _next_node(job: JobWorth, price: float, words: Words) -> Iterator[str]:
    own, step = int(job.chosen.option or 0), job.step_up
    if step is None or step.option is None or job.idle:
        return
    more = int(step.option) - own
    gain = step.value - job.chosen.value
    which = _ordinal(own + 1) if more == 1 else f"{more} more nodes, the next count it may have,"
    worth = f"{amount(price)}{words.value} at the margin"
    costs = f"a node is worth {worth}" if more == 1 else f"{more} nodes are worth {amount(more * price)}"
    if gain <= 0:
        yield f"  {which} would add nothing"
    elif gain < more * price:
        yield f"  {which} would add {amount(gain)}{words.value}, but {costs}"
    else:
        yield f"  {which} would add {amount(gain)}{words.value}, and {costs}; it does not fit the rest"


def _rival(title: str, rival: Rival, chosen: OptionWorth, words: Words) -> Iterator[str]:
    name = words.option(rival.worth.option)
    if rival.worth.option == chosen.option:
        yield f"  {title}: {name} is what it gets"
        return
    yield f"  {title}: {name}{_at_prices(rival.worth, words)}"
    change = "more" if words.maximizes else "less"
    if rival.estimate is not None:
        if rival.estimate >= 0:
            yield f"    at the prices it falls short by {amount(rival.estimate)}{words.value}"
        else:
            yield f"    at the prices alone it would be better by {amount(-rival.estimate)}{words.value}"
    if rival.needed is not None:
        needs = words.difference(rival.needed)
        if rival.needed.exact == 0:
            yield "    an equally good plan has it (by re-solving)"
        elif words.maximizes:
            yield f"    to win it would have to be worth {needs} {change} (by re-solving)"
        else:
            yield f"    to win it would have to cost {needs} {change} (by re-solving)"
    elif rival.possible is False:
        yield f"    no plan {'that keeps these shares has' if rival.kept else 'can have'} it"


def _ordinal(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    suffix = "th" if number % 100 in (11, 12, 13) else ends.get(number % 10, "th")
    article = "an" if number in (11, 18) or str(number).startswith("8") else "a"
    return f"{article} {number}{suffix}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(spelt_out(name) for name in names[:_NAMES]) + more


def tenant_lines(tenant: TenantWorth) -> Iterator[str]:
    """Yield what a tenant has, and on whose account."""
    due = "" if tenant.due is None else f", {tenant.due:.4g} is due"
    yield f"tenant {spelt_out(tenant.name)} has a share of {tenant.share:.4g}{due}"
    for name, use in tenant.uses.items():
        own, more = tenant.guaranteed[name], tenant.one_more_guaranteed.get(name)
        line = f"  {spelt_out(name)}: uses {use}, {own} guaranteed"
        for who, covered in tenant.above.get(name, {}).items():
            line += f"; {covered} of what {spelt_out(who)} is guaranteed"
        if name in tenant.borrows:
            idle = ", ".join(f"{amount} of {spelt_out(who)}" for who, amount in tenant.lenders[name].items())
            line += f"; borrows {tenant.borrows[name]}" + (
                f" (idle: {idle})" if idle else " of what nobody owns"
            )
        yield line
        if more is not None:
            what = f"one more {spelt_out(name)} of guarantee"
            yield f"    {what} changes its share by {more:+.4g} (by re-solving)"
    yield from (f"  at a limit: {spelt_out(limit)}" for limit in tenant.binding)


def waiting_lines(waiting: Waiting) -> Iterator[str]:
    """Yield why a job waits."""
    yield f"{spelt_out(waiting.job)} of {spelt_out(waiting.tenant)} waits"
    for limit in waiting.limits:
        yield f"  no room for {spelt_out(waiting.option)}: {spelt_out(limit)}"
    if waiting.displaces:
        rivals = ", ".join(map(spelt_out, waiting.displaces))
        yield f"  it would displace one that runs beyond its tenant's guarantee: {rivals}"
    if not waiting.limits:
        option = spelt_out(waiting.option)
        yield f"  there is room for {option}: it does not pay, or cannot be placed"


@dataclass(frozen=True, slots=True)
class Explanation(Displayable):
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
        spelt_out = {name: getattr(self, name) for name in self.__slots__ if name != "solution"}
        for name in ("conflicts", "relaxations", "capacities", "jobs", "tenants", "waiting"):
            spelt_out[name] = [_plain(part) for part in spelt_out[name]]
        spelt_out["notes"] = list(self.notes)
        return spelt_out

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
        title = f"{self.kind} {spelt_out(self.name)}".rstrip()
        if self.feasible:
            assert self.objective is not None
            yield f"{title}: {self.termination}, {self.measure} {amount(self.objective)}{words.value}"
        elif self.feasible is False:
            yield f"{title}: no plan is feasible"
        else:
            yield f"{title}: {self.termination}, no plan"
        for conflict in self.conflicts:
            yield ""
            yield from conflict_lines(conflict)
        if self.relaxations:
            yield ""
            yield "the cheapest ways out:"
            yield from (f"  {relaxation_line(relaxation)}" for relaxation in self.relaxations)
        for tenant in self.tenants:
            yield ""
            yield from tenant_lines(tenant)
        for waiting in self.waiting:
            yield ""
            yield from waiting_lines(waiting)
        for capacity in self.capacities:
            yield ""
            yield from capacity_lines(capacity, words)
        single = self.capacities[0] if len(self.capacities) == 1 else None
        for job in self.jobs:
            yield ""
            yield from job_lines(job, single, words)
        if self.notes:
            yield ""
            yield from (f"note: {spelt_out(note)}" for note in self.notes)


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
