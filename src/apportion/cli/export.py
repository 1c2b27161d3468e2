"""``apportion export``: the compiled model as an LP or MPS file."""

from __future__ import annotations

import click

from apportion.cli.output import check_target, emit
from apportion.cli.source import foreign_options, instance_of

__all__ = ["command"]


@click.command("export")
@click.argument("path", metavar="INSTANCE|-")
@foreign_options
@click.option("--to", "target", required=True, type=click.Choice(["lp", "mps"]), help="The format written.")
@click.option("--formulation", metavar="F", help="The kind's first one by default.")
@click.option("-o", "--out", default="-", metavar="FILE", help="Standard output by default.")
def command(
    path: str,
    format: str | None,
    index: int,
    sense: str | None,
    target: str,
    formulation: str | None,
    out: str,
) -> None:
    """Compile an instance to its linear model and write it for any other solver, names kept."""
    from apportion.solving.exporting import exported

    check_target(out)
    emit(exported(instance_of(path, format, index, sense), target, formulation).rstrip(b"\n"), out)
