"""The plan of each kind as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from apportion.cli.tables import Cell, plain, table

if TYPE_CHECKING:
    from apportion.instances import (
        FreezingInstance,
        GapFillingInstance,
        MatchingInstance,
        MultipleChoiceKnapsackInstance,
    )

__all__ = ["plan_lines"]

_ROWS = 30
_POOLS = 6


def plan_lines(kind: str, instance: Any, plan: Mapping[str, Any]) -> Iterable[str]:
    """Return what a plan gives to every job, at most 30 of them, and how full the cluster is."""
    return _TABLES.get(kind, _listed)(instance, plan)


def _allocation(instance: GapFillingInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    given = {job.id: plan["allocation"].get(job.id, ()) for job in instance.jobs}
    used = sum(map(len, given.values()))
    running = sum(map(bool, given.values()))
    shown = sorted(instance.jobs, key=lambda job: -len(given[job.id]) - len(job.current_nodes))[:_ROWS]
    kept = {job.id for job in shown}
    rows: list[Sequence[Cell]] = [("job", "before", "after", "change", "nodes")]
    for job in instance.jobs:
        if job.id in kept:
            nodes = given[job.id]
            change = len(nodes) - len(job.current_nodes)
            moved = f"{change:+d}" if change else ""
            rows.append((job.id, str(len(job.current_nodes)), str(len(nodes)), moved, nodes))
    yield from table(rows, "<>>><")
    yield from _rest(len(instance.jobs), "jobs with fewer nodes")
    yield ""
    yield f"{used} of {len(instance.nodes)} idle nodes used by {running} of {len(given)} jobs"


def _choice(instance: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    choice = plan["choice"]
    used = dict.fromkeys(instance.capacities, 0)
    rows = [("job", "before", "after", "value", "uses")]
    for number, job in enumerate(instance.jobs):
        option = next((option for option in job.options if option.id == choice.get(job.id)), None)
        for name, use in ({} if option is None else option.uses).items():
            used[name] += use
        if number < _ROWS:
            uses = ", ".join(f"{use} {plain(name)}" for name, use in option.uses.items()) if option else ""
            value = "" if option is None else f"{option.value:.6g}"
            rows.append((job.id, job.current or "-", option.id if option else "-", value, uses))
    yield from table(rows, "<<<><")
    yield from _rest(len(instance.jobs), "jobs")
    yield ""
    totals = [f"{used[name]} of {capacity} {plain(name)}" for name, capacity in instance.capacities.items()]
    more = f", and {len(totals) - _POOLS} more" if len(totals) > _POOLS else ""
    yield f"{sum(job.id in choice for job in instance.jobs)} of {len(instance.jobs)} jobs chosen; used " + (
        ", ".join(totals[:_POOLS]) + more if totals else "no capacity"
    )


def _freezing(instance: FreezingInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    chosen = plan["configuration"]
    used = dict.fromkeys(instance.gpus, 0)
    rows: list[Sequence[Cell]] = [("job", "before", "after", "frozen layers", "nodes")]
    lost = waiting = 0
    for number, job in enumerate(instance.jobs):
        now, got = job.current, chosen.get(job.id)
        before = "-" if now is None else f"{now.gpus} {now.gpu_type}"
        if got is None:
            waiting += 1
            lost += now is not None
            after, depth = ("waits" if now is None else "stopped"), ""
        else:
            used[got["gpu_type"]] += got["gpus"]
            after = f"{got['gpus']} {got['gpu_type']}"
            was = f"{now.depth} -> " if now is not None and now.depth != got["depth"] else ""
            depth = f"{was}{got['depth']} of {job.layers}"
        if number < _ROWS:
            rows.append((job.id, before, after, depth, got.get("nodes", ()) if got else ()))
    yield from table(rows, "<<<<<")
    yield from _rest(len(instance.jobs), "jobs")
    yield ""
    totals = ", ".join(f"{used[name]} of {count} {plain(name)}" for name, count in instance.gpus.items())
    stopped = f", {lost} of them {'was' if lost == 1 else 'were'} running" if lost else ""
    running = f"{len(instance.jobs) - waiting} of {len(instance.jobs)} jobs run"
    yield f"{running}, {waiting} wait{stopped}; used {totals}"


def _matching(instance: MatchingInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    if instance.divisible:
        yield from _fractions(instance, plan)
        return
    from apportion.instances.matching.schedule import machine_name, schedule

    placed = schedule(instance, plan)
    counts = {machine.id: machine.count for machine in instance.machines}
    timed = instance.objective == "makespan"
    heads = ("start s", "end s") if timed else (instance.objective, "uses")
    rows: list[Sequence[Cell]] = [("job", "machine", *heads)]
    for job in instance.jobs[:_ROWS]:
        at = placed.get(job.id)
        if at is None:
            rows.append((job.id, "left out", "", ""))
            continue
        entry = job.on[at.pool]
        names = [machine_name(at.pool, index, counts[at.pool]) for index in at.machines]
        figures = (at.begin, at.end) if timed else (getattr(entry, instance.objective) or 0.0, entry.uses)
        rows.append((job.id, names, *(f"{figure:.6g}" for figure in figures)))
    yield from table(rows, "<<>>")
    yield from _rest(len(instance.jobs), "jobs")
    yield ""
    on = {(at.pool, index) for at in placed.values() for index in at.machines}
    last = f"; the last ends at {max((at.end for at in placed.values()), default=0.0):.6g} s" if timed else ""
    machines = f"{len(on)} of {sum(counts.values())} machines"
    yield f"{len(placed)} of {len(instance.jobs)} jobs on {machines}{last}"


def _fractions(instance: MatchingInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    rows = [("job", "share of each pool's time, in machines")]
    for job in instance.jobs[:_ROWS]:
        shares = plan["fractions"].get(job.id, {})
        rows.append((job.id, ", ".join(f"{plain(pool)} {share:.4g}" for pool, share in shares.items())))
    yield from table(rows, "<<")
    yield from _rest(len(instance.jobs), "jobs")


def _listed(_: Any, plan: Mapping[str, Any]) -> Iterable[str]:
    """Return the first table of a plan of any other kind: what every job is given."""
    name, given = next(iter(plan.items()))
    rows = [("job", name), *((str(job), _value(value)) for job, value in list(given.items())[:_ROWS])]
    yield from table(rows, "<<")
    yield from _rest(len(given), "jobs")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(str(name))} {_entry(entry)}" for name, entry in value.items())
    return plain(str(value))


def _entry(entry: Any) -> str:
    return f"{entry:.4g}" if isinstance(entry, float) else plain(str(entry))


def _rest(jobs: int, what: str) -> Iterable[str]:
    if jobs > _ROWS:
        yield f"... and {jobs - _ROWS} {what}; --json or -o FILE has the whole plan"


_TABLES: Mapping[str, Callable[[Any, Mapping[str, Any]], Iterable[str]]] = MappingProxyType(
    {
        "gap_filling": _allocation,
        "multiple_choice_knapsack": _choice,
        "matching": _matching,
        "freezing": _freezing,
    }
)
"""How the plan of a kind is listed; any other kind's by its first table."""
