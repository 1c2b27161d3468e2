"""Instances as a table, one line per job and option, or per job and machine.

Menus (`MultipleChoiceKnapsackInstance`), where the header has ``option``::

    job,option,value,v100,cpu
    ,,,8,64
    lm,2xv100,3.1,2,16

The line without a job says how much there is of each capacity; every other column but ``job``, ``option``,
``value``, ``required`` and ``current`` is a capacity. ``required`` is no in the lines of a job that may be
left out: jobs are required where nothing is said, as in every other form of an instance. ``current`` is yes
on the option that the job has now.

Matchings (`MatchingInstance`), where it has ``machine`` and ``time_s``, ``cost`` or ``value``::

    job,machine,time_s,gpus
    lm,v100,3600,1
    ,v100,,

Lines without a job name the machines; ``count`` and ``capacity`` are theirs, ``uses`` and ``gpus`` the jobs'.
Without such a line a machine stands once.

Cells are separated by commas; by semicolons, or tabs, where the header has these and no comma. Decimals have
a point.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from apportion.core.errors import InvalidInstance, InvalidOption, Problem, did_you_mean
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.readers.numbers import select_problem

__all__ = ["read"]

_MENU = ("job", "option", "value", "required", "current")
_MATCHING = ("job", "machine", "time_s", "cost", "value", "uses", "gpus", "count", "capacity")
_OBJECTIVES: Mapping[str, Literal["makespan", "cost", "value"]] = {
    "time_s": "makespan",
    "cost": "cost",
    "value": "value",
}
_YES: Mapping[str, bool] = {"": False, "yes": True, "true": True, "1": True, "no": False, "false": False}


def read(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MultipleChoiceKnapsackInstance | MatchingInstance:
    """Read the one instance of a table.

    Raises
    ------
    InvalidInstance
        If a line is malformed, with its number, or the instance breaks a rule of its kind.
    InvalidOption
        If a sense is given for a matching, whose column says it.
    """
    select_problem(index, 1)
    lines = _lines(raw)
    at, header = lines[0]
    if "machine" in header and "option" not in header:
        if sense is not None:
            raise InvalidOption("sense does not apply to a table of machines: time_s, cost or value says it")
        return _matching(at, header, lines[1:], name)
    if "option" not in header:
        meant = did_you_mean("option", header) or did_you_mean("machine", header)
        raise InvalidInstance(
            Problem(f"line {at}", f"a table of jobs has a column option, or machine{meant}")
        )
    return _menus(at, header, lines[1:], sense or "maximize", name)


_Lines = Sequence[tuple[int, Sequence[str]]]


def _lines(raw: bytes) -> _Lines:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = raw.count(b"\n", 0, error.start) + 1
        raise InvalidInstance(Problem(f"line {at}", f"is no CSV table in UTF-8: {error.reason}")) from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    lines = []
    try:
        for row in reader:
            if any(row):
                lines.append((reader.line_num, list(map(str.strip, row))))
    except csv.Error as error:
        raise InvalidInstance(Problem(f"line {reader.line_num}", f"is no CSV table: {error}")) from None
    if not lines:
        raise InvalidInstance(Problem("line 1", "is empty; a table begins with the names of its columns"))
    header = lines[0][1]
    twice = [column for column in header if header.count(column) > 1]
    if twice or "" in header:
        what = f"column {twice[0]!r} stands twice" if twice and twice[0] else "a column has no name"
        raise InvalidInstance(Problem(f"line {lines[0][0]}", what))
    _demand("job", lines[0][0], header)
    problems = [
        Problem(f"line {at}", f"has {len(row)} cells, the header {len(header)}")
        for at, row in lines
        if len(row) != len(header)
    ]
    if problems:
        raise InvalidInstance(problems)
    return lines


def _delimiter(text: str) -> str:
    """Return what separates the cells of a table, by its first line."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return next((mark for mark in ",;\t" if mark in first), ",")


def _demand(column: str, at: int, header: Sequence[str]) -> None:
    """Refuse a header without a column, and say which one may be meant."""
    if column not in header:
        meant = did_you_mean(column, header)
        raise InvalidInstance(Problem(f"line {at}", f"column {column} is missing{meant}"))


