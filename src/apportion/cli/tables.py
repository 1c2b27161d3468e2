"""Tables for a terminal: as wide as the terminal, no wider; long words keep their first and last letters."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["KEPT", "Cell", "clipped", "coloured", "plain", "table", "terminal_width", "wrapped"]

KEPT = "\u00a0"
"""A space at which `wrapped` begins no new line."""

Cell = str | Sequence[str]
"""A word, or names of which as many are listed as fit."""

_NARROWEST = 10
"""Columns of words are never made narrower than this."""


def terminal_width() -> int:
    """Return the columns of the terminal, or of ``COLUMNS``; 80 where there is neither."""
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def plain(text: str) -> str:
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


def listed(names: Sequence[str], width: int) -> str:
    """Return as many names as fit a width, and how many more there are.

    Examples
    --------
    >>> listed(["node1", "node2", "node3", "node4"], 20)
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
    cells = [[plain(cell) if isinstance(cell, str) else [*map(plain, cell)] for cell in row] for row in rows]
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
        line = zip(row, alignment, widths, strict=True)
        yield "  ".join(f"{_fitted(cell, size):{side}{size}}" for cell, side, size in line).rstrip()


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
    return clipped(cell, width) if isinstance(cell, str) else listed(cell, width)


def coloured(text: str, colour: str, wanted: bool) -> str:
    """Return a text in a colour of the terminal, unless none is wanted or ``NO_COLOR`` is set."""
    if not wanted or os.environ.get("NO_COLOR"):
        return text
    import click

    return click.style(text, fg=colour)
