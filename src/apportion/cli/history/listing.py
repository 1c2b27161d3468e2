"""``apportion history list``."""

from __future__ import annotations

import click

from apportion.cli.history.choosing import entries_of, from_to, opened
from apportion.cli.output import counted, say

__all__ = ["command"]


@click.command("list")
@from_to
@click.option("--json", "as_json", is_flag=True, help="A list of objects.")
def command(
    folder: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    as_json: bool,
) -> None:
    """List the decisions on record, the oldest first."""
    import msgspec

    from apportion.record.moments import said

    with opened(folder) as history:
        entries = entries_of(history, session, since, until, last)
    if as_json:
        say(msgspec.json.encode(entries).decode())
        return
    rows = [
        ("ID", "MADE", "SESSION", "REVISION", "POLICY", "ENDED", "OBJECTIVE", "GAP", "SECONDS", "ASKED BY")
    ]
    rows += [
        (
            str(entry.id),
            said(entry.at_s),
            entry.session,
            str(entry.revision),
            entry.policy,
            entry.termination if entry.status == "decided" else f"{entry.status}: {entry.termination}",
            "-" if entry.objective is None else f"{entry.objective:.10g}",
            "-" if entry.gap is None else f"{entry.gap:.2g}",
            f"{entry.seconds:.3f}",
            entry.asked_by,
        )
        for entry in entries
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if entries else []:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    say(counted(len(entries), "decision"))
