"""Where in a text the problems of an instance stand: line and column of every JSON path, and the job's id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.draft import edits_of
from apportion.instances.fields import plain_value
from apportion.instances.kinds import Instance

__all__ = ["located", "part", "placed_at", "without_places"]


_P = TypeVar("_P")


def part(instance: Instance, wanted: type[_P], value: Any, path: str) -> _P:
    """Return a part of an instance in its type; what is one already comes back as it is.

    Parameters
    ----------
    instance
        The instance that it is to be a part of.
    wanted
        The type: of its jobs, of its pools of machines, or its own.
    value
        The part as decoded from JSON; numpy numbers, arrays and sequences stand where numbers and lists do.
    path
        Where it stands, for the paths of problems.

    Raises
    ------
    InvalidInstance
        If it is not of that type, with every problem found.
    """
    if isinstance(value, wanted):
        return value
    tree = plain_value(value)
    try:
        return msgspec.convert(tree, wanted)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInstance(_problems(instance, wanted, tree, path, error)) from None


def _problems(instance: Instance, wanted: type[Any], tree: Any, path: str, error: Exception) -> list[Problem]:
    from apportion.io.diagnosis import problems_of_part

    edits = edits_of(instance)

    def rules(where: str, built: Any, problems: list[Problem]) -> None:
        if wanted is edits.job_type and edits.rules is not None:
            edits.rules.check(where, built, instance, problems)

    try:
        bare = msgspec.to_builtins(tree, str_keys=True)
        found = problems_of_part(wanted, bare, path, rules)
    except (TypeError, ValueError, RecursionError):
        found = []
    if found:
        return found
    return [Problem.of_decoding(error, path)]


_LARGEST = 2**24
"""Bytes up to which a text is walked for places."""
_TOKEN = re.compile(r'[ \t\n\r]*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+))')
_JOB = re.compile(r"\$\.jobs\[(\d+)\]")
_LAST = re.compile(r"(\[\d+\]|\.[^.\[]*)$")


def located(raw: bytes, tree: Any, problems: Iterable[Problem]) -> list[Problem]:
    """Return problems with line, column and job, in the order of the text.

    What is missing stands where the object begins that lacks it.

    Parameters
    ----------
    raw
        Valid JSON.
    tree
        The same, decoded.
    problems
        Problems with JSON paths.
    """
    found = list(problems)
    if len(raw) > _LARGEST:
        return found
    text = raw.decode("utf-8-sig", "replace")
    wanted = {path for problem in found for path in _with_parents(problem.path)}
    at = _offsets(text, wanted)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    placed = []
    for problem in found:
        offset = next((at[path] for path in _with_parents(problem.path) if path in at), 0)
        line = _line(starts, offset)
        column = offset - starts[line - 1] + 1
        placed.append((offset, replace(problem, line=line, column=column, job=_job(tree, problem.path))))
    return [problem for _, problem in sorted(placed, key=lambda item: item[0])]


def placed_at(problems: Iterable[Problem], places: Mapping[str, tuple[int, int]]) -> list[Problem]:
    """Return problems with the lines and columns of a text, in its order.

    Parameters
    ----------
    problems
        Problems with JSON paths.
    places
        Line and column by JSON path; what is missing stands where the object begins that lacks it.
    """
    placed = []
    for problem in problems:
        line, column = next((places[path] for path in _with_parents(problem.path) if path in places), (1, 1))
        placed.append(replace(problem, line=line, column=column))
    return sorted(placed, key=lambda problem: (problem.line, problem.column))


def without_places(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems of a text that the caller has never seen."""
    return [replace(problem, line=None, column=None) for problem in problems]


def _with_parents(path: str) -> Iterable[str]:
    while path:
        yield path
        shorter = _LAST.sub("", path)
        if shorter == path:
            return
        path = shorter


def _line(starts: list[int], offset: int) -> int:
    from bisect import bisect_right

    return bisect_right(starts, offset)


def _job(tree: Any, path: str) -> str | None:
    match = _JOB.match(path)
    jobs = tree.get("jobs") if isinstance(tree, dict) else None
    if match is None or not isinstance(jobs, list) or int(match[1]) >= len(jobs):
        return None
    job = jobs[int(match[1])]
    name = job.get("id") if isinstance(job, dict) else None
    return name if isinstance(name, str) else None


def _offsets(text: str, wanted: set[str]) -> dict[str, int]:
    """Return where every wanted path begins: a member at its key, the last one where a key is repeated."""
    import json

    at: dict[str, int] = {}
    stack: list[tuple[str, int | None]] = []  # path of the container; the index of an array's next element
    path, key_next = "$", False
    for match in _TOKEN.finditer(text):
        begin = match.start(match.lastindex or 0)
        word, mark = match[1], match[2]
        if key_next and word is not None:
            path = f"{stack[-1][0]}.{json.loads(word)}"
            if path in wanted:
                at[path] = begin
            key_next = False
        elif mark in ("}", "]"):
            stack.pop()
            key_next = False
        elif mark == ",":
            holder, index = stack[-1]
            if index is None:
                key_next = True
            else:
                stack[-1] = (holder, index + 1)
                path = f"{holder}[{index + 1}]"
        elif mark != ":":
            if path in wanted:
                at.setdefault(path, begin)
            if mark == "{":
                stack.append((path, None))
                key_next = True
            elif mark == "[":
                stack.append((path, 0))
                path = f"{path}[0]"
    return at
