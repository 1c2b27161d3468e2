"""``apportion cancel``: stop a malleable job, with a checkpoint."""

from __future__ import annotations

import time
from pathlib import Path

import click

from apportion.cli.output import say

__all__ = ["command"]


@click.command("cancel")
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
def command(folder: str | None, jobs: tuple[str, ...]) -> int:
    """Cancel jobs by their ids. Their checkpoints are kept. Exit code 3 if there is no such job."""
    from apportion.live.errors import UnknownJob
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