def _menus(
    header_at: int,
    header: Sequence[str],
    lines: _Lines,
    sense: Literal["maximize", "minimize"],
    name: str,
) -> MultipleChoiceKnapsackInstance:
    _demand("value", header_at, header)
    cells = _Cells()
    name_at, option_at, value_at = (header.index(column) for column in ("job", "option", "value"))
    rooms = [(at, dict(zip(header, row, strict=True))) for at, row in lines if not row[name_at]]
    capacities, pools = _capacities(header_at, header, rooms, cells)
    used = [(pool, header.index(pool)) for pool in pools]
    required_at, current_at = (
        header.index(column) if column in header else None for column in ("required", "current")
    )
    jobs: dict[str, _MenuLines] = {}
    for at, row in lines:
        if not (called := row[name_at]):
            continue
        uses = {pool: cells.integer(at, pool, row[k]) for pool, k in used if row[k]}
        if (job := jobs.get(called)) is None:
            job = jobs[called] = _MenuLines([], [])
        job.options.append(KnapsackOption(row[option_at], cells.number(at, "value", row[value_at]), uses))
        job.lines.append(at)
        if required_at is not None and row[required_at]:
            required = cells.yes(at, "required", row[required_at])
            if job.required not in (None, required):
                said = f"job {called!r} is required on one line and not on another"
                cells.problems.append(Problem(f"line {at}, required", said))
            job.required = required
        if current_at is not None and cells.yes(at, "current", row[current_at]):
            job.current = row[option_at]
    cells.refuse()

    def places() -> dict[str, int]:
        found = {"$.capacities": rooms[0][0] if rooms else header_at}
        for index, job in enumerate(jobs.values()):
            found[f"$.jobs[{index}]"] = job.lines[0]
            found |= {f"$.jobs[{index}].options[{option}]": at for option, at in enumerate(job.lines)}
        return found

    with _with_lines(places, header_at):
        return MultipleChoiceKnapsackInstance(
            schema_version="1",
            sense=sense,
            capacities=capacities,
            jobs=tuple(
                KnapsackJob(job, tuple(given.options), given.required is not False, given.current)
                for job, given in jobs.items()
            ),
            name=name,
        )


def _capacities(
    header_at: int, header: Sequence[str], rows: Sequence[tuple[int, Mapping[str, str]]], cells: _Cells
) -> tuple[dict[str, int], list[str]]:
    """Return how much there is by capacity, of lines without a job, and the columns that are capacities."""
    pools = [column for column in header if column not in _MENU]
    for at, _ in rows[1:]:
        cells.problems.append(Problem(f"line {at}", "the capacities stand on one line without a job"))
    if not rows:
        if pools:
            said = f"no line without a job says how much there is of each capacity ({', '.join(pools)})"
            cells.problems.append(Problem(f"line {header_at}", said))
        return {}, pools
    at, line = rows[0]
    for pool in [pool for pool in pools if not line[pool]]:
        meant = did_you_mean(pool, [column for column in _MENU if column not in header])
        said = f"is empty: a column that is none of {', '.join(_MENU)} is a capacity with an amount here"
        cells.problems.append(Problem(f"line {at}, {pool}", f"{said}{meant}"))
        pools.remove(pool)
    return {pool: cells.integer(at, pool, line[pool]) for pool in pools}, pools


@contextlib.contextmanager
def _with_lines(places_of: Callable[[], Mapping[str, int]], otherwise: int) -> Iterator[None]:
    """Say of every problem of an instance on which line of the table it stands.

    Parameters
    ----------
    places_of
        Returns lines by JSON path of what was read from them; asked where there is a problem.
    otherwise
        The line of everything else.
    """
    try:
        yield
    except InvalidInstance as error:
        found, places = [], places_of()
        for problem in error.problems:
            path = problem.path
            while path not in places and path.count("."):
                path = path[: max(path.rfind("."), path.rfind("["))]
            at = places.get(path, otherwise)
            found.append(Problem(f"line {at}, {problem.path}", problem.message))
        raise InvalidInstance(found) from None


