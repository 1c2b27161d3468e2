"""``apportion``: the group of commands around instances and results; each is loaded when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import MappingProxyType
from typing import NoReturn

import click

from apportion import __version__
from apportion.cli.running import run

__all__ = ["command", "main"]

_COMMANDS = MappingProxyType(
    {
        name: f"apportion.cli.{name.replace('-', '_')}"
        for name in (
            "backends",
            "cancel",
            "check",
            "convert",
            "drain",
            "explain",
            "export",
            "fit",
            "harvest",
            "predict",
            "queue",
            "replay",
            "report",
            "schema",
            "simulate",
            "snapshot",
            "submit",
            "validate",
            "what-if",
        )
    }
)
"""Module of every command; a new one is a file with a ``command`` and its name here."""


class _Commands(click.Group):
    """Commands by name, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in alphabetical order."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, ``None`` if there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = import_module(_COMMANDS[cmd_name]).command
        return found


@click.command("apportion", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="apportion")
def command() -> None:
    """Read, check, convert and explain instances and results; `solve-instance` solves them."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run ``apportion`` and leave the process with its exit code."""
    sys.exit(run(command, "apportion", arguments))
