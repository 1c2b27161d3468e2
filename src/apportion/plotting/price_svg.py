"""The price of fairness: objective and least share over how much of the fair levels is kept."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.plotting.palette import FAINT, IDLE, INK, color
from apportion.plotting.svg import Svg, clipped

__all__ = ["price_svg"]

_WIDTH, _LEFT, _TOP, _RIGHT, _HEIGHT = 760.0, 70.0, 92.0, 30.0, 300.0


def price_svg(
    title: str,
    keep: Sequence[float],
    objective: Sequence[float],
    bound: Sequence[float | None],
    least: Sequence[float | None],
) -> str:
    """Return the drawing.

    Parameters
    ----------
    title
        Above it.
    keep
        The part of every level that is kept, from 0 to 1, rising.
    objective
        The objective at each; drawn in parts of the best of them.
    bound
        Its bound at each, a dashed line to it where it is more than a thousandth of the best away.
    least
        The least share over weight at each; drawn in parts of the largest of them.
    """
    svg = Svg(_WIDTH)
    svg.text(_LEFT, 26, clipped(title, _WIDTH - _LEFT, 16), size=16, bold=True)
    best = max(map(abs, objective), default=1.0) or 1.0
    largest = max((one for one in least if one is not None), default=0.0) or 1.0
    series = (
        (f"objective, 100% is {best:.6g}", [abs(one) / best for one in objective]),
        (f"least share over weight, 100% is {largest:.4g}", [(one or 0.0) / largest for one in least]),
    )
    for place, (words, _) in enumerate(series):
        svg.rect(_LEFT + 330 * place, 44, 12, 12, color(place))
        svg.text(_LEFT + 330 * place + 18, 55, words, size=12)
    svg.text(_LEFT, _TOP - 12, "of what it can be", size=12, fill=FAINT)
    for step in range(6):
        part = step / 5
        y, x = _TOP + _HEIGHT * (1 - part), _LEFT + (_WIDTH - _LEFT - _RIGHT) * part
        svg.line([(_LEFT, y), (_WIDTH - _RIGHT, y)], INK if not step else IDLE, 1.0, 1.0)
        svg.text(_LEFT - 8, y + 4, f"{part:.0%}", size=11, anchor="end", fill=FAINT)
        svg.text(x, _TOP + _HEIGHT + 18, f"{part:.1f}", size=11, anchor="middle", fill=FAINT)
    for at, found, most in zip(keep, objective, bound, strict=True):
        if most is not None and abs(most - found) > 1e-3 * best:
            x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * at
            ends = [(x, _TOP + _HEIGHT * (1 - min(1.0, abs(one) / best))) for one in (found, most)]
            svg.line(ends, color(0), 1.2, 0.75, dashed=True)
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    svg.text(middle, _TOP + _HEIGHT + 40, "part of every fair level that is kept", size=12, anchor="middle")
    for place, (_, parts) in enumerate(series):
        points = [
            (_LEFT + (_WIDTH - _LEFT - _RIGHT) * at, _TOP + _HEIGHT * (1 - part))
            for at, part in zip(keep, parts, strict=True)
        ]
        svg.line(points, color(place), 2.0, 1.0)
        for x, y in points:
            svg.rect(x - 3, y - 3, 6, 6, color(place))
    told = f"Objective and least share where none to all of every fair level is kept, {len(keep)} points."
    return svg.finish(_TOP + _HEIGHT + 58, title, told)
