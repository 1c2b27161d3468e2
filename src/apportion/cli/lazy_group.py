"""A group whose commands stand in a table and are imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import click

from apportion.choices import did_you_mean
from apportion.cli.commands import Listed
from apportion.cli.progress import clocked

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """Commands by name; a kind of group says which table they stand in, and which package their modules."""

    table: ClassVar[Mapping[str, Listed]]
    package: ClassVar[str]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, ``None`` if there is none of that name."""
        if cmd_name not in self.table:
            return None
        module = self.table[cmd_name].module or cmd_name.replace("-", "_")
        found: click.Command = import_module(f"{self.package}.{module}").command
        listed = self.table[cmd_name]
        found.epilog = listed.epilog
        return found if listed.doing is None else clocked(found, listed.doing)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        if args and not args[0].startswith("-") and args[0] not in self.table:
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], self.table)}")
        return super().resolve_command(ctx, args)
