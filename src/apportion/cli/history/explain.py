"""``apportion history explain``."""

from __future__ import annotations

import click

from apportion.cli.history.choosing import chosen, one, opened
from apportion.cli.output import quiet_stdout, say

__all__ = ["command"]


@click.command("explain")
@one
@click.option("--job", metavar="JOB", help="This job only, with exact figures.")
@click.option("--option", metavar="OPTION", help="An option of JOB to ask about; - for leaving it out.")
@click.option("--time-limit", type=float, default=30.0, show_default=True, help="Seconds for everything.")
@click.option("--json", "as_json", is_flag=True, help="One object with every figure.")
def command(
    number: int | None,
    at: str | None,
    folder: str | None,
    session: str | None,
    job: str | None,
    option: str | None,
    time_limit: float,
    as_json: bool,
) -> None:
    """Say why the plan of decision ID was as it was: prices, runners-up, what one more node was worth.

    The instance is the one of that moment, and the plan explained is the one that was answered then.
    """
    import json

    from apportion.explanation import explain
    from apportion.record.moments import said
    from apportion.record.restoring import restored

    with opened(folder) as history:
        entry = chosen(history, number, at, session)
        instance = history.instance(entry.session, entry.revision)
        document = json.loads(history.result(entry.id))
    with quiet_stdout():
        solution = restored(instance, document)
        explanation = explain(instance, solution, job, option, time_limit=time_limit)
    if as_json:
        say(json.dumps({"decision": entry.id, **explanation.to_dict()}, allow_nan=False))
        return
    say(f"decision {entry.id} of session {entry.session}, {said(entry.at_s)}, policy {entry.policy}")
    say(str(explanation))
