"""Loss and accuracy against time: means over seeds with their intervals, and the drawing of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apportion.draw.svg import FAINT, Svg, color
from paper_repro.icefrog.chart_parts import across, legend, upward
from paper_repro.intervals import Mean

__all__ = ["course_rows", "courses_chart"]

_LEFT, _TOP, _WIDTH, _HEIGHT, _GAP = 70.0, 120.0, 380.0, 210.0, 84.0
_TENTHS = 10


def course_rows(network: str, courses: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for every rule and tenth of the budget.

    Parameters
    ----------
    network
        What was trained.
    courses
        By rule a `paper_repro.accuracy.course.Course` a seed.
    """
    for rule, seen in courses.items():
        for tenth in range(_TENTHS):
            loss = Mean.of([course.loss[tenth] for course in seen])
            accuracy = Mean.of([course.accuracy[tenth] for course in seen])
            told = {"network": network, "rule": rule, "share of the time": (tenth + 1) / _TENTHS}
            told |= {"loss": loss.value, "loss_half": loss.half}
            yield told | {"accuracy": accuracy.value, "accuracy_half": accuracy.half}


def courses_chart(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the drawing of such rows as SVG: accuracy above, loss below, a column a network."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    svg = Svg(_LEFT + len(networks) * (_WIDTH + _GAP))
    title = "Accuracy and loss against time, frozen and unfrozen"
    caption = "means over seeds, bands their 95 % intervals; time as a share of the budget"
    svg.text(24, 30, title, size=17, bold=True)
    svg.text(24, 50, caption, size=12, fill=FAINT)
    legend(svg, 24, 74, [(color(number), rule) for number, rule in enumerate(rules)], 220)
    for column, network in enumerate(networks):
        own = [row for row in rows if row["network"] == network]
        left = _LEFT + column * (_WIDTH + _GAP)
        _panel(svg, left, _TOP, own, rules, "accuracy", f"{network}: test accuracy")
        _panel(svg, left, _TOP + _HEIGHT + _GAP, own, rules, "loss", f"{network}: training loss")
    return svg.finish(_TOP + 2 * _HEIGHT + _GAP + 40, title, caption)


def _panel(
    svg: Svg,
    left: float,
    top: float,
    rows: Sequence[Mapping[str, Any]],
    rules: Sequence[str],
    field: str,
    name: str,
) -> None:
    bottom = top + _HEIGHT
    exponents = [math.log10(row[field]) for row in rows]
    low, high = math.floor(min(exponents)), math.ceil(max(exponents))

    def x(share: float) -> float:
        return left + _WIDTH * share

    def y(value: float) -> float:
        logarithm = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        share = value if field == "accuracy" else logarithm
        return bottom - _HEIGHT * min(max(share, 0.0), 1.0)

    svg.text(left, top - 12, name, size=13, bold=True)
    across(svg, x, [(share / 5, f"{share / 5:g}") for share in range(6)], top, bottom)
    if field == "accuracy":
        upward(svg, y, [(share / 5, f"{share / 5:g}") for share in range(6)], left, left + _WIDTH)
    else:
        upward(
            svg, y, [(10.0**power, f"{10.0**power:g}") for power in range(low, high + 1)], left, left + _WIDTH
        )
    for number, rule in enumerate(rules):
        own = [row for row in rows if row["rule"] == rule]
        at = [(row["share of the time"], row[field], row[f"{field}_half"] or 0.0) for row in own]
        band = [(x(share), y(value + half)) for share, value, half in at]
        band += [(x(share), y(value - half)) for share, value, half in reversed(at)]
        svg.polygon(band, color(number), 0.15)
        svg.line([(x(share), y(value)) for share, value, _ in at], color(number), 2.0, 0.95)
