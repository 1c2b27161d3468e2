"""``apportion help``: the help page of a command, or of all."""

from __future__ import annotations

import click

from apportion.cli.output import say
from apportion.cli.source import NamedIn
from apportion.core.errors import did_you_mean

__all__ = ["command"]


@click.command("help")
@click.argument("name", metavar="[COMMAND]", required=False, type=NamedIn("apportion.cli.commands:COMMANDS"))
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Show the help of COMMAND, or the list of all commands."""
    above = ctx.parent
    assert above is not None and isinstance(above.command, click.Group)
    if name is None:
        say(above.get_help())
        return
    found = above.command.get_command(above, name)
    if found is None:
        names = above.command.list_commands(above)
        raise click.UsageError(f"No such command {name!r}{did_you_mean(name, names)}")
    say(found.get_help(click.Context(found, info_name=name, parent=above)))
