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
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from operator import itemgetter
from typing import Literal, NamedTuple

from apportion.core.errors import InvalidInstance, InvalidOption, Problem, did_you_mean
from apportion.core.files import csv_rows
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
    table = _table(raw)
    if "machine" in table.columns and "option" not in table.columns:
        if sense is not None:
            raise InvalidOption("sense does not apply to a table of machines: time_s, cost or value says it")
        return _matching(table, name)
    if "option" not in table.columns:
        meant = did_you_mean("option", table.columns) or did_you_mean("machine", table.columns)
        raise InvalidInstance(
            Problem(f"line {table.header_at}", f"a table of jobs has a column option, or machine{meant}")
        )
    return _menus(table, sense or "maximize", name)


class _Table(NamedTuple):
    """A table by columns.

    Attributes
    ----------
    header_at
        The line of the names of the columns.
    lines
        Those of the rows.
    columns
        Cells by name of their column, one for every row.
    """

    header_at: int
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]

    def where(self, some: Iterable[object]) -> _Table:
        """Return the same table with the rows alone for which something holds."""
        chosen = [bool(one) for one in some]
        columns = {name: list(compress(cells, chosen)) for name, cells in self.columns.items()}
        return _Table(self.header_at, list(compress(self.lines, chosen)), columns)

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield every row with its line, its cells by name of their column."""
        for at, row in zip(self.lines, zip(*self.columns.values(), strict=True), strict=True):
            yield at, dict(zip(self.columns, row, strict=True))


def _table(raw: bytes) -> _Table:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = raw.count(b"\n", 0, error.start) + 1
        raise InvalidInstance(Problem(f"line {at}", f"is no CSV table in UTF-8: {error.reason}")) from None
    first = next((line for line in io.StringIO(text) if line.strip()), "")
    mark = next((one for one in ",;\t" if one in first), ",")
    lines, columns = _bare(text, mark) or _parsed(text, mark)
    return _Table(lines[0], lines[1:], {cells[0]: cells[1:] for cells in columns})


_Columns = tuple[Sequence[int], Sequence[Sequence[str]]]
"""The lines of the header and of all rows, and the cells of every column, its name first."""


def _bare(text: str, mark: str) -> _Columns | None:
    """Return the columns of a table as nearly all programs write it, by two splits; ``None`` for any other.

    No cell is quoted or has blanks around it, no row is empty, and all have as many cells.
    """
    body = text.replace("\r\n", "\n").removesuffix("\n")
    rows = body.split("\n")
    marks = rows[0].count(mark)
    if (
        '"' in text
        or "\n".join(text.split()) != body
        or {*map(str.count, rows, repeat(mark))} != {marks}
        or mark * marks in rows
    ):
        return None
    _check_names(1, rows[0].split(mark))
    cells = mark.join(rows).split(mark)
    return range(1, len(rows) + 1), [cells[k :: marks + 1] for k in range(marks + 1)]


def _parsed(text: str, mark: str) -> _Columns:
    """Return the columns of any table; rows without any cell are left out."""
    lines, rows = zip(*csv_rows(text, delimiter=mark), strict=True)
    _check_names(lines[0], rows[0])
    return lines, list(zip(*rows, strict=True))


def _check_names(at: int, header: Sequence[str]) -> None:
    """Refuse names of columns that are none, stand twice, or are without a job."""
    twice = [column for column in header if header.count(column) > 1]
    if twice or "" in header:
        what = f"column {twice[0]!r} stands twice" if twice and twice[0] else "a column has no name"
        raise InvalidInstance(Problem(f"line {at}", what))
    _demand("job", at, header)


def _demand(column: str, at: int, header: Sequence[str]) -> None:
    """Refuse a header without a column, and say which one may be meant."""
    if column not in header:
        meant = did_you_mean(column, header)
        raise InvalidInstance(Problem(f"line {at}", f"column {column} is missing{meant}"))


def _menus(
    table: _Table, sense: Literal["maximize", "minimize"], name: str
) -> MultipleChoiceKnapsackInstance:
    _demand("value", table.header_at, [*table.columns])
    cells = _Cells()
    rooms = [*table.where(not job for job in table.columns["job"]).rows()]
    capacities, pools = _capacities(table.header_at, [*table.columns], rooms, cells)
    ats, columns = (mine := table.where(table.columns["job"])).lines, mine.columns
    uses = cells.amounts(ats, {pool: columns[pool] for pool in pools})
    values = cells.numbers(ats, "value", columns["value"])
    jobs: dict[str, list[KnapsackOption]] = {}
    for job, option in zip(columns["job"], map(KnapsackOption, columns["option"], values, uses), strict=True):
        jobs.setdefault(job, []).append(option)
    required: dict[str, bool] = {}
    for at, job, text in zip(ats, columns["job"], columns.get("required", ()), strict=False):
        if text and required.setdefault(job, yes := cells.yes(at, "required", text)) is not yes:
            cells.note(at, f"job {job!r} is required on one line and not on another", "required")
    lines_of = zip(ats, columns["job"], columns["option"], columns.get("current", ()), strict=False)
    current = {job: option for at, job, option, text in lines_of if cells.yes(at, "current", text)}
    cells.refuse()

    def places() -> dict[str, int]:
        found = {"$.capacities": rooms[0][0] if rooms else table.header_at}
        index, options = {called: index for index, called in enumerate(jobs)}, Counter[str]()
        for at, job in zip(ats, columns["job"], strict=True):
            path = f"$.jobs[{index[job]}]"
            found.setdefault(path, at)
            found[f"{path}.options[{options[path]}]"] = at
            options[path] += 1
        return found

    with _with_lines(places, table.header_at):
        return MultipleChoiceKnapsackInstance(
            schema_version="1",
            sense=sense,
            capacities=capacities,
            jobs=tuple(
                KnapsackJob(job, tuple(options), required.get(job, True), current.get(job))
                for job, options in jobs.items()
            ),
            name=name,
        )


def _capacities(
    header_at: int, header: Sequence[str], rows: Sequence[tuple[int, Mapping[str, str]]], cells: _Cells
) -> tuple[dict[str, int], list[str]]:
    """Return how much there is by capacity, of lines without a job, and the columns that are capacities."""
    pools = [column for column in header if column not in _MENU]
    for at, _ in rows[1:]:
        cells.note(at, "the capacities stand on one line without a job")
    if not rows:
        if pools:
            said = f"no line without a job says how much there is of each capacity ({', '.join(pools)})"
            cells.note(header_at, said)
        return {}, pools
    at, line = rows[0]
    for pool in [pool for pool in pools if not line[pool]]:
        meant = did_you_mean(pool, [column for column in _MENU if column not in header])
        said = f"is empty: a column that is none of {', '.join(_MENU)} is a capacity with an amount here"
        cells.note(at, f"{said}{meant}", pool)
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


def _matching(table: _Table, name: str) -> MatchingInstance:
    header_at, header = table.header_at, [*table.columns]
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
    for at, line in table.rows():
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
            cells.note(at, f"job {line['job']!r} is on {machine!r} a second time")
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
_DIGITS = 20
"""A whole number has fewer."""


class _Cells:
    """Cells as numbers; what is none is noted with its line and column."""

    def __init__(self) -> None:
        self._problems: list[tuple[int, Problem]] = []

    def note(self, line: int, said: str, column: str = "") -> None:
        """Note what is wrong with a line, or with its cell in a column."""
        self._problems.append((line, Problem(f"line {line}, {column}" if column else f"line {line}", said)))

    def numbers(self, lines: Sequence[int], column: str, texts: Sequence[str]) -> list[float]:
        """Return the numbers of a column, one for every line."""
        try:
            if "_" not in "".join(texts):
                return list(map(float, texts))
        except ValueError:
            pass
        return [self.number(line, column, text) for line, text in zip(lines, texts, strict=True)]

    def amounts(self, lines: Sequence[int], columns: Mapping[str, Sequence[str]]) -> Iterable[dict[str, int]]:
        """Return the whole numbers in some columns by their names, for every line; without what is blank."""
        if not columns:
            return ({} for _ in lines)
        found = [self._integers(lines, column, texts) for column, texts in columns.items()]
        if any(None in own for own in found):
            return (
                {name: amount for name, amount in zip(columns, row, strict=True) if amount is not None}
                for row in zip(*found, strict=True)
            )
        return (dict(zip(columns, row, strict=True)) for row in zip(*found, strict=True))

    def _integers(self, lines: Sequence[int], column: str, texts: Sequence[str]) -> list[int | None]:
        """Return the whole numbers of a column, ``None`` where it is blank."""
        if all(map(str.isdecimal, texts)) and max(map(len, texts), default=0) < _DIGITS:
            return list(map(int, texts))
        return [
            self.integer(line, column, text) if text else None
            for line, text in zip(lines, texts, strict=True)
        ]

    def number(self, line: int, column: str, text: str) -> float:
        """Return a number; noted where it is none."""
        try:
            return float(text.replace("_", "?"))
        except ValueError:
            point = text.replace(",", ".")
            meant = f"; write {point}" if re.fullmatch(r"[+-]?\d+\.\d+", point) else ""
            said = f"must be a number, not {text!r}{meant}"
            self.note(line, said, column)
            return 0.0

    def integer(self, line: int, column: str, text: str) -> int:
        """Return a whole number, also of ``2.0``, which is what pandas makes of 2; noted where it is none."""
        if text.isdecimal() and len(text) < _DIGITS:
            return int(text)
        if _WHOLE.fullmatch(text):
            return int(text.partition(".")[0])
        self.note(line, f"must be a whole number, not {text!r}", column)
        return 0

    def yes(self, line: int, column: str, text: str) -> bool:
        """Return whether a cell says yes; noted where it says neither."""
        if text.lower() in _YES:
            return _YES[text.lower()]
        self.note(line, f"must be yes or no, not {text!r}", column)
        return False

    def refuse(self) -> None:
        """Raise `InvalidInstance` if anything was noted, line by line."""
        if self._problems:
            raise InvalidInstance([problem for _, problem in sorted(self._problems, key=itemgetter(0))])
