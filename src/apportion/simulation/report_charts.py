"""Charts of the report page, drawn by hand: the SVG stretches, the labels around it are text and do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLOURS", "Line", "bars", "gantt", "lines", "nice_ticks"]

COLOURS = ("#0b6e99", "#d1651a", "#3c7d3c", "#8a4fa3", "#b3273d", "#7a6a00", "#55606e")
_WIDTH, _HEIGHT = 1000.0, 300.0


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A curve.

    Attributes
    ----------
    name
        The name of the curve in the legend.
    x, y
        float64 [points].
    colour
        CSS colour.
    filled
        Whether the area below is filled.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    colour: str
    filled: bool = False


def nice_ticks(top: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 to at least `top`, about `count` steps.

    Examples
    --------
    >>> nice_ticks(88.0)
    [0.0, 25.0, 50.0, 75.0, 100.0]
    """
    if not top > 0:
        return [0.0, 1.0]
    raw = top / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(next(m for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9)) * power)
    return [step * k for k in range(int(np.ceil(top / step - 1e-9)) + 1)]


def lines(
    curves: Sequence[Line], title: str, unit: str, note: str = "", axis: str = "hours since the start"
) -> str:
    """Return curves over hours, or over what `axis` says."""
    right = max((float(curve.x[-1]) for curve in curves if curve.x.size), default=1.0) or 1.0
    ticks = nice_ticks(max((float(curve.y.max(initial=0.0)) for curve in curves), default=1.0))
    top = ticks[-1]
    drawn = []
    for curve in curves:
        x, y = curve.x / right * _WIDTH, _HEIGHT - np.clip(curve.y / top, 0, 1) * _HEIGHT
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        if curve.filled and x.size:
            area = f"0,{_HEIGHT:.0f} {points} {x[-1]:.1f},{_HEIGHT:.0f}"
            drawn.append(f'<polygon points="{area}" fill="{curve.colour}" fill-opacity=".22"/>')
        drawn.append(f'<polyline points="{points}" stroke="{curve.colour}" class="curve"/>')
    return _figure(title, unit, "".join(drawn), ticks, nice_ticks(right, 5), right, curves, note, axis=axis)


def gantt(
    started_h: Sequence[float | None],
    ended_h: Sequence[float | None],
    span_h: float,
    title: str,
    note: str = "",
) -> str:
    """Return one thin line per job from its admission to its completion; jobs top down."""
    count = max(len(started_h), 1)
    span = span_h or 1.0
    path = []
    for job, (begin, end) in enumerate(zip(started_h, ended_h, strict=True)):
        if begin is None:
            continue
        y = (job + 0.5) / count * _HEIGHT
        stop = span_h if end is None else end
        path.append(f"M{begin / span * _WIDTH:.1f} {y:.2f}H{stop / span * _WIDTH:.1f}")
    inner = f'<path d="{"".join(path)}" stroke="{COLOURS[0]}" class="job"/>'
    ticks = [tick for tick in nice_ticks(float(count)) if tick <= count]
    return _figure(title, "job", inner, ticks, nice_ticks(span, 5), span, (), note, downward=float(count))


def bars(rows: Sequence[tuple[str, Sequence[tuple[str, float, str]]]], title: str, note: str = "") -> str:
    """Return one stacked bar of percentages per row, 100 % wide: (row, [(part, per cent, colour)])."""
    top = max([100.0, *(sum(max(value, 0.0) for _, value, _ in parts) for _, parts in rows)])
    drawn = []
    for name, parts in rows:
        pieces = "".join(
            f'<i style="width:{max(value, 0.0) / top * 100:.2f}%;background:{colour}" '
            f'title="{escape(part)} {value:.2f} %"></i>'
            for part, value, colour in parts
        )
        text = ", ".join(f"{escape(part)} {value:.1f} %" for part, value, _ in parts)
        drawn.append(
            f'<div class="row"><b>{escape(name)}</b><div class="bar">{pieces}</div><span>{text}</span></div>'
        )
    kinds = {part: colour for _, parts in rows for part, _, colour in parts}
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(part)}</span>' for part, colour in kinds.items()
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="legend">{legend}</div>'
        f"{''.join(drawn)}{_note(note)}</figure>"
    )


def _figure(
    title: str,
    unit: str,
    inner: str,
    y_ticks: Sequence[float],
    x_ticks: Sequence[float],
    right: float,
    curves: Sequence[Line],
    note: str,
    downward: float | None = None,
    axis: str = "hours since the start",
) -> str:
    top = y_ticks[-1] if downward is None else downward
    at = [tick / top * 100 if downward is not None else 100 - tick / top * 100 for tick in y_ticks]
    grid = "".join(f'<path d="M0 {p / 100 * _HEIGHT:.1f}H{_WIDTH:.0f}" class="grid"/>' for p in at)
    left_labels = "".join(
        f'<span class="y" style="top:{p:.2f}%">{_number(tick)}</span>'
        for tick, p in zip(y_ticks, at, strict=True)
    )
    below = "".join(
        f'<span class="x" style="left:{tick / right * 100:.2f}%">{_number(tick)}</span>'
        for tick in x_ticks
        if tick <= right * 1.001
    )
    legend = "".join(
        f'<span><i style="background:{curve.colour}"></i>{escape(curve.name)}</span>' for curve in curves
    )
    svg = (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}">{grid}{inner}</svg>'
    )
    return (
        f"<figure><figcaption>{escape(title)}, {escape(unit)}</figcaption>"
        f'<div class="legend">{legend}</div><div class="plot">{svg}{left_labels}{below}</div>'
        f'<p class="axis">{escape(axis)}</p>{_note(note)}</figure>'
    )


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>' if text else ""


def _number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    if value >= 10_000:
        return f"{value / 1e3:g} k"
    return f"{value:g}"
