"""``apportion history prune``."""

from __future__ import annotations

import click

from apportion.cli.history.choosing import moment_of, opened
from apportion.cli.output import counted, say

__all__ = ["command"]


@click.command("prune")
@click.option(
    "--before", metavar="WHEN", required=True, help="Decisions made before then: 30d (ago), a date."
)
@click.option("--record", "folder", metavar="DIR", help="Folder of the record; default: the user's own.")
@click.option("--dry-run", is_flag=True, help="Only say how many.")
def command(before: str, folder: str | None, dry_run: bool) -> None:
    """Forget decisions made before a moment; what is kept stays checkable. A service may run.

    The last decision of every open session is kept, however old it is.
    """
    from apportion.record import Record

    before_s = moment_of(before)
    assert before_s is not None
    with opened(folder) as history:
        old, path = len(history.entries(until_s=before_s)), history.path
    if dry_run:
        say(f"{counted(old, 'decision')} made before then")
        return
    size = path.stat().st_size
    with Record(path) as record:
        gone = record.prune(before_s)
    say(
        f"{counted(gone, 'decision')} forgotten, {old - gone} older ones kept; "
        f"{size:,} -> {path.stat().st_size:,} bytes"
    )
