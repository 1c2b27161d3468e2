"""``apportion help``, and the page on the command line: run this module to print it."""

from __future__ import annotations

import click

from apportion.cli.commands import COMMANDS, GROUPS
from apportion.cli.main import command
from apportion.cli.output import say
from apportion.cli.source import NamedIn
from apportion.core.errors import did_you_mean

__all__ = ["help_command", "page"]

_HEAD = """\
# Command line

Written from the commands themselves (`python -m apportion.cli.reference`). `python -m apportion` is
`apportion`, `solve-instance` is `apportion solve`, and `apportion help COMMAND` shows what stands here. Exit
codes are in [the contract](contract.md). Data goes to standard output, everything else to standard error;
`-` is standard input or output. No command writes over a file that it reads. Ctrl-C ends a command with exit
code 130: `solve` then writes the best plan it has, a replay with `--checkpoint` saves its state, everything
else writes nothing.

| variable | effect |
|---|---|
| `APPORTION_DEBUG=1` | where an internal error happened |
| `APPORTION_UNCOMPILED=1` | the Python twins of the compiled parts are used |
| `APPORTION_RECORD=DIR` | the folder of the record of decisions, where `--record` names none |
| `NO_COLOR=1` | no colour |
| `COLUMNS=N` | how wide tables are where there is no terminal |
| `APPORTION_SOLVE_TIME_LIMIT=3` | `solve --time-limit 3`, and so on for every option of every command |
| `APPORTION_CONFIG=FILE` | the configuration file, not `~/.config/apportion/config.toml` |

The configuration file sets defaults, a table per command with its options as they are called here; what the
command line or a variable says wins, and an option that does not exist is an error:

```toml
[solve]
time-limit = 3
backend = "highs"

[simulate]
json = true

[history.list]
last = 20
```

Every command takes `-q` (nothing on standard error but errors) and `-v` (every incumbent and file as a line
there, and where an internal error happened).

Shells complete commands, options, kinds, backends, formulations, formats, policies and files:

```text
eval "$(_APPORTION_COMPLETE=bash_source apportion)"         # in ~/.bashrc
eval "$(_APPORTION_COMPLETE=zsh_source apportion)"          # in ~/.zshrc
_APPORTION_COMPLETE=fish_source apportion | source          # in ~/.config/fish/config.fish
eval "$(_SOLVE_INSTANCE_COMPLETE=bash_source solve-instance)"
```
"""


def page() -> str:
    """Return the page as Markdown."""
    above = click.Context(
        command, info_name="apportion", terminal_width=100, help_option_names=["-h", "--help"]
    )
    parts = [_HEAD]
    for group in GROUPS:
        parts.append(f"## {group}\n")
        for name, listed in COMMANDS.items():
            found = command.get_command(above, name)
            if listed.group != group or found is None:
                continue
            context = click.Context(found, info_name=name, parent=above)
            parts.append(f"### {name}\n\n{listed.line}\n\n{_help(found, context)}")
            if isinstance(found, click.Group):
                for word in found.list_commands(context):
                    below = found.get_command(context, word)
                    assert below is not None
                    inner = click.Context(below, info_name=word, parent=context)
                    parts.append(f"#### {name} {word}\n\n{_help(below, inner)}")
    return "\n".join(parts)


def _help(found: click.Command, context: click.Context) -> str:
    lines = "\n".join(line.rstrip() for line in found.get_help(context).splitlines())
    return f"```text\n{lines}\n```\n"


@click.command("help")
@click.argument("name", metavar="[COMMAND]", required=False, type=NamedIn("apportion.cli.commands:COMMANDS"))
@click.pass_context
def help_command(ctx: click.Context, name: str | None) -> None:
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


if __name__ == "__main__":
    click.echo(page(), nl=False)
