"""Options that choose decisions on record, shared by the commands of ``apportion history``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from apportion.record import Entry, History

__all__ = ["chosen", "entries_of", "from_to", "moment_of", "one", "opened", "where"]

_F = TypeVar("_F", bound=Callable[..., Any])


def where(command: _F) -> _F:
    """Add ``--record`` and ``--session`` to a command."""
    command = click.option("--session", metavar="NAME", help="Of one session only.")(command)
    return click.option(
        "--record", "folder", metavar="DIR", help="Folder of the record; default: the user's own."
    )(command)


def from_to(command: _F) -> _F:
    """Add ``--since``, ``--until`` and ``--last`` to a command, and what `where` adds."""
    for option in (
        click.option("--last", type=click.IntRange(min=1), metavar="N", help="The newest N only."),
        click.option("--until", metavar="WHEN", help="Made before then."),
        click.option(
            "--since", metavar="WHEN", help="Made since then: 14:05, 2026-11-22T14:05, 2h (ago), yesterday."
        ),
    ):
        command = option(command)
    return where(command)


def one(command: _F) -> _F:
    """Add ``[ID]`` and ``--at`` to a command, and what `where` adds."""
    command = click.option("--at", metavar="WHEN", help="The decision in force then, instead of ID.")(command)
    return where(click.argument("number", metavar="[ID]", type=int, required=False)(command))


def opened(folder: str | None) -> History:
    """Open the record of a folder to be read."""
    from apportion.record import History, record_file

    return History(record_file(folder))


def moment_of(text: str | None) -> float | None:
    """Return a moment as seconds since 1970, ``None`` for none."""
    from datetime import datetime

    from apportion.record.moments import moment

    return None if text is None else moment(text, datetime.now().astimezone())


def chosen(history: History, number: int | None, at: str | None, session: str | None) -> Entry:
    """Return the decision that ``ID`` or ``--at`` names, the newest one without either."""
    if number is not None and at is not None:
        raise click.UsageError("name a decision by ID or by --at, not by both")
    if number is not None:
        return history.entry(number)
    moment_s = moment_of("now" if at is None else at)
    assert moment_s is not None
    return history.at(moment_s, session)


def entries_of(
    history: History, session: str | None, since: str | None, until: str | None, last: int | None
) -> list[Entry]:
    """Return the decisions that the options of `from_to` choose."""
    return history.entries(session=session, since_s=moment_of(since), until_s=moment_of(until), last=last)
