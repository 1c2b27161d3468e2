"""Axes that the study's drawings share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apportion.draw.svg import FAINT, IDLE, Svg

__all__ = ["across", "hours", "legend", "upward"]


def across(
    svg: Svg, at: Callable[[float], float], ticks: Sequence[tuple[float, str]], top: float, bottom: float
) -> None:
    """Draw vertical grid lines and name them below."""
    for value, label in ticks:
        svg.rect(at(value) - 0.5, top, 1, bottom - top, IDLE)
        svg.text(at(value), bottom + 16, label, size=11, anchor="middle", fill=FAINT)


def upward(
    svg: Svg, at: Callable[[float], float], ticks: Sequence[tuple[float, str]], left: float, right: float
) -> None:
    """Draw horizontal grid lines and name them on the left."""
    for value, label in ticks:
        svg.rect(left, at(value) - 0.5, right - left, 1, IDLE)
        svg.text(left - 8, at(value) + 4, label, size=11, anchor="end", fill=FAINT)


def legend(svg: Svg, x: float, y: float, entries: Sequence[tuple[str, str]], step: float) -> None:
    """Name colours in a row."""
    for number, (fill, label) in enumerate(entries):
        svg.rect(x + number * step, y - 9, 14, 4, fill)
        svg.text(x + number * step + 20, y, label, size=12)


def hours(seconds: float) -> str:
    """Return a span of time in the unit that suits it."""
    if seconds < 3600:
        return f"{seconds / 60:g} min"
    return f"{seconds / 3600:g} h"
