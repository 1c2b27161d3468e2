"""A drawing of means with their intervals: one row a case, one mark a series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apportion.draw.svg import FAINT, IDLE, INK, Svg, color, text_width
from paper_repro.joint.tables import Estimate

__all__ = ["dots"]

_WIDTH, _RIGHT, _SIZE, _MARK = 960.0, 40.0, 13.0, 6.5


def dots(
    title: str,
    axis: str,
    cases: Sequence[str],
    series: Mapping[str, Mapping[str, Estimate]],
    marked: float | None = 1.0,
) -> str:
    """Return the drawing as SVG.

    Parameters
    ----------
    title, axis
        Words above the drawing.
    cases
        Rows from above.
    series
        Estimates by series and case; a case that a series lacks has no mark of it.
    marked
        A value with a dark line.
    """
    left = 40.0 + max(text_width(case, _SIZE) for case in cases)
    top = 104.0 + 22.0 * ((len(series) - 1) // 3)
    height = 14.0 + _MARK * max(len(series), 2)
    bottom = top + height * len(cases)
    ends = [one.mean + (one.half or 0.0) for estimates in series.values() for one in estimates.values()]
    step = _step(max(ends))
    reach = step * (int(max(ends) / step) + 1)
    scale = (_WIDTH - left - _RIGHT) / reach
    svg = Svg(_WIDTH)
    svg.text(24, 32, title, size=17, bold=True)
    svg.text(24, 54, axis, size=_SIZE, fill=FAINT)
    for number, name in enumerate(series):
        x, y = 24.0 + (number % 3) * 300.0, 78.0 + 22.0 * (number // 3)
        svg.rect(x, y - 9, 10, 10, color(number))
        svg.text(x + 16, y, name, size=12)
    for tick in range(round(reach / step) + 1):
        x = left + tick * step * scale
        svg.rect(x - 0.5, top, 1, bottom - top, IDLE)
        svg.text(x, bottom + 18, f"{tick * step:g}", size=11, anchor="middle", fill=FAINT)
    if marked is not None:
        svg.rect(left + marked * scale - 0.75, top, 1.5, bottom - top, INK)
    for row, case in enumerate(cases):
        middle = top + height * (row + 0.5)
        svg.text(left - 12, middle + 4, case, size=_SIZE, anchor="end")
        for number, (name, estimates) in enumerate(series.items()):
            if case not in estimates:
                continue
            one, y = estimates[case], middle + (number - (len(series) - 1) / 2) * _MARK
            half = one.half or 0.0
            low = max(one.mean - half, 0.0)
            svg.open_group(f"{case}, {name}: {one}")
            svg.rect(left + low * scale, y - 0.75, (one.mean + half - low) * scale, 1.5, color(number))
            svg.rect(left + one.mean * scale - 3.5, y - 2.5, 7, 5, color(number))
            svg.close_group()
    return svg.finish(bottom + 36, title, f"{len(cases)} rows, {len(series)} series; means, 95 % intervals")


def _step(reach: float) -> float:
    """Return a round step that gives at most ten ticks."""
    return next(step for step in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 1e9) if reach / step <= 10)
