"""``apportion history export``."""

from __future__ import annotations

import click

from apportion.cli.history.choosing import entries_of, from_to, opened
from apportion.cli.output import check_target, emit, write_file

__all__ = ["command"]


@click.command("export")
@click.argument("numbers", metavar="[ID]...", type=int, nargs=-1)
@from_to
@click.option(
    "--part",
    type=click.Choice(["all", "instance", "result", "proof"]),
    default="all",
    show_default=True,
    help="What of a decision; an instance is what `apportion solve` reads, a result what `check` does.",
)
@click.option("-o", "--output", metavar="FILE", default="-", help="Standard output by default.")
def command(
    numbers: tuple[int, ...],
    folder: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    part: str,
    output: str,
) -> None:
    """Write decisions as JSON, one per line: those of the IDs, else all that the options choose."""
    from apportion.record.exporting import exported

    check_target(output)
    if part == "proof" and len(numbers) != 1:
        raise click.UsageError("--part proof needs one ID: a proof is a file of its own")
    with opened(folder) as history:
        entries = (
            [history.entry(number) for number in numbers]
            if numbers
            else entries_of(history, session, since, until, last)
        )
        if part == "proof":
            proof = history.proof(entries[0].id)
            if proof is None:
                raise click.UsageError(f"decision {entries[0].id} has no proof")
            if output == "-":
                raise click.UsageError("a proof is no text: name a file with -o")
            write_file(output, proof)
            return
        lines = [exported(history, entry, part) for entry in entries]
    emit(b"\n".join(lines), output)
