"""``apportion history check``."""

from __future__ import annotations

import click

from apportion.cli.history.choosing import entries_of, from_to, opened
from apportion.cli.output import counted, say

__all__ = ["command"]


@click.command("check")
@from_to
@click.option("--json", "as_json", is_flag=True, help="One object: checked, failed and problems of the file.")
def command(
    folder: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    as_json: bool,
) -> int:
    """Check the file, and every stored plan, bound, digest and proof again, without any solver.

    Exit code 0 if everything holds, 3 if a decision has become uncheckable or the file is damaged.
    """
    import msgspec

    from apportion.errors import InvalidInstance
    from apportion.record.checking import check

    with opened(folder) as history:
        problems = history.problems()
        entries = entries_of(history, session, since, until, last)
        failed = {
            checked.entry.id: list(checked.failures) for checked in check(history, entries) if not checked.ok
        }
    if as_json:
        result = {"checked": len(entries), "failed": failed, "problems": problems}
        say(msgspec.json.encode(result).decode())
    else:
        for problem in problems:
            say(f"FAIL  file: {problem}")
        for number, failures in failed.items():
            for failure in failures:
                say(f"FAIL  decision {number}: {failure}")
        state = "damaged" if problems else "whole"
        say(f"{counted(len(entries), 'decision')} checked, {len(failed)} uncheckable; the file is {state}")
    return InvalidInstance.exit_code if failed or problems else 0
