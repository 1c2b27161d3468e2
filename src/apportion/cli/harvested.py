"""``apportion harvested``: a page of what was harvested, to whom, and what the main queue felt."""

from __future__ import annotations

import time
from pathlib import Path

import click

from apportion.cli.output import check_target, say, write_file

__all__ = ["command"]


@click.command("harvested")
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.option("--days", type=click.FloatRange(0, 3650, min_open=True), default=7.0, show_default=True)
@click.option("-o", "--output", metavar="FILE", help="The page, HTML; without it figures are printed.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
def command(folder: str | None, days: float, output: str | None, as_json: bool) -> int:
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
