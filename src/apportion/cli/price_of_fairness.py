"""``apportion price-of-fairness``: what the objective would be if less of every fair level were kept."""

from __future__ import annotations

import json
from typing import Any

import click

from apportion.cli.output import check_target, quiet_stdout, say, write_file
from apportion.cli.source import foreign_options, instance_of

__all__ = ["command"]


@click.command("price-of-fairness")
@click.argument("path", metavar="INSTANCE|-")
@foreign_options
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
def command(
    path: str,
    format: str | None,
    index: int,
    sense: str | None,
    points: int,
    time_limit: float,
    as_json: bool,
    plot: str | None,
) -> int:
    """Solve INSTANCE with none, some and all of its fair levels kept, and say what every step costs.

    Guarantees are kept all the same. The price is the part of the best objective that is forgone.

    Exit codes: 0 every plan was found, 2 usage, 3 invalid instance or no rule of fairness, 5 not every plan
    was found within the limit.
    """
    from apportion.cli.progress import Progress
    from apportion.draw import check_name, encoded, on_page
    from apportion.explanation.fairness_price import price_of_fairness

    if plot is not None:
        check_name(plot)
        check_target(plot)
    with quiet_stdout():
        instance: Any = instance_of(path, format, index, sense)
        with Progress(not as_json, f"solving {points} times, at most {time_limit:g} s"):
            keeps = [place / (points - 1) for place in range(points)]
            curve = price_of_fairness(instance, keeps, time_limit=time_limit)
    say(json.dumps(curve.to_dict(), allow_nan=False) if as_json else _table(curve))
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
    return 0 if len(known) == len(curve.points) else 5


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
