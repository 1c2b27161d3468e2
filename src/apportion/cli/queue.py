"""``apportion queue``: the jobs of a live cluster and what is known of them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from apportion.cli.output import counted, say

__all__ = ["command"]


@click.command("queue")
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.option("--all", "everything", is_flag=True, help="Jobs that have ended too.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output, all jobs and fields.")
@click.option("--watch", "every_s", type=click.FloatRange(0.1), metavar="S", help="Again every S seconds.")
def command(folder: str | None, everything: bool, as_json: bool, every_s: float | None) -> int:
    """Show the queue, with jobs a controller has not taken up yet. A controller may run.

    With --watch until ctrl-C; a terminal shows the newest only.
    """
    from apportion.live.record.store import default_folder

    where = Path(folder or default_folder()).expanduser().absolute()
    while True:
        lines = _lines(where, everything, as_json)
        if every_s is not None and sys.stdout.isatty():
            click.clear()
        for line in lines:
            say(line)
        if every_s is None:
            return 0
        time.sleep(every_s)


def _lines(where: Path, everything: bool, as_json: bool) -> list[str]:
    import msgspec

    from apportion.live.record.requests import listing, state_as_asked
    from apportion.live.record.store import in_use

    state = state_as_asked(where, time.time())
    jobs = listing(state)
    running = in_use(where)
    if as_json:
        held = sorted(pilot.node for pilot in state.pilots.values() if pilot.live)
        status = {"state": str(where), "controller": running, "nodes_held": held, "jobs": jobs}
        return [msgspec.json.encode(status).decode()]
    shown = [job for job in jobs if everything or job["ended_s"] is None]
    over = len(jobs) - len(shown)
    hidden = f"; {over} ended (--all shows them)" if over else ""
    runs = "runs" if running else "does not run"
    return [*_table(shown), *_reasons(shown), f"{counted(len(shown), 'job')}{hidden}; a controller {runs}"]


def _reasons(jobs: list[dict[str, Any]]) -> list[str]:
    """Return a line for every job that has failed, or fails and is tried again: what was said last."""
    failing = [job for job in jobs if job["message"] and (job["state"] == "failed" or job["failures"])]
    return [f"{job['id']} {job['state']}: {_short(job['message'])}" for job in failing]


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 200 else f"{line[:197]}..."


def _table(jobs: list[dict[str, Any]]) -> list[str]:
    if not jobs:
        return []
    rows = [("JOB", "STATE", "NODES", "MIN-MAX", "SAMPLES", "GOAL", "NAME")]
    rows += [
        (
            job["id"],
            "cancelling" if job["cancelling"] else job["state"],
            str(len(job["nodes"])),
            f"{job['min_nodes']}-{job['max_nodes']}",
            str(job["samples"]),
            "-" if job["goal"] is None else str(job["goal"]),
            job["name"] or job["command"][0].rpartition("/")[2],
        )
        for job in jobs
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
