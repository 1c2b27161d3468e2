"""``apportion``: the commands around instances and results, in a table; each is loaded when it is used."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import ClassVar, NoReturn

import click

from apportion import __version__
from apportion.cli.commands import COMMANDS, GROUPS, Listed
from apportion.cli.running import clocked, run
from apportion.cli.settings import configured, loudness
from apportion.cli.source import Guessing
from apportion.core.errors import did_you_mean

__all__ = ["LazyGroup", "command", "main", "prepared"]


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
    """Commands by name; a kind of group says which table they stand in."""

    table: ClassVar[Mapping[str, Listed]]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, ``None`` if there is none of that name."""
        if cmd_name not in self.table:
            return None
        module, _, name = (self.table[cmd_name].module or cmd_name.replace("-", "_")).partition(":")
        found: click.Command = getattr(import_module(f"apportion.cli.{module}"), name or "command")
        listed = self.table[cmd_name]
        return prepared(found if listed.doing is None else clocked(found, listed.doing), listed)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        if args and not args[0].startswith("-") and args[0] not in self.table:
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], self.table)}")
        return super().resolve_command(ctx, args)


class _Commands(LazyGroup):
    """The commands of ``apportion``, with their defaults of the user's."""

    table = COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, ``None`` if there is none of that name."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            ctx.default_map = {**(ctx.default_map or {}), cmd_name: configured(found, cmd_name)}
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands group by group, one full line each."""
        width = max(map(len, COMMANDS))
        for group in GROUPS:
            rows = [
                (name.ljust(width), listed.line) for name, listed in COMMANDS.items() if listed.group == group
            ]
            with formatter.section(group):
                formatter.write_dl(rows)


@click.command(
    "apportion",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "APPORTION"},
)
@click.version_option(__version__, prog_name="apportion")
def command() -> None:
    """Decide what each job of a cluster runs on, and look into instances, plans and policies.

    `apportion help COMMAND` shows the options of a command, with examples.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run ``apportion`` and leave the process with its exit code."""
    sys.exit(run(command, "apportion", arguments))
