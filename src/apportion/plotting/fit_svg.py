"""Goodness of fit: predicted against measured step times, on logarithmic axes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from apportion.plotting.palette import FAINT, IDLE, color
from apportion.plotting.svg import Svg

__all__ = ["fit_svg"]

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
