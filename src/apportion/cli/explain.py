"""``apportion explain``: why nothing is feasible, or why everybody got what they got."""

from __future__ import annotations

import json

import click

from apportion.cli.output import quiet_stdout, say
from apportion.cli.source import BACKEND, foreign_options, instance_of

__all__ = ["command"]

_FAILED, _INFEASIBLE, _NOTHING_FOUND = 1, 4, 5


@click.command("explain")
@click.argument("path", metavar="INSTANCE|-")
@foreign_options
@click.option("--job", metavar="ID", help="Explain this job only, with exact figures.")
@click.option("--option", metavar="OPTION", help="An option of that job to ask about; - for leaving it out.")
@click.option(
    "--backend",
    type=BACKEND,
    default="auto",
    show_default=True,
    help="For every solve, as in solve-instance.",
)
@click.option(
    "--time-limit", type=float, default=30.0, show_default=True, metavar="S", help="Seconds for everything."
)
@click.option("--json", "as_json", is_flag=True, help="One object, nothing else.")
def command(
    path: str,
    format: str | None,
    index: int,
    sense: str | None,
    job: str | None,
    option: str | None,
    backend: str,
    time_limit: float,
    as_json: bool,
) -> int:
    """Say why the plan of INSTANCE is as it is, or why there is none and what would help.

    Without a feasible plan: the jobs and capacities in conflict and the cheapest ways out. With one: what
    every capacity is worth, and for every job its runner-up and what that would need to win.

    Exit codes: 0 explained, 2 usage, 3 invalid instance or no such job, 4 proven infeasible (explained), 5
    nothing found within the limit, 7 backend unavailable.
    """
    from apportion.cli.progress import Progress
    from apportion.explanation import explain

    with quiet_stdout():
        instance = instance_of(path, format, index, sense)
        with Progress(not as_json, f"explaining, at most {time_limit:g} s"):
            explanation = explain(instance, job=job, option=option, backend=backend, time_limit=time_limit)
    say(json.dumps(explanation.to_dict(), allow_nan=False) if as_json else str(explanation))
    if explanation.feasible is None:
        return _FAILED if explanation.termination in ("error", "numerical_error") else _NOTHING_FOUND
    return 0 if explanation.feasible else _INFEASIBLE
