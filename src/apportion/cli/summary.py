"""A result for people: how it ended in a few lines, then the plan as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from apportion.instances import GapFillingInstance, Instance, MultipleChoiceKnapsackInstance

__all__ = ["summary"]

_ROWS = 30
_NODES = 6
_WIDTH = 28
_Table = Callable[[Any, Mapping[str, Any]], Iterable[str]]


def summary(instance: Instance, answer: Mapping[str, Any]) -> str:
    """Return the readable form of a stored document."""
    lines = [*_ending(answer), ""]
    if answer["plan"] is None:
        lines.append("no plan")
    else:
        table: _Table = _TABLES.get(answer["kind"], _listed)
        lines.extend(table(instance, answer["plan"]))
    return "\n".join(lines)


def _ending(answer: Mapping[str, Any]) -> Iterable[str]:
    source = answer["certificate"]["source"]
    times = ", ".join(f"{phase} {_seconds(spent)}" for phase, spent in answer["times"].items() if spent)
    facts = {
        "instance": f"{answer['kind']} {_plain(answer['name'])}".rstrip(),
        "backend": f"{answer['backend']} ({answer['reason']})",
        "termination": answer["termination"],
        "objective": _number(answer["objective"]),
        "bound": _number(answer["bound"]) + (f" (by {source.replace('_', ' ')})" if source else ""),
        "verified bound": _number(answer["verified_bound"]),
        "evidence": (answer.get("evidence") or "none").replace("_", " "),
        "gap": "none" if answer["gap"] is None else f"{answer['gap']:.3g}",
        "time": times,
    }
    yield from (f"{name:<15} {fact}" for name, fact in facts.items())
    yield from (f"{'note':<15} {_plain(note)}" for note in answer["notes"])


def _allocation(instance: GapFillingInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    given = {job.id: plan["allocation"].get(job.id, ()) for job in instance.jobs}
    used = sum(map(len, given.values()))
    running = sum(map(bool, given.values()))
    yield f"{used} of {len(instance.nodes)} idle nodes used by {running} of {len(given)} jobs"
    shown = sorted(instance.jobs, key=lambda job: -len(given[job.id]) - len(job.current_nodes))[:_ROWS]
    kept = {job.id for job in shown}
    rows = [("job", "before", "after", "change", "nodes")]
    for job in instance.jobs:
        if job.id in kept:
            nodes = given[job.id]
            change = len(nodes) - len(job.current_nodes)
            more = f" and {len(nodes) - _NODES} more" if len(nodes) > _NODES else ""
            named = " ".join(map(_plain, nodes[:_NODES])) + more
            rows.append(
                (
                    job.id,
                    str(len(job.current_nodes)),
                    str(len(nodes)),
                    f"{change:+d}" if change else "",
                    named,
                )
            )
    yield from _table(rows, "<>>><")
    yield from _rest(len(instance.jobs), "jobs with fewer nodes")


def _choice(instance: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    choice = plan["choice"]
    used = dict.fromkeys(instance.capacities, 0)
    rows = [("job", "before", "after", "value", "uses")]
    for number, job in enumerate(instance.jobs):
        option = next((option for option in job.options if option.id == choice.get(job.id)), None)
        for name, use in ({} if option is None else option.uses).items():
            used[name] += use
        if number < _ROWS:
            uses = ", ".join(f"{use} {_plain(name)}" for name, use in option.uses.items()) if option else ""
            value = "" if option is None else f"{option.value:.6g}"
            rows.append((job.id, job.current or "-", option.id if option else "-", value, uses))
    totals = [f"{used[name]} of {capacity} {_plain(name)}" for name, capacity in instance.capacities.items()]
    more = f", and {len(totals) - _NODES} more" if len(totals) > _NODES else ""
    yield f"{sum(job.id in choice for job in instance.jobs)} of {len(instance.jobs)} jobs chosen; used " + (
        ", ".join(totals[:_NODES]) + more if totals else "no capacity"
    )
    yield from _table(rows, "<<<><")
    yield from _rest(len(instance.jobs), "jobs")


def _listed(_: Instance, plan: Mapping[str, Any]) -> Iterable[str]:
    """Return the first table of a plan of any other kind: what every job is given."""
    name, given = next(iter(plan.items()))
    rows = [("job", name), *((str(job), _value(value)) for job, value in list(given.items())[:_ROWS])]
    yield from _table(rows, "<<")
    yield from _rest(len(given), "jobs")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_plain(str(name))} {_entry(entry)}" for name, entry in value.items())
    return _plain(str(value))


def _entry(entry: Any) -> str:
    return f"{entry:.4g}" if isinstance(entry, float) else _plain(str(entry))


def _table(rows: Sequence[tuple[str, ...]], alignment: str) -> Iterable[str]:
    cells = [[_clipped(cell) for cell in row[:-1]] + [row[-1]] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(alignment))]
    for row in cells:
        padded = zip(row, alignment, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in padded).rstrip()


def _rest(jobs: int, what: str) -> Iterable[str]:
    if jobs > _ROWS:
        yield f"... and {jobs - _ROWS} {what}; --json or -o FILE has the whole plan"


def _clipped(text: str) -> str:
    plain = _plain(text)
    return plain if len(plain) <= _WIDTH else f"{plain[: _WIDTH - 3]}..."


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _seconds(spent: float) -> str:
    return f"{spent * 1e3:.3g} ms" if spent < 1 else f"{spent:.3g} s"


_TABLES: Mapping[str, _Table] = MappingProxyType(
    {"gap_filling": _allocation, "multiple_choice_knapsack": _choice}
)
"""How the plan of a kind is listed; any other kind's by its first table."""
