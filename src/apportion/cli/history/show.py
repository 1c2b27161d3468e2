"""``apportion history show``."""

from __future__ import annotations

import click

from apportion.cli.history.choosing import chosen, one, opened
from apportion.cli.output import say

__all__ = ["command"]


@click.command("show")
@one
@click.option("--json", "as_json", is_flag=True, help="One object: decision, deltas and result.")
def command(
    number: int | None, at: str | None, folder: str | None, session: str | None, as_json: bool
) -> None:
    """Show decision ID, or the one in force at a moment, or the newest one."""
    import msgspec

    from apportion.record.moments import said

    with opened(folder) as history:
        entry = chosen(history, number, at, session)
        result, deltas = history.result(entry.id), history.deltas(entry.session, entry.revision)
    if as_json:
        shown = {"decision": entry, "deltas": deltas, "result": msgspec.Raw(result)}
        say(msgspec.json.encode(shown).decode())
        return
    document = msgspec.json.decode(result)
    say(f"decision {entry.id}: session {entry.session}, revision {entry.revision}, {said(entry.at_s)}")
    say(f"asked by {entry.asked_by}; policy {entry.policy}; {entry.status} after {entry.seconds:.3f} s")
    bound = "no bound" if entry.bound is None else f"bound {entry.bound!r}"
    worth = "no plan" if entry.objective is None else f"objective {entry.objective!r}"
    say(f"{entry.termination}: {worth}, {bound}, evidence {document.get('evidence') or 'none'}")
    say(f"digest {entry.digest or 'none'}; proof {entry.proof_digest or 'none'}")
    for delta in deltas:
        say(f"changed: {msgspec.json.encode(delta).decode()}")
    for group in (document["plan"] or {}).values():
        for job, got in group.items() if isinstance(group, dict) else ():
            say(f"{job}: {' '.join(map(str, got)) or '-' if isinstance(got, list) else got}")
    for note in document["notes"]:
        say(f"note: {note}")
