"""``apportion report``: turn logs of replays into one page."""

from __future__ import annotations

import click

from apportion.cli.output import check_target, emit

__all__ = ["command"]


@click.command("report")
@click.argument("logs", nargs=-1, required=True, metavar="LOG.jsonl...")
@click.option("-o", "--out", default="-", metavar="FILE.html", help="Standard output by default.")
def command(logs: tuple[str, ...], out: str) -> None:
    """Write a self-contained page with the replays of these logs side by side."""
    from apportion.cluster.simulation.run_record import read_record
    from apportion.draw.report_page import report_page

    check_target(out)
    emit(report_page([read_record(path) for path in logs]).encode(), out)
