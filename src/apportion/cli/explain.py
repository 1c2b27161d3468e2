"""``apportion explain`` and ``price-of-fairness``: why everybody got what they got, and what fairness costs.

Why nothing is feasible, if so; and what the objective would be if less of every fair level were kept.
"""

from __future__ import annotations

import json
from typing import Any

import click

from apportion.cli.output import check_target, quiet_stdout, say, write_file
from apportion.cli.source import BACKEND, Source, takes_instance

__all__ = [
    "command",
    "price_of_fairness",
]

_FAILED, _INFEASIBLE, _NOTHING_FOUND = 1, 4, 5


@click.command("explain")
@takes_instance("INSTANCE|-")
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
    source: Source,
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
    from apportion.cli.running import Progress
    from apportion.explanation import explain

    with quiet_stdout():
        instance = source.instance()
        with Progress(not as_json, f"explaining, at most {time_limit:g} s"):
            explanation = explain(instance, job=job, option=option, backend=backend, time_limit=time_limit)
    say(json.dumps(explanation.to_dict(), allow_nan=False) if as_json else str(explanation))
    if explanation.feasible is None:
        return _FAILED if explanation.termination in ("error", "numerical_error") else _NOTHING_FOUND
    return 0 if explanation.feasible else _INFEASIBLE


@click.command("price-of-fairness")
@takes_instance("INSTANCE|-")
@click.option(
    "--points",
    type=click.IntRange(min=2, max=101),
    default=11,
    show_default=True,
    help="Plans from nothing of the levels kept to all of them.",
)
@click.option(
    "--time-limit", type=float, default=60.0, show_default=True, metavar="S", help="Seconds for all of them."
)
@click.option("--json", "as_json", is_flag=True, help="One object, nothing else.")
@click.option("--plot", metavar="FILE", help="Draw the curve: FILE.svg, .html, .png or .pdf.")
def price_of_fairness(
    source: Source,
    points: int,
    time_limit: float,
    as_json: bool,
    plot: str | None,
) -> int:
    """Solve INSTANCE with none, some and all of its fair levels kept, and say what every step costs.

    Guarantees are kept all the same. The price is the part of the best objective that is forgone.

    Exit codes: 0 every plan was found, 2 usage, 3 invalid instance or no rule of fairness, 4 proven
    infeasible, 5 not every plan was found within the limit.
    """
    from apportion.cli.running import Progress
    from apportion.draw import check_name, encoded, on_page
    from apportion.explanation.fairness_price import price_of_fairness

    if plot is not None:
        check_name(plot)
        check_target(plot)
    with quiet_stdout():
        instance: Any = source.instance()
        with Progress(not as_json, f"solving {points} times, at most {time_limit:g} s"):
            keeps = [place / (points - 1) for place in range(points)]
            curve = price_of_fairness(instance, keeps, time_limit=time_limit)
    without = curve.feasible is False
    readable = "no plan is feasible: `apportion explain` says why" if without else _table(curve)
    say(json.dumps(curve.to_dict(), allow_nan=False) if as_json else readable)
    known = [point for point in curve.points if point.objective is not None]
    if plot is not None and known:
        from apportion.draw.curve_svg import price_svg

        title = f"Price of fairness: {instance.name or 'an instance'}"
        drawn = price_svg(
            title,
            [point.keep for point in known],
            [point.objective for point in known if point.objective is not None],
            [point.bound for point in known],
            [point.least for point in known],
        )
        write_file(plot, encoded(on_page(drawn, plot, title), plot))
    return 4 if without else 0 if len(known) == len(curve.points) else 5


def _table(curve: Any) -> str:
    from apportion.cli.summary import table

    rows = [
        (
            f"{point.keep:g}",
            "-" if point.objective is None else f"{point.objective:.6g}",
            "-" if point.bound is None else f"{point.bound:.6g}",
            "-" if point.price is None else f"{point.price:.2%}",
            "-" if point.least is None else f"{point.least:.4g}",
        )
        for point in curve.points
    ]
    return "\n".join(table([("kept", "objective", "bound", "price", "least share"), *rows], ">>>>>"))
