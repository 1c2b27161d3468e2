"""Instances as a table, one line per job and option, or per job and machine.

Menus (`MultipleChoiceKnapsackInstance`), where the header has ``option``::

    job,option,value,v100,cpu
    ,,,8,64
    lm,2xv100,3.1,2,16

The line without a job says how much there is of each capacity; every other column but ``job``, ``option``,
``value``, ``required`` and ``current`` is a capacity. ``current`` is yes on the option that the job has now.

Matchings (`MatchingInstance`), where it has ``machine`` and ``time_s``, ``cost`` or ``value``::

    job,machine,time_s,gpus
    lm,v100,3600,1
    ,v100,,

Lines without a job name the machines; ``count`` and ``capacity`` are theirs, ``uses`` and ``gpus`` the jobs'.
Without such a line a machine stands once.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from apportion.choices import did_you_mean
from apportion.errors import InvalidInstance, InvalidOption, Problem
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
    header = lines[0][1]
    if "machine" in header and "option" not in header:
        if sense is not None:
            raise InvalidOption("sense does not apply to a table of machines: time_s, cost or value says it")
        return _matching(header, lines[1:], name)
    if "option" not in header:
        raise InvalidInstance(Problem("line 1", "a table of jobs has a column option, or machine"))
    return _menus(header, lines[1:], sense or "maximize", name)


_Lines = Sequence[tuple[int, Sequence[str]]]


def _lines(raw: bytes) -> _Lines:
    try:
        text = raw.decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInstance(Problem("$", f"is no CSV table in UTF-8: {error}")) from None
    if not lines:
        raise InvalidInstance(Problem("$", "is empty; a table begins with the names of its columns"))
    header = lines[0][1]
    twice = [column for column in header if header.count(column) > 1]
    if twice or "" in header:
        what = f"column {twice[0]!r} stands twice" if twice and twice[0] else "a column has no name"
        raise InvalidInstance(Problem(f"line {lines[0][0]}", what))
    if "job" not in header:
        raise InvalidInstance(
            Problem(f"line {lines[0][0]}", f"a column job is missing{did_you_mean('job', header)}")
        )
    problems = [
        Problem(f"line {at}", f"has {len(row)} cells, the header {len(header)}")
        for at, row in lines
        if len(row) != len(header)
    ]
    if problems:
        raise InvalidInstance(problems)
    return lines


def _menus(
    header: Sequence[str], lines: _Lines, sense: Literal["maximize", "minimize"], name: str
) -> MultipleChoiceKnapsackInstance:
    pools = [column for column in header if column not in _MENU]
    cells = _Cells()
    capacities: dict[str, int] | None = None
    jobs: dict[str, dict[str, Any]] = {}
    for at, row in lines:
        line = dict(zip(header, row, strict=True))
        if not line["job"]:
            if capacities is not None:
                cells.problems.append(Problem(f"line {at}", "the capacities stand on one line without a job"))
            capacities = {pool: cells.whole(at, pool, line[pool]) for pool in pools}
            continue
        uses = {pool: cells.whole(at, pool, line[pool]) for pool in pools if line[pool]}
        job = jobs.setdefault(line["job"], {"options": [], "required": False, "current": None})
        job["options"].append(
            KnapsackOption(line["option"], cells.number(at, "value", line.get("value", "")), uses)
        )
        job["required"] = job["required"] or cells.yes(at, "required", line.get("required", "no"))
        if cells.yes(at, "current", line.get("current", "")):
            job["current"] = line["option"]
    if capacities is None and pools:
        cells.problems.append(Problem("$", "no line without a job says how much there is of each capacity"))
    cells.refuse()
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense=sense,
        capacities=capacities or {},
        jobs=tuple(
            KnapsackJob(job, tuple(given["options"]), given["required"], given["current"])
            for job, given in jobs.items()
        ),
        name=name,
    )


def _matching(header: Sequence[str], lines: _Lines, name: str) -> MatchingInstance:
    given = [column for column in _OBJECTIVES if column in header]
    unknown = [column for column in header if column not in _MATCHING]
    if len(given) != 1:
        raise InvalidInstance(
            Problem("line 1", "a table of machines has one of the columns time_s, cost, value")
        )
    if unknown:
        meant = did_you_mean(unknown[0], _MATCHING)
        raise InvalidInstance(Problem("line 1", f"{unknown[0]!r} is no column of such a table{meant}"))
    cells = _Cells()
    machines: dict[str, MatchingMachine] = {}
    jobs: dict[str, dict[str, MatchingEntry]] = {}
    for at, row in lines:
        line = dict(zip(header, row, strict=True))
        machine = line["machine"]
        if not line["job"]:
            room = line.get("capacity", "")
            machines[machine] = MatchingMachine(
                machine,
                cells.whole(at, "count", line.get("count") or "1"),
                cells.whole(at, "capacity", room) if room else None,
            )
            continue
        entry = MatchingEntry(
            uses=cells.whole(at, "uses", line.get("uses") or "1"),
            gpus=cells.whole(at, "gpus", line.get("gpus") or "1"),
            **{given[0]: cells.number(at, given[0], line[given[0]])},
        )
        on = jobs.setdefault(line["job"], {})
        if machine in on:
            cells.problems.append(
                Problem(f"line {at}", f"job {line['job']!r} is on {machine!r} a second time")
            )
        on[machine] = entry
    cells.refuse()
    for machine in dict.fromkeys(machine for on in jobs.values() for machine in on):
        machines.setdefault(machine, MatchingMachine(machine))
    return MatchingInstance(
        schema_version="1",
        objective=_OBJECTIVES[given[0]],
        machines=tuple(machines.values()),
        jobs=tuple(MatchingJob(job, on) for job, on in jobs.items()),
        name=name,
    )


class _Cells:
    """Cells as numbers; what is none is noted with its line and column."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def number(self, line: int, column: str, text: str) -> float:
        """Return a number; noted where it is none."""
        try:
            return float(text.replace("_", "?"))
        except ValueError:
            self.problems.append(Problem(f"line {line}, {column}", f"must be a number, not {text!r}"))
            return 0.0

    def whole(self, line: int, column: str, text: str) -> int:
        """Return a whole number; noted where it is none."""
        if re.fullmatch(r"[+-]?\d{1,19}", text):
            return int(text)
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
