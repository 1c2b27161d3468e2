"""Where an instance comes from on the command line: a path or ``-``, and the options of foreign formats."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from apportion.cli.completing import FORMAT

if TYPE_CHECKING:
    from apportion.instances import Instance

__all__ = ["bytes_of", "foreign_options", "instance_of", "json_of", "text_of"]

_F = TypeVar("_F", bound=Callable[..., Any])


def foreign_options(command: _F) -> _F:
    """Add ``--format``, ``--index`` and ``--sense`` to a command."""
    for option in (
        click.option(
            "--sense", type=click.Choice(["max", "min"]), help="Sense of a foreign file that does not say."
        ),
        click.option(
            "--index",
            type=click.IntRange(min=0),
            default=0,
            metavar="K",
            help="Which problem of a foreign file, from 0.",
        ),
        click.option(
            "--format",
            type=FORMAT,
            metavar="F",
            help="json, yaml, csv or a foreign format (mmkp, ...); by default judged by name and content.",
        ),
    ):
        command = option(command)
    return command


def bytes_of(path: str) -> bytes:
    """Return the content of a file, or of standard input for ``-``, unpacked, up to the size limit.

    Raises
    ------
    InvalidInstance
        If it is too large, or damaged.
    """
    from pathlib import Path

    from apportion.errors import InvalidInstance, Problem
    from apportion.files import unpacked
    from apportion.reading.read import SIZE_LIMIT, read_limited

    if path == "-":
        if sys.stdin is None:
            raise FileNotFoundError(None, "standard input is closed")
        raw = read_limited(sys.stdin.buffer)
    else:
        with Path(path).open("rb") as file:
            raw = read_limited(file)
    try:
        return unpacked(raw, SIZE_LIMIT)
    except ValueError as error:
        raise InvalidInstance(Problem("$", str(error)), None if path == "-" else path) from None


def text_of(path: str) -> str:
    """Return the text of a file, or of standard input for ``-``, up to the size limit.

    Raises
    ------
    InvalidInstance
        If it is no UTF-8.
    """
    from apportion.errors import InvalidInstance, Problem

    try:
        return bytes_of(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInstance(Problem("$", f"is no UTF-8 text: {error.reason}")) from None


def json_of(path: str, what: str) -> Any:
    """Return the JSON at a path, read as strictly as an instance; problems are prefixed with `what` it is."""
    from apportion.errors import InvalidInstance, Problem
    from apportion.reading.json_text import parse

    try:
        tree, problems = parse(bytes_of(path))
    except InvalidInstance as error:
        tree, problems = None, list(error.problems)
    if problems:
        found = [Problem(f"{what} {problem.path}", problem.message) for problem in problems]
        raise InvalidInstance(found, None if path == "-" else path)
    return tree


def instance_of(path: str, format: str | None = None, index: int = 0, sense: str | None = None) -> Instance:
    """Read and validate the instance at a path, or on standard input for ``-``."""
    from apportion.reading.read import read

    return read(bytes_of("-") if path == "-" else path, format, index, sense)
