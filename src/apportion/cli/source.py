"""Where an instance comes from on the command line: a path or ``-``, and the options of foreign formats.

Words that shells complete and that are read from tables only then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from apportion.core.errors import InvalidInstance, did_you_mean
from apportion.core.extension_points import loaded

if TYPE_CHECKING:
    from apportion.instances import Instance

__all__ = [
    "BACKEND",
    "FORMAT",
    "FORMULATION",
    "KIND",
    "Guessing",
    "NamedIn",
    "Source",
    "bytes_of",
    "json_of",
    "takes_instance",
    "text_of",
]


class NamedIn(click.types.StringParamType):
    """A word that tables name; the command itself says what is wrong with another one.

    Parameters
    ----------
    tables
        References to them, or to functions that return them; of a table of tables the inner names count.
    more
        Further words.
    """

    def __init__(self, *tables: str, more: Iterable[str] = ()) -> None:
        self._tables, self._more = tables, tuple(more)

    def words(self) -> list[str]:
        """Return all words, each once."""
        words = list(self._more)
        for reference in self._tables:
            table = loaded(reference)
            table = table() if callable(table) else table
            inner = [value for value in table.values() if isinstance(value, Mapping)]
            words += [name for names in (inner or [table]) for name in names]
        return list(dict.fromkeys(words))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that go on as what has been typed."""
        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


class Guessing(click.Choice[str]):
    """One of a few words; of another one it says which may have been meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word, or fail with all of them and the likely one."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise click.BadParameter(
                f"{error.message}{did_you_mean(value, self.choices)}", ctx, param
            ) from None


KIND = NamedIn("apportion.instances.kinds:kinds")
BACKEND = NamedIn("apportion.solving.registry:BACKENDS", more=["auto"])
FORMULATION = NamedIn("apportion.solving.registry:FORMULATIONS")
FORMAT = NamedIn("apportion.instances.readers:FORMATS", more=["json", "yaml", "csv"])


@dataclass(frozen=True, slots=True)
class Source:
    """Where the instance of a command comes from.

    Attributes
    ----------
    path
        A file, ``-`` for standard input, or nothing.
    format, index, sense
        As they were given for a foreign file.
    """

    path: str
    format: str | None
    index: int
    sense: str | None

    def instance(self) -> Instance:
        """Read and validate the instance.

        Where a file holds several problems and none was asked for, standard error says that it is the first.
        """
        from apportion.io.read import read

        path = self.path
        found = read(bytes_of("-") if path == "-" else path, self.format, self.index, self.sense)
        context = click.get_current_context(silent=True)
        asked = context is None or context.get_parameter_source("index") is not ParameterSource.DEFAULT
        if path != "-" and not asked and found.name.endswith("[0]") and (count := self._problems()) > 1:
            from apportion.cli.settings import is_quiet

            if not is_quiet():
                said = f"{path}: the first of {count} problems; --index K takes another, from 0"
                click.echo(said, err=True)
        return found

    def named(self, error: InvalidInstance) -> InvalidInstance:
        """Return an error with the file, where it names none, and the lines of what is no list of jobs.

        What the numbers of jobs mean depends on the command: it may have added some, or left some out.
        """
        of_instance = all(problem.path.startswith("$") for problem in error.problems)
        if error.file is not None or not of_instance or self.path in ("", "-"):
            return error
        import msgspec

        from apportion.io.places import located

        raw = bytes_of(self.path)
        problems = list(error.problems)
        if not any(problem.line or problem.path.startswith("$.jobs") for problem in problems):
            with suppress(msgspec.DecodeError):  # another format than JSON
                problems = located(raw, msgspec.json.decode(raw), problems)
        return InvalidInstance(problems, self.path)

    def _problems(self) -> int:
        """Return how many problems a foreign file holds, 1 where it does not say."""
        import re

        from apportion.io.read import read

        try:
            read(self.path, self.format, 10**9, self.sense)
        except InvalidInstance as error:
            said = re.search(r"the file holds (\d+) problems", str(error))
            return int(said[1]) if said else 1
        return 1


_Command = Callable[..., int | None]
_FOREIGN: tuple[Callable[[_Command], _Command], ...] = (
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
)


def takes_instance(metavar: str, *, required: bool = True) -> Callable[[_Command], _Command]:
    """Give a command a path, ``--format``, ``--index`` and ``--sense``, which it gets as one `Source`."""

    def decorated(command: _Command) -> _Command:
        def called(
            path: str | None, format: str | None, index: int, sense: str | None, **rest: Any
        ) -> int | None:
            source = Source(path or "", format, index, sense)
            try:
                return command(source, **rest)
            except InvalidInstance as error:
                raise source.named(error) from None

        called.__doc__ = command.__doc__
        vars(called).update(vars(command))  # the parameters that it has already
        found: _Command = called
        for option in _FOREIGN:
            found = option(found)
        return click.argument("path", metavar=metavar, required=required)(found)

    return decorated


def bytes_of(path: str) -> bytes:
    """Return the content of a file, or of standard input for ``-``, unpacked, up to the size limit.

    Raises
    ------
    InvalidInstance
        If it is too large, or damaged.
    """
    from pathlib import Path

    from apportion.core.errors import InvalidInstance, Problem
    from apportion.core.files import unpacked
    from apportion.io.read import SIZE_LIMIT, read_limited

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
    from apportion.core.errors import InvalidInstance, Problem

    try:
        return bytes_of(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInstance(Problem("$", f"is no UTF-8 text: {error.reason}")) from None


def json_of(path: str, what: str) -> Any:
    """Return the JSON at a path, read as strictly as an instance; problems are prefixed with `what` it is."""
    from apportion.core.errors import InvalidInstance, Problem
    from apportion.io.text import parse

    try:
        tree, problems = parse(bytes_of(path))
    except InvalidInstance as error:
        tree, problems = None, list(error.problems)
    if problems:
        found = [Problem(f"{what} {problem.path}", problem.message) for problem in problems]
        raise InvalidInstance(found, None if path == "-" else path)
    return tree
