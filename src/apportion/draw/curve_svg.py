"""Two curves: predicted against measured step times on logarithmic axes, and the price of fairness."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.draw.svg import FAINT, IDLE, INK, Svg, clipped, color

__all__ = ["fit_svg", "price_svg"]


_WIDTH, _PRICE_LEFT, _PRICE_TOP, _PRICE_RIGHT, _HEIGHT = 760.0, 70.0, 92.0, 30.0, 300.0


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
    svg.text(_PRICE_LEFT, 26, clipped(title, _WIDTH - _PRICE_LEFT, 16), size=16, bold=True)
    best = max(map(abs, objective), default=1.0) or 1.0
    largest = max((one for one in least if one is not None), default=0.0) or 1.0
    series = (
        (f"objective, 100% is {best:.6g}", [abs(one) / best for one in objective]),
        (f"least share over weight, 100% is {largest:.4g}", [(one or 0.0) / largest for one in least]),
    )
    for place, (words, _) in enumerate(series):
        svg.rect(_PRICE_LEFT + 330 * place, 44, 12, 12, color(place))
        svg.text(_PRICE_LEFT + 330 * place + 18, 55, words, size=12)
    svg.text(_PRICE_LEFT, _PRICE_TOP - 12, "of what it can be", size=12, fill=FAINT)
    for step in range(6):
        part = step / 5
        y, x = _PRICE_TOP + _HEIGHT * (1 - part), _PRICE_LEFT + (_WIDTH - _PRICE_LEFT - _PRICE_RIGHT) * part
        svg.line([(_PRICE_LEFT, y), (_WIDTH - _PRICE_RIGHT, y)], INK if not step else IDLE, 1.0, 1.0)
        svg.text(_PRICE_LEFT - 8, y + 4, f"{part:.0%}", size=11, anchor="end", fill=FAINT)
        svg.text(x, _PRICE_TOP + _HEIGHT + 18, f"{part:.1f}", size=11, anchor="middle", fill=FAINT)
    for at, found, most in zip(keep, objective, bound, strict=True):
        if most is not None and abs(most - found) > 1e-3 * best:
            x = _PRICE_LEFT + (_WIDTH - _PRICE_LEFT - _PRICE_RIGHT) * at
            ends = [(x, _PRICE_TOP + _HEIGHT * (1 - min(1.0, abs(one) / best))) for one in (found, most)]
            svg.line(ends, color(0), 1.2, 0.75, dashed=True)
    middle = (_PRICE_LEFT + _WIDTH - _PRICE_RIGHT) / 2
    svg.text(
        middle, _PRICE_TOP + _HEIGHT + 40, "part of every fair level that is kept", size=12, anchor="middle"
    )
    for place, (_, parts) in enumerate(series):
        points = [
            (_PRICE_LEFT + (_WIDTH - _PRICE_LEFT - _PRICE_RIGHT) * at, _PRICE_TOP + _HEIGHT * (1 - part))
            for at, part in zip(keep, parts, strict=True)
        ]
        svg.line(points, color(place), 2.0, 1.0)
        for x, y in points:
            svg.rect(x - 3, y - 3, 6, 6, color(place))
    caption = f"Objective and least share where none to all of every fair level is kept, {len(keep)} points."
    return svg.finish(_PRICE_TOP + _HEIGHT + 58, title, caption)


_SIDE, _LEFT, _TOP, _RIGHT = 460.0, 80.0, 84.0, 190.0
_MOST_POINTS = 2000
_FEW = 200
"""Up to so many points are drawn larger and opaque; more shine through where they crowd."""


def fit_svg(
    measured: NDArray[np.float64], predicted: NDArray[np.float64], held_out: NDArray[np.bool_], subtitle: str
) -> str:
    """Return an SVG with one point a row; on the diagonal the model is right.

    Parameters
    ----------
    measured, predicted
        float64 [rows], seconds, above 0. Of more than 2000 rows evenly spaced ones are drawn.
    held_out
        bool [rows]: rows the model was not fitted to, in another colour and on top.
    subtitle
        One line under the title.
    """
    low = math.floor(10 * math.log10(min(measured.min(), predicted.min()))) / 10
    high = max(math.ceil(10 * math.log10(max(measured.max(), predicted.max()))) / 10, low + 0.1)
    svg = Svg(_LEFT + _SIDE + _RIGHT)
    svg.text(_LEFT, 26, "Predicted against measured step time", size=16, bold=True)
    svg.text(_LEFT, 46, subtitle, size=12, fill=FAINT)

    def place(seconds: float) -> float:
        return (math.log10(seconds) - low) / (high - low) * _SIDE

    for tick in _ticks(10**low, 10**high):
        at = place(tick)
        svg.rect(_LEFT + at, _TOP, 1, _SIDE, IDLE)
        svg.rect(_LEFT, _TOP + _SIDE - at, _SIDE, 1, IDLE)
        svg.text(_LEFT + at, _TOP + _SIDE + 18, f"{tick:g}", size=11, anchor="middle", fill=FAINT)
        svg.text(_LEFT - 8, _TOP + _SIDE - at + 4, f"{tick:g}", size=11, anchor="end", fill=FAINT)
    diagonal = [
        (_LEFT, _TOP + _SIDE - 1),
        (_LEFT + _SIDE - 1, _TOP),
        (_LEFT + _SIDE, _TOP + 1),
        (_LEFT + 1, _TOP + _SIDE),
    ]
    svg.polygon(diagonal, FAINT, 0.8)
    svg.text(_LEFT + _SIDE / 2, _TOP + _SIDE + 40, "measured, seconds per step", size=12, anchor="middle")
    svg.text(_LEFT, _TOP - 6, "predicted, seconds per step", size=12)
    drawn = np.unique(np.linspace(0, measured.size - 1, min(measured.size, _MOST_POINTS)).astype(int))
    radius, opacity = (4.5, 0.9) if drawn.size <= _FEW else (3.0, 0.4)
    for fill, rows in ((color(0), drawn[~held_out[drawn]]), (color(6), drawn[held_out[drawn]])):
        for row in rows.tolist():
            x = _LEFT + place(float(measured[row]))
            y = _TOP + _SIDE - place(float(predicted[row]))
            diamond = [(x - radius, y), (x, y - radius), (x + radius, y), (x, y + radius)]
            svg.polygon(diamond, fill, opacity)
    legend = [(color(0), f"fitted: {int((~held_out).sum())} rows")]
    if held_out.any():
        legend.append((color(6), f"held out: {int(held_out.sum())} rows"))
    for line, (fill, label) in enumerate(legend):
        svg.rect(_LEFT + _SIDE + 16, _TOP + 22 * line, 12, 12, fill)
        svg.text(_LEFT + _SIDE + 34, _TOP + 22 * line + 11, label, size=12)
    description = f"{measured.size} measured steps and what the fitted model says of each. {subtitle}"
    return svg.finish(_TOP + _SIDE + 60, "Predicted against measured step time", description)


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten within the range; its ends where there are none."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    inside = [tick for tick in found if low <= tick <= high]
    return inside or [low, high]
