"""A result for people: the plan as a table, then how the solve ended, where the eye rests last.

Tables are as wide as the terminal, no wider; long words keep their first and last letters. As CSV a plan is
one line per job, whatever its kind.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from apportion.instances import Instance
from apportion.instances.tables import plan_columns

if TYPE_CHECKING:
    from apportion.instances import (
        FreezingInstance,
        GapFillingInstance,
        MatchingInstance,
        PlacementInstance,
    )

__all__ = [
    "KEPT",
    "Cell",
    "clipped",
    "coloured",
    "plan_csv",
    "plan_lines",
    "printable",
    "summary",
    "table",
    "tenant_lines",
    "terminal_width",
    "wrapped",
]


def plan_csv(instance: Any, plan: Any) -> bytes:
    """Return the table of a plan: lists as words with blanks between, empty cells where nothing is said."""
    columns = plan_columns(instance, plan)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_cells, zip(*columns.values(), strict=True)))
    return text.getvalue().encode().rstrip(b"\n")


def _cells(row: tuple[Any, ...]) -> list[Any]:
    return [" ".join(map(str, cell)) if isinstance(cell, list | tuple) else cell for cell in row]


KEPT = "\u00a0"
"""A space at which `wrapped` begins no new line."""

Cell = str | Sequence[str]
"""A word, or names of which as many are listed as fit."""

_NARROWEST = 10
"""Columns of words are never made narrower than this."""


def terminal_width() -> int:
    """Return the columns of the terminal, or of ``COLUMNS``; 80 where there is neither."""
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def printable(text: str) -> str:
    """Return a text whose every character can be printed."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def clipped(text: str, width: int) -> str:
    """Return a text that fits a width, an ellipsis for its middle where it is longer.

    Examples
    --------
    >>> clipped("experiment-2026-11-22-resnet50-lr0.1", 20)
    'experimen…t50-lr0.1'
    """
    if len(text) <= width:
        return text
    half = max(width - 1, 2) // 2
    return f"{text[:half]}…{text[-half:]}"


def fitting_names(names: Sequence[str], width: int) -> str:
    """Return as many names as fit a width, and how many more there are.

    Examples
    --------
    >>> fitting_names(["node1", "node2", "node3", "node4"], 20)
    'node1 and 3 more'
    """
    whole = " ".join(names)
    if len(whole) <= width or len(names) < 2:
        return clipped(whole, width)
    for kept in range(len(names) - 1, 0, -1):
        text = f"{' '.join(names[:kept])} and {len(names) - kept} more"
        if len(text) <= width:
            return text
    return clipped(f"{len(names)} in all", width)


def table(rows: Sequence[Sequence[Cell]], alignment: str, width: int | None = None) -> Iterable[str]:
    """Yield the lines of a table.

    Parameters
    ----------
    rows
        The cells; the first row names the columns.
    alignment
        ``<`` or ``>`` per column. Columns of words (``<``) give way where the table is too wide, the widest
        first; columns of numbers (``>``) never do.
    width
        How wide it may be; by default as the terminal.
    """
    cells = [
        [printable(cell) if isinstance(cell, str) else [*map(printable, cell)] for cell in row]
        for row in rows
    ]
    widths = [max(len(_whole(row[column])) for row in cells) for column in range(len(alignment))]
    room = (terminal_width() if width is None else width) - 2 * (len(widths) - 1)
    words = [column for column, side in enumerate(alignment) if side == "<"]
    while sum(widths) > room and words:
        widest = max(words, key=lambda column: widths[column])
        if widths[widest] <= _NARROWEST:
            break
        others = max([widths[column] for column in words if column != widest], default=_NARROWEST)
        over = sum(widths) - room
        widths[widest] = max(widths[widest] - over, min(others, widths[widest] - 1), _NARROWEST)
    for row in cells:
        yield _line([_fitted(cell, size) for cell, size in zip(row, widths, strict=True)], alignment, widths)


