"""``apportion``: the group of commands around instances and results; each is loaded when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from apportion import __version__
from apportion.cli.commands import COMMANDS, GROUPS
from apportion.cli.lazy_group import LazyGroup
from apportion.cli.running import run
from apportion.cli.settings import configured

__all__ = ["command", "main"]


class _Commands(LazyGroup):
    """The commands of ``apportion``, with their defaults of the user's."""

    table = COMMANDS
    package = "apportion.cli"

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