def _matching(header_at: int, header: Sequence[str], lines: _Lines, name: str) -> MatchingInstance:
    given = [column for column in _OBJECTIVES if column in header]
    unknown = [column for column in header if column not in _MATCHING]
    if len(given) != 1:
        meant = next(filter(None, (did_you_mean(column, _OBJECTIVES) for column in unknown)), "")
        said = f"a table of machines has one of the columns time_s, cost, value{'' if given else meant}"
        raise InvalidInstance(Problem(f"line {header_at}", said))
    if unknown:
        meant = did_you_mean(unknown[0], _MATCHING)
        said = f"{unknown[0]!r} is no column of such a table{meant}"
        raise InvalidInstance(Problem(f"line {header_at}", said))
    cells = _Cells()
    machines: dict[str, MatchingMachine] = {}
    jobs: dict[str, dict[str, MatchingEntry]] = {}
    places: dict[str, int] = {}
    indices: dict[str, int] = {}
    for at, row in lines:
        line = dict(zip(header, row, strict=True))
        machine = line["machine"]
        if not line["job"]:
            places[f"$.machines[{len(machines)}]"] = at
            room = line.get("capacity", "")
            machines[machine] = MatchingMachine(
                machine,
                cells.integer(at, "count", line.get("count") or "1"),
                cells.integer(at, "capacity", room) if room else None,
            )
            continue
        entry = MatchingEntry(
            uses=cells.integer(at, "uses", line.get("uses") or "1"),
            gpus=cells.integer(at, "gpus", line.get("gpus") or "1"),
            **{given[0]: cells.number(at, given[0], line[given[0]])},
        )
        on = jobs.setdefault(line["job"], {})
        index = indices.setdefault(line["job"], len(indices))
        places.setdefault(f"$.jobs[{index}]", at)
        places[f"$.jobs[{index}].on.{machine}"] = at
        if machine in on:
            cells.problems.append(
                Problem(f"line {at}", f"job {line['job']!r} is on {machine!r} a second time")
            )
        on[machine] = entry
    cells.refuse()
    for machine in dict.fromkeys(machine for on in jobs.values() for machine in on):
        machines.setdefault(machine, MatchingMachine(machine))
    with _with_lines(lambda: places, header_at):
        return MatchingInstance(
            schema_version="1",
            objective=_OBJECTIVES[given[0]],
            machines=tuple(machines.values()),
            jobs=tuple(MatchingJob(job, on) for job, on in jobs.items()),
            name=name,
        )


_WHOLE = re.compile(r"[+-]?\d{1,19}(\.0{1,19})?")


@dataclass(slots=True)
class _MenuLines:
    """What the lines of one job say."""

    options: list[KnapsackOption]
    lines: list[int]
    required: bool | None = None
    current: str | None = None


class _Cells:
    """Cells as numbers; what is none is noted with its line and column."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def number(self, line: int, column: str, text: str) -> float:
        """Return a number; noted where it is none."""
        try:
            return float(text.replace("_", "?"))
        except ValueError:
            point = text.replace(",", ".")
            meant = f"; write {point}" if re.fullmatch(r"[+-]?\d+\.\d+", point) else ""
            said = f"must be a number, not {text!r}{meant}"
            self.problems.append(Problem(f"line {line}, {column}", said))
            return 0.0

    def integer(self, line: int, column: str, text: str) -> int:
        """Return a whole number, also of ``2.0``, which is what pandas makes of 2; noted where it is none."""
        if text.isdecimal() and len(text) < 20:
            return int(text)
        if _WHOLE.fullmatch(text):
            return int(text.partition(".")[0])
        self.problems.append(Problem(f"line {line}, {column}", f"must be a whole number, not {text!r}"))
        return 0

    def yes(self, line: int, column: str, text: str) -> bool:
        """Return whether a cell says yes; noted where it says neither."""
        if text.lower() in _YES:
            return _YES[text.lower()]
        self.problems.append(Problem(f"line {line}, {column}", f"must be yes or no, not {text!r}"))
        return False

    def refuse(self) -> None:
        """Raise `InvalidInstance` if anything was noted."""
        if self.problems:
            raise InvalidInstance(self.problems)
