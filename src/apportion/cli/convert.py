"""``apportion convert``: an instance in any format to JSON."""

from __future__ import annotations

import click

from apportion.cli.output import check_target, emit
from apportion.cli.source import foreign_options, instance_of

__all__ = ["command"]


@click.command("convert")
@click.argument("path", metavar="IN|-")
@foreign_options
@click.option("-o", "--out", default="-", metavar="OUT.json", help="Standard output by default.")
def command(path: str, format: str | None, index: int, sense: str | None, out: str) -> None:
    """Read an instance in any format and write it as JSON."""
    import msgspec

    check_target(out)
    emit(msgspec.json.encode(instance_of(path, format, index, sense)), out)
