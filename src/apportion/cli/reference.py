"""The page on the command line, written from the commands: run this module to print it."""

from __future__ import annotations

import click

from apportion.cli.commands import COMMANDS, GROUPS
from apportion.cli.main import command

__all__ = ["page"]

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
| `NO_COLOR=1` | no colour |

Shells complete commands, options, policies and files:

```text
eval "$(_APPORTION_COMPLETE=bash_source apportion)"         # in ~/.bashrc
eval "$(_APPORTION_COMPLETE=zsh_source apportion)"          # in ~/.zshrc
_APPORTION_COMPLETE=fish_source apportion | source          # in ~/.config/fish/config.fish
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
            told = found.get_help(click.Context(found, info_name=name, parent=above))
            lines = "\n".join(line.rstrip() for line in told.splitlines())
            parts.append(f"### {name}\n\n{listed.line}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    click.echo(page(), nl=False)