def aligned(rows: Sequence[Sequence[str]], alignment: str) -> list[str]:
    """Return the lines of a table as wide as its cells are: ``<`` or ``>`` per column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(row, alignment, widths) for row in rows]


def _line(cells: Sequence[str], alignment: str, widths: Sequence[int]) -> str:
    sides = zip(cells, alignment, widths, strict=True)
    return "  ".join(f"{cell:{side}{size}}" for cell, side, size in sides).rstrip()


def wrapped(name: str, fact: str) -> str:
    """Return a fact beside its name, on as many lines as the terminal asks for; `KEPT` spaces stay inside."""
    lines = "\n".join(
        textwrap.wrap(
            f"{name:<15} {fact}",
            terminal_width(),
            subsequent_indent=" " * 16,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
    return lines.replace(KEPT, " ")


def _whole(cell: Cell) -> str:
    return cell if isinstance(cell, str) else " ".join(cell)


def _fitted(cell: Cell, width: int) -> str:
    return clipped(cell, width) if isinstance(cell, str) else fitting_names(cell, width)


def coloured(text: str, colour: str, wanted: bool) -> str:
    """Return a text in a colour of the terminal, unless none is wanted or ``NO_COLOR`` is set."""
    if not wanted or os.environ.get("NO_COLOR"):
        return text
    import click

    return click.style(text, fg=colour)


_TENANT_ROWS = 30


def tenant_lines(instance: Any, answer: Mapping[str, Any]) -> Iterable[str]:
    """Return weight, share, and use over guarantee of every tenant without children, and where it stopped."""
    from apportion.instances.kinds import kind_of
    from apportion.instances.tenants.check import ledger_of, positions, shared_capacities
    from apportion.instances.tenants.ledger import under_floors

    kind = kind_of(instance)
    ledger = ledger_of(kind, under_floors(instance, answer["floors"]))
    places = positions(kind, instance, answer["plan"], ledger)
    capacities = shared_capacities(kind, instance)
    shown = list(capacities)[:4]
    levels = {level["name"]: level for level in answer.get("levels", ())}
    rows = [("tenant", "weight", "share", "level", *(f"{printable(name)} (guaranteed)" for name in shown))]
    for leaf in ledger.tree.leaves[:_TENANT_ROWS]:
        held = [(job, place) for job in ledger.members(leaf) if (place := places.get(job)) is not None]
        share = sum(ledger.shares[job][place] for job, place in held) / ledger.unit
        level = levels.get(leaf)
        at = "" if level is None else f"{level['share']:.4g}" + ("" if level["evidence"] else " unproved")
        uses = [
            f"{sum(ledger.options[job][place].uses.get(name, 0) for job, place in held)} "
            f"({ledger.tree.guarantees(name)[leaf]})"
            for name in shown
        ]
        weight = ledger.tree.nodes[leaf].tenant.weight
        rows.append((leaf, f"{weight:g}", f"{share:.4g}", at, *uses))
    if len(rows) > 1:
        yield from table(rows, "<>>>" + ">" * len(shown))
    if len(ledger.tree.leaves) > _TENANT_ROWS:
        yield f"... and {len(ledger.tree.leaves) - _TENANT_ROWS} tenants"


_ROWS = 30
_POOLS = 6


def plan_lines(kind: str, instance: Any, plan: Mapping[str, Any]) -> Iterable[str]:
    """Return what a plan gives to every job, at most 30 of them, and how full the cluster is."""
    return _TABLES.get(kind, _choice)(instance, plan)


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


def _choice(instance: Any, plan: Mapping[str, Any]) -> Iterable[str]:
    """Return the option of every job, of any kind whose options use capacities."""
    from apportion.instances.kinds import kind_of
    from apportion.instances.options import plan_options
    from apportion.instances.tenants.check import capacities_and_limits

    kind = kind_of(instance)
    assert kind.option_set is not None
    capacities = capacities_and_limits(kind, instance)
    chosen = plan_options(kind.option_set, instance, plan)
    used = dict.fromkeys(capacities, 0)
    rows = [("job", "before", "after", "value", "uses")]
    for number, one in enumerate(chosen):
        for name, use in one.uses.items():
            used[name] += use
        if number < _ROWS:
            uses = ", ".join(f"{use} {printable(name)}" for name, use in one.uses.items())
            value = f"{one.value:.6g}" if one.runs else ""
            rows.append((one.job, one.before or "-", one.name or "-", value, uses))
    yield from table(rows, "<<<><")
    yield from _rest(len(chosen), "jobs")
    yield ""
    totals = [f"{used[name]} of {capacity} {printable(name)}" for name, capacity in capacities.items()]
    more = f", and {len(totals) - _POOLS} more" if len(totals) > _POOLS else ""
    yield f"{sum(one.runs for one in chosen)} of {len(chosen)} jobs chosen; used " + (
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
    totals = ", ".join(f"{used[name]} of {count} {printable(name)}" for name, count in instance.gpus.items())
    stopped = f", {lost} of them {'was' if lost == 1 else 'were'} running" if lost else ""
    running = f"{len(instance.jobs) - waiting} of {len(instance.jobs)} jobs run"
    yield f"{running}, {waiting} wait{stopped}; used {totals}"


def _placement(instance: PlacementInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    from apportion.instances.placement.moves import steps

    rows: list[Sequence[Cell]] = [("job", "before", "after", "pods")]
    for job in instance.jobs[:_ROWS]:
        got, now = plan["placement"].get(job.id), job.current
        before = "-" if now is None else now.option
        after = got["option"] if got is not None else "waits" if now is None else "stopped"
        several = got is not None and len(got["on"]) > 1
        where = [
            f"{f'{pods} ' if several else ''}{node}{f' x{count}' if count > 1 else ''}"
            for pods, on in (got["on"] if got is not None else {}).items()
            for node, count in on.items()
        ]
        rows.append((job.id, before, after, where))
    yield from table(rows, "<<<<")
    yield from _rest(len(instance.jobs), "jobs")
    changes = [one for one in steps(instance, plan) if one.does != "start"]
    if changes:
        yield ""
        yield from table([("step", "job", "pods", "from", "to"), *map(_step, changes[:_ROWS])], "<<<<<")
    yield ""
    got = plan["placement"]
    nodes = {node for one in got.values() for on in one["on"].values() for node in on}
    running = f"{len(got)} of {len(instance.jobs)} jobs run on {len(nodes)} nodes"
    steps_ = f"{len(changes)} step{'' if len(changes) == 1 else 's'}"
    yield f"{running}; {steps_} before the others start"


def _step(one: Any) -> Sequence[Cell]:
    pods = f"{one.number} {one.pods}" if one.pods != "pods" else f"{one.number}"
    return (one.does, one.job, pods, one.source, one.target)


def _matching(instance: MatchingInstance, plan: Mapping[str, Any]) -> Iterable[str]:
    if instance.divisible:
        yield from _fractions(instance, plan)
        return
    from apportion.instances.matching.bounds import machine_name, schedule

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
        rows.append((job.id, ", ".join(f"{printable(pool)} {share:.4g}" for pool, share in shares.items())))
    yield from table(rows, "<<")
    yield from _rest(len(instance.jobs), "jobs")


def _rest(jobs: int, what: str) -> Iterable[str]:
    if jobs > _ROWS:
        yield f"... and {jobs - _ROWS} {what}; --json or -o FILE has the whole plan"


_TABLES: Mapping[str, Callable[[Any, Mapping[str, Any]], Iterable[str]]] = MappingProxyType(
    {
        "gap_filling": _allocation,
        "matching": _matching,
        "freezing": _freezing,
        "placement": _placement,
    }
)
"""How the plan of a kind is listed that has a table of its own; any other's by the options."""


