"""Words that shells complete and that are read from tables only then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from apportion.choices import did_you_mean
from apportion.references import loaded

__all__ = ["BACKEND", "FORMAT", "FORMULATION", "KIND", "Guessing", "NamedIn"]


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
BACKEND = NamedIn("apportion.registry.backends:BACKENDS", more=["auto"])
FORMULATION = NamedIn("apportion.registry.formulations:FORMULATIONS")
FORMAT = NamedIn("apportion.instances.readers:FORMATS", more=["json", "yaml", "csv"])
