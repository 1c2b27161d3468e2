"""``apportion convert``: an instance in any format to JSON."""

from __future__ import annotations

from pathlib import Path

import click

from apportion.cli.output import check_target, emit
from apportion.cli.source import bytes_of, foreign_options, instance_of

__all__ = ["command"]


@click.command("convert")
@click.argument("path", metavar="IN|-")
@foreign_options
@click.option(
    "--from",
    "source",
    type=click.Choice(["kueue"]),
    help="Objects of a cluster: kueue, what kubectl get clusterqueues,cohorts,... -A -o json prints.",
)
@click.option("-o", "--out", default="-", metavar="OUT.json", help="Standard output by default.")
def command(
    path: str, format: str | None, index: int, sense: str | None, source: str | None, out: str
) -> None:
    """Read an instance in any format, or a cluster's objects, and write it as JSON.

    What of the objects the instance does not say is named on standard error.
    """
    import msgspec

    check_target(out)
    if Path(out).suffix.lower() not in ("", ".json"):
        raise click.UsageError(f"{out}: an instance is written as JSON; name FILE.json")
    if source is not None:
        from apportion.instances.readers.kueue import read_dump

        if format is not None:
            raise click.UsageError("--format is for files; --from says already what the objects are")
        dump = read_dump(bytes_of(path))
        from apportion.cli.settings import is_quiet

        for note in () if is_quiet() else dump.notes:
            click.echo(f"convert: {note}", err=True)
        emit(msgspec.json.encode(dump.instance), out)
        return
    emit(msgspec.json.encode(instance_of(path, format, index, sense)), out)
