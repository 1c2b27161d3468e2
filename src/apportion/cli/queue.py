"""Jobs of a live cluster: ``apportion queue``, ``cancel`` and ``drain``; and ``harvested``, what they had."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from apportion.cli.output import check_target, counted, say, write_file
from apportion.cli.summary import aligned

__all__ = ["cancel", "command", "drain", "harvested_hours"]


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
    rows = [("JOB", "STATE", "NODES", "ALLOWED", "SAMPLES", "GOAL", "NAME")]
    rows += [
        (
            job["id"],
            "cancelling" if job["cancelling"] else job["state"],
            str(len(job["nodes"])),
            ",".join(map(str, job["allowed_counts"])) or f"{job['min_nodes']}-{job['max_nodes']}",
            str(job["samples"]),
            "-" if job["goal"] is None else str(job["goal"]),
            job["name"] or job["command"][0].rpartition("/")[2],
        )
        for job in jobs
    ]
    return aligned(rows, "<" * len(rows[0]))


@click.command("cancel")
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
def cancel(folder: str | None, jobs: tuple[str, ...]) -> int:
    """Cancel jobs by their ids. Their checkpoints are kept. Exit code 3 if there is no such job."""
    from apportion.core.errors import UnknownJob
    from apportion.live.record.requests import Cancel, leave, state_as_asked
    from apportion.live.record.store import default_folder, in_use

    where = Path(folder or default_folder()).expanduser().absolute()
    state = state_as_asked(where, time.time())
    unknown = [id for id in jobs if state.job(id) is None]
    if unknown:
        raise UnknownJob(f"there is no job {', '.join(unknown)} in {where}; `apportion queue` lists them")
    for id in dict.fromkeys(jobs):
        job = state.job(id)
        assert job is not None
        if job.ended:
            say(f"{id} is {job.state.value} already")
            continue
        leave(where, Cancel(id))
        say(f"{id} is to be cancelled" + ("" if in_use(where) else ", when a controller runs again"))
    return 0


_DRAIN_POLL_S = 0.2


@click.command("drain")
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@click.option(
    "--timeout", "timeout_s", type=float, default=600.0, show_default=True, help="Longest wait, seconds."
)
def drain(folder: str | None, no_wait: bool, timeout_s: float) -> int:
    """Stop every job with a checkpoint, give all nodes back, end the controller; jobs stay in the queue.

    Where no controller runs, pilots that one left behind are cancelled. Exit code 5 if it takes too long.
    """
    from apportion.live.record.requests import Drain, leave
    from apportion.live.record.store import default_folder, in_use

    where = Path(folder or default_folder()).expanduser().absolute()
    if not where.is_dir():
        say(f"nothing is held: there is no {where}")
        return 0
    if not in_use(where):
        return _left_behind(where)
    leave(where, Drain())
    if no_wait:
        say("draining")
        return 0
    deadline = time.monotonic() + timeout_s
    while in_use(where):
        if time.monotonic() > deadline:
            click.echo("apportion: still draining", err=True)
            return 5
        time.sleep(_DRAIN_POLL_S)
    say("drained: all nodes are given back, the controller has ended")
    return 0


def _left_behind(where: Path) -> int:
    from apportion.live.controller.harvest import cancel_pilots
    from apportion.live.record.store import read_state

    state = read_state(where)
    if state is None or not any(pilot.live for pilot in state.pilots.values()):
        say("no controller runs, and no node is held")
        return 0
    count = cancel_pilots(where)
    say(f"no controller runs; {count} pilots of an earlier one cancelled")
    return 0


@click.command("harvested")
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.option("--days", type=click.FloatRange(0, 3650, min_open=True), default=7.0, show_default=True)
@click.option("-o", "--output", metavar="FILE", help="The page, HTML; without it figures are printed.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
def harvested_hours(folder: str | None, days: float, output: str | None, as_json: bool) -> int:
    """Report the node hours harvested in the last days, from the journal. A controller may run."""
    import msgspec

    from apportion.live.record.journal import harvested, read_journal
    from apportion.live.record.store import default_folder, read_state

    check_target(output)
    where = Path(folder or default_folder()).expanduser().absolute()
    until_s = time.time()
    since_s = until_s - days * 86400
    found = harvested(read_journal(where, since_s), since_s, until_s)
    total = found.total
    if output is not None:
        from apportion.draw.harvest_page import harvest_page

        state = read_state(where)
        names = {} if state is None else {job.id: job.spec.name for job in state.jobs.values()}
        write_file(output, harvest_page(found, names).encode())
    if as_json:
        say(msgspec.json.encode({"total": total, **msgspec.to_builtins(found, str_keys=True)}).decode())
    elif output is None:
        say(f"{total.used:.2f} node hours used, {total.held:.2f} held, {total.idle:.2f} idle and not held")
        say(f"{len(found.returns_s)} nodes went back to the main queue; {found.watched_h:.2f} hours watched")
    return 0
