"""``apportion schema``: the JSON Schema of a kind."""

from __future__ import annotations

import click

from apportion.cli.output import say
from apportion.cli.source import KIND

__all__ = ["command"]


@click.command("schema")
@click.argument("kind", type=KIND)
def command(kind: str) -> None:
    """Print the JSON Schema (draft 2020-12) of instances of KIND, for instance gap_filling."""
    from apportion.io.schemas import committed_text

    say(committed_text(kind).rstrip("\n"))
