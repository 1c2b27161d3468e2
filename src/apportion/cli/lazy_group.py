"""A group whose commands stand in a table and are imported when they are used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import click

from apportion.choices import did_you_mean
from apportion.cli.commands import Listed
from apportion.cli.completing import Guessing
from apportion.cli.progress import clocked
from apportion.cli.settings import loudness

__all__ = ["LazyGroup", "prepared"]

_NAMES_A_FILE = re.compile(r"FILE|PATH|INSTANCE|SOLUTION|CSV|JSON|LOG|DIR")


def prepared(command: click.Command, listed: Listed) -> click.Command:
    """Return a command with what all commands have: examples, loudness, completion of file names."""
    command.epilog = listed.epilog
    if not any("--quiet" in param.opts for param in command.params):
        command.params.extend(loudness())
    for param in command.params:  # so that shells complete file names
        if param.type is click.STRING and _NAMES_A_FILE.search(param.metavar or ""):
            param.type = click.Path(allow_dash=True)
        elif type(param.type) is click.Choice:
            param.type = Guessing(param.type.choices, param.type.case_sensitive)
    return command


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
        return prepared(found if listed.doing is None else clocked(found, listed.doing), listed)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        if args and not args[0].startswith("-") and args[0] not in self.table:
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], self.table)}")
        return super().resolve_command(ctx, args)
