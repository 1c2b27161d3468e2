"""``apportion``: the group of commands around instances and results; each is loaded when it is used."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from apportion import __version__
from apportion.choices import did_you_mean
from apportion.cli.commands import COMMANDS, GROUPS, epilog_of
from apportion.cli.running import run

__all__ = ["command", "main"]

_NAMES_A_FILE = re.compile(r"FILE|PATH|INSTANCE|SOLUTION|CSV|JSON|LOG|DIR")


class _Commands(click.Group):
    """Commands by name, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, ``None`` if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = COMMANDS[cmd_name].module or cmd_name.replace("-", "_")
        found: click.Command = import_module(f"apportion.cli.{module}").command
        found.epilog = epilog_of(cmd_name)
        for param in found.params:  # so that shells complete file names
            if param.type is click.STRING and _NAMES_A_FILE.search(param.metavar or ""):
                param.type = click.Path(allow_dash=True)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands group by group, one full line each."""
        width = max(map(len, COMMANDS))
        for group in GROUPS:
            rows = [
                (name.ljust(width), listed.line) for name, listed in COMMANDS.items() if listed.group == group
            ]
            with formatter.section(group):
                formatter.write_dl(rows)


@click.command("apportion", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="apportion")
def command() -> None:
    """Decide what each job of a cluster runs on, and look into instances, plans and policies.

    `apportion help COMMAND` shows the options of a command, with examples.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run ``apportion`` and leave the process with its exit code."""
    sys.exit(run(command, "apportion", arguments))
