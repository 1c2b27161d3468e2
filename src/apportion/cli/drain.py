"""``apportion drain``: give every node back, and end the controller."""

from __future__ import annotations

import time
from pathlib import Path

import click

from apportion.cli.output import say

__all__ = ["command"]

_POLL_S = 0.2


@click.command("drain")
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@click.option(
    "--timeout", "timeout_s", type=float, default=600.0, show_default=True, help="Longest wait, seconds."
)
def command(folder: str | None, no_wait: bool, timeout_s: float) -> int:
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
        time.sleep(_POLL_S)
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
