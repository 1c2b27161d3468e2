"""A chart as SVG drawn by hand: the drawing stretches, the words around it are text and do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.reporting.blocks import Axis, Chart, Curve

__all__ = ["STYLE", "chart_html"]

_WIDTH, _HEIGHT = 1000.0, 320.0
_COLOURS = 7
STYLE = """
.plot{position:relative;height:17rem;margin:0 .8rem 1.7rem 4rem}
.plot svg{width:100%;height:100%;overflow:visible;display:block}
.curve{fill:none;stroke-width:1.7;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.first{stroke-width:3.4}
.dot{stroke-width:7;stroke-linecap:round;vector-effect:non-scaling-stroke}
.grid{stroke:var(--rule);stroke-width:1;vector-effect:non-scaling-stroke;fill:none}
.y{position:absolute;right:100%;margin-right:.45rem;transform:translateY(-50%);font-size:.8rem;
 color:var(--soft);white-space:nowrap}
.x{position:absolute;top:100%;transform:translateX(-50%);margin-top:.3rem;font-size:.8rem;color:var(--soft);
 white-space:nowrap}
.axis{font-size:.8rem;color:var(--soft);text-align:center;margin:0}
.legend{display:flex;flex-wrap:wrap;gap:.15rem 1rem;font-size:.85rem;margin:.3rem 0 .7rem;padding:0;
 list-style:none}
.legend svg{width:1.9rem;height:.7rem;margin-right:.35rem;vertical-align:0}
""" + "".join(
    f".s{k}{{stroke:var(--s{k % _COLOURS})"
    + (";stroke-dasharray:" + ("", "7 4", "2 3")[k // _COLOURS] if k >= _COLOURS else "")
    + "}\n"
    for k in range(3 * _COLOURS)
)
"""Twenty-one styles: seven colours, drawn through, dashed and dotted; the page defines --s0 to --s6."""


def chart_html(chart: Chart, number: int) -> str:
    """Return the figure; `number` makes its ids unique on the page."""
    grid = "".join(
        f'<path d="M0 {_place(chart.y, value, _HEIGHT, True):.1f}H{_WIDTH:.0f}" class="grid"/>'
        for value, _ in chart.y.ticks
    )
    drawn = "".join(_curve(curve, chart.x, chart.y) for curve in reversed(chart.curves))
    beside = "".join(
        f'<span class="y" style="top:{_place(chart.y, value, 100, True):.2f}%">{escape(text)}</span>'
        for value, text in chart.y.ticks
    )
    below = "".join(
        f'<span class="x" style="left:{_place(chart.x, value, 100, False):.2f}%">{escape(text)}</span>'
        for value, text in chart.x.ticks
    )
    legend = "".join(
        f'<li><svg viewBox="0 0 30 10" aria-hidden="true"><path d="M0 5H30" class="curve{_first(curve)} '
        f's{curve.style % 21}"/></svg>{escape(curve.name)}</li>'
        for curve in chart.curves
    )
    ids = f"t{number} d{number}"
    return (
        f'<figcaption>{escape(chart.title)}</figcaption><ul class="legend">{legend}</ul>'
        f'<div class="plot" aria-hidden="false"><svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" '
        f'preserveAspectRatio="none" role="img" aria-labelledby="{ids}">'
        f'<title id="t{number}">{escape(chart.title)}</title><desc id="d{number}">{escape(chart.description)}'
        f"</desc>{grid}{drawn}</svg>{beside}{below}</div>"
        f'<p class="axis">{escape(chart.x.label)}; upward: {escape(chart.y.label)}</p>'
    )


def _first(curve: Curve) -> str:
    return " first" if curve.style == 0 else ""


def _curve(curve: Curve, x: Axis, y: Axis) -> str:
    at = [(_place(x, a, _WIDTH, False), _place(y, b, _HEIGHT, True)) for a, b in curve.points]
    if not at:
        return ""
    path = _steps(at) if curve.stepped else "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in at)
    style = f"s{curve.style % 21}"
    drawn = f'<path d="{path}" class="curve{_first(curve)} {style}"/>'
    if curve.dotted:
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in at)
        drawn += f'<path d="{dots}" class="dot {style}" style="stroke-dasharray:none"/>'
    return drawn


def _steps(at: Sequence[tuple[float, float]]) -> str:
    """Draw a step function to the right end of the chart."""
    first = at[0]
    rest = "".join(f"H{a:.1f}V{b:.1f}" for a, b in at[1:])
    return f"M{first[0]:.1f} {first[1]:.1f}{rest}H{_WIDTH:.0f}"


def _place(axis: Axis, value: float, length: float, upward: bool) -> float:
    if axis.log:
        low, high = math.log10(axis.low), math.log10(axis.high)
        share = (math.log10(max(value, axis.low)) - low) / (high - low)
    else:
        share = (value - axis.low) / (axis.high - axis.low)
    return length * (1 - share if upward else share)