def summary(instance: Instance, answer: Mapping[str, Any], source: str = "INSTANCE") -> str:
    """Return the readable form of a stored document.

    Parameters
    ----------
    instance
        The instance.
    answer
        The document.
    source
        What the instance was read from, for the command that says more.
    """
    lines: list[str] = []
    if answer["plan"] is not None:
        lines.extend(plan_lines(answer["kind"], instance, answer["plan"]))
        lines.append("")
        if answer.get("floors") is not None:
            lines.extend(tenant_lines(instance, answer))
            lines.append("")
    lines.extend(_ending(answer))
    if answer["plan"] is None:
        lines.append(wrapped("plan", f"no plan{_why(answer['termination'], source)}"))
    return "\n".join(lines)


def _why(termination: str, source: str) -> str:
    if termination == "infeasible":
        named = "INSTANCE" if source == "-" else printable(source)
        return f"; `apportion explain {named}` names what is in conflict and the cheapest ways out"
    return ""


def _ending(answer: Mapping[str, Any]) -> Iterable[str]:
    by = answer["certificate"]["source"]
    spent = {phase: _seconds(seconds) for phase, seconds in answer["times"].items() if seconds}
    times = ", ".join(f"{phase} {seconds}".replace(" ", KEPT) for phase, seconds in spent.items())
    ended = answer["termination"]
    colour = "green" if ended == "optimal" else "red" if answer["plan"] is None else "yellow"
    facts = {
        "instance": f"{answer['kind']} {printable(answer['name'])}".rstrip(),
        "backend": f"{answer['backend']} ({answer['reason']})",
        "termination": coloured(ended, colour, sys.stdout is not None and sys.stdout.isatty()),
        "objective": _number(answer["objective"]),
        **({"goals": "; ".join(map(_goal, answer["goals"]))} if answer.get("goals") else {}),
        "bound": _number(answer["bound"]) + (f" (by {by.replace('_', ' ')})" if by else ""),
        "verified bound": _number(answer["verified_bound"]),
        "evidence": (answer.get("evidence") or "none").replace("_", " "),
        "gap": "none" if answer["gap"] is None else f"{answer['gap']:.3g}",
        "time": times,
    }
    yield from (wrapped(name, fact) for name, fact in facts.items())
    yield from (wrapped("note", printable(note)) for note in answer["notes"])


def _goal(goal: Mapping[str, Any]) -> str:
    """Return what a goal reaches, and what no plan is beyond where that is another number or unknown."""
    value, bound = goal["value"], goal["bound"]
    limit = "at most" if goal["sense"] == "maximize" else "at least"
    known = "open" if bound is None else f"{limit} {bound}"
    reached = f"{printable(goal['name'])} {value}"
    return reached if value == bound else f"{reached} ({known})"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _seconds(spent: float) -> str:
    return f"{spent * 1e3:.3g} ms" if spent < 1 else f"{spent:.3g} s"
