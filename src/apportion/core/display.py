"""What a person prints, writes or takes into a table: the same few methods wherever there are results."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from os import PathLike
from typing import Any

__all__ = ["MOST_ROWS", "Displayable", "Drawing", "Figures", "amount", "html_table"]

MOST_ROWS = 20
"""Rows of a table that a notebook shows."""


class Drawing(str):
    """A drawing as SVG text, which a notebook shows as the picture it is."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


class Displayable:
    """Something with facts, perhaps a table, and plain JSON; the class says what they are.

    A class gives `to_dict`, and what it has of `table` and ``_facts``.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts, lists, numbers and strings."""
        raise NotImplementedError

    def table(self) -> dict[str, list[Any]]:
        """Return columns by name, which a DataFrame of pandas or polars takes as they are."""
        return {}

    def to_pandas(self) -> Any:
        """Return `table` as a pandas DataFrame; pandas must be installed."""
        from pandas import DataFrame

        return DataFrame(self.table())

    def write(self, path: str | PathLike[str]) -> None:
        """Write `to_dict` as JSON, whole or not at all."""
        import msgspec

        from apportion.core.files import write_whole

        write_whole(path, msgspec.json.encode(self.to_dict()) + b"\n")

    def _facts(self) -> Mapping[str, str]:
        """Return what stands above the table in a notebook, by name; what is empty is left out."""
        return {}

    def _repr_html_(self) -> str:
        """Return facts and table for a notebook; everything is escaped."""
        facts = {name: text for name, text in self._facts().items() if text}
        if not facts:
            facts = {type(self).__name__: repr(self)}
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items())
        return f"<table>{''.join(rows)}</table>{html_table(self._head(MOST_ROWS + 1))}"

    def _head(self, most: int) -> Mapping[str, list[Any]]:
        """Return `table`, or only the first so many of its rows; nothing where there is no table now."""
        return self.table()


class Figures(Displayable):
    """A msgspec struct of figures: one row of a table."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain dicts, lists, numbers and strings."""
        import msgspec

        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def table(self) -> dict[str, list[Any]]:
        """Return the figures as columns of one cell each."""
        return {name: [value] for name, value in self.to_dict().items()}


def html_table(columns: Mapping[str, list[Any]], most: int = MOST_ROWS) -> str:
    """Return columns as an HTML table of at most so many rows; the empty string without any."""
    count = len(next(iter(columns.values()), ()))
    if not count:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = [[column[at] for column in columns.values()] for at in range(min(count, most))]
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(cell))}</td>' for cell in row)}</tr>" for row in rows)
    more = f"<tr><td colspan='{len(columns)}'>and more</td></tr>" if count > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return str(value)


def amount(value: float) -> str:
    """Return a number to seven digits, or to the unit where it has more of them; its thousands apart."""
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value + 0.0:,.7g}"
