"""How a cluster was shared over time: what tenants had of what was due, Jain's index, finish-time ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.plotting.palette import FAINT, IDLE, INK, OTHERS, color
from apportion.plotting.svg import Svg, clipped
from apportion.simulation.report_charts import nice_ticks

__all__ = ["FairnessPicture", "fairness_svg"]

_WIDTH, _LEFT, _RIGHT, _TOP = 960.0, 70.0, 190.0, 56.0
_PANEL, _GAP = 150.0, 58.0
_BINS = 240
_SHOWN = 8


@dataclass(frozen=True, slots=True, eq=False)
class FairnessPicture:
    """What is drawn.

    Attributes
    ----------
    title
        Above it all.
    tenants
        Their names.
    end_s
        float64 [rounds]: when each round ended.
    held, due
        float64 [rounds, tenants]: GPUs.
    jain
        float64 [rounds]; NaN where nobody asked.
    completed_s, ratio, tenant
        [jobs]: completion, finish-time ratio and tenant; NaN where a job was not completed.
    """

    title: str
    tenants: Sequence[str]
    end_s: NDArray[np.float64]
    held: NDArray[np.float64]
    due: NDArray[np.float64]
    jain: NDArray[np.float64]
    completed_s: NDArray[np.float64]
    ratio: NDArray[np.float64]
    tenant: NDArray[np.int64]


def fairness_svg(picture: FairnessPicture) -> str:
    """Return the drawing: three panels over one axis of time."""
    svg = Svg(_WIDTH)
    svg.text(_LEFT, 26, clipped(picture.title, _WIDTH - _LEFT, 16), size=16, bold=True)
    end = float(picture.end_s[-1]) if picture.end_s.size else 1.0
    shown = _largest(picture)
    edges = np.linspace(0.0, end, min(_BINS, max(1, picture.end_s.size)) + 1)
    panels = _TOP, _TOP + _PANEL + _GAP, _TOP + 2 * (_PANEL + _GAP)
    _gpus(svg, picture, shown, edges, panels[0])
    _jain(svg, picture, edges, panels[1])
    _ratios(svg, picture, shown, end, panels[2])
    for top in panels:
        _time_axis(svg, end, top + _PANEL)
    for place, tenant in enumerate(shown):
        _key(svg, place, color(place), picture.tenants[tenant])
    if len(shown) < len(picture.tenants):
        _key(svg, len(shown), OTHERS, f"{len(picture.tenants) - len(shown)} others")
    description = (
        "GPUs held and due by tenant, Jain's index, and finish-time ratios of completed jobs over time"
    )
    return svg.finish(panels[2] + _PANEL + 48, picture.title, description)


def _gpus(
    svg: Svg, picture: FairnessPicture, shown: Sequence[int], edges: NDArray[np.float64], top: float
) -> None:
    """Draw what tenants had, a line each, and what was due to them, dashed."""
    most = float(max(picture.held.max(initial=1.0), picture.due.max(initial=1.0)))
    _frame(svg, top, "GPUs held by each tenant (dashed: due to it)", most)
    for place, tenant in enumerate(shown):
        for series, dashed in ((picture.due, True), (picture.held, False)):
            points = _points(picture.end_s, series[:, tenant], edges, top, most)
            if len(points) > 1:
                svg.line(points, color(place), 1.2 if dashed else 2.0, 0.75 if dashed else 1.0, dashed=dashed)


def _jain(svg: Svg, picture: FairnessPicture, edges: NDArray[np.float64], top: float) -> None:
    _frame(svg, top, "Jain's index of what tenants had of what was due (1: all alike)", 1.0)
    known = np.isfinite(picture.jain)
    points = _points(picture.end_s[known], picture.jain[known], edges, top, 1.0)
    if len(points) > 1:
        svg.line(points, INK, 2.0, 1.0)


def _ratios(svg: Svg, picture: FairnessPicture, shown: Sequence[int], end: float, top: float) -> None:
    """Draw a mark for every completed job, on a scale of doublings."""
    done = np.flatnonzero(np.isfinite(picture.ratio) & (picture.ratio > 0))
    highest = max(1.0, float(np.ceil(np.log2(picture.ratio[done].max(initial=2.0)))))
    lowest = min(-1.0, float(np.floor(np.log2(picture.ratio[done].min(initial=0.5)))))
    svg.text(_LEFT, top - 10, "Finish-time ratio of completed jobs (1 or less is fair)", size=13)
    for power in range(int(lowest), int(highest) + 1, max(1, int(highest - lowest) // 6)):
        y = top + _PANEL * (highest - power) / (highest - lowest)
        svg.line([(_LEFT, y), (_WIDTH - _RIGHT, y)], INK if power == 0 else IDLE, 1.0, 1.0)
        svg.text(_LEFT - 8, y + 4, f"{2.0**power:g}", size=11, anchor="end", fill=FAINT)
    paint = {tenant: color(place) for place, tenant in enumerate(shown)}
    for job in done.tolist():
        x = _LEFT + (_WIDTH - _RIGHT - _LEFT) * float(picture.completed_s[job]) / end
        y = top + _PANEL * (highest - float(np.log2(picture.ratio[job]))) / (highest - lowest)
        svg.rect(x - 2, y - 2, 4, 4, paint.get(int(picture.tenant[job]), OTHERS))


def _largest(picture: FairnessPicture) -> list[int]:
    """Return the tenants that are drawn in a colour of their own, in their order."""
    order = np.argsort(-picture.held.sum(axis=0), kind="stable")[:_SHOWN]
    return sorted(order.tolist())


def _points(
    end_s: NDArray[np.float64],
    series: NDArray[np.float64],
    edges: NDArray[np.float64],
    top: float,
    most: float,
) -> list[tuple[float, float]]:
    """Return the line through the means of a series over stretches of time."""
    if not end_s.size:
        return []
    place = np.clip(np.searchsorted(edges, end_s, side="left") - 1, 0, edges.size - 2)
    count = np.bincount(place, minlength=edges.size - 1)
    mean = np.bincount(place, weights=series, minlength=edges.size - 1) / np.maximum(count, 1)
    middle = (edges[:-1] + edges[1:]) / 2
    x = _LEFT + (_WIDTH - _RIGHT - _LEFT) * middle / edges[-1]
    y = top + _PANEL * (1 - mean / most)
    return [(float(x[bin_]), float(y[bin_])) for bin_ in np.flatnonzero(count).tolist()]


def _frame(svg: Svg, top: float, title: str, most: float) -> None:
    svg.text(_LEFT, top - 10, title, size=13)
    for part in (0.0, 0.5, 1.0):
        y = top + _PANEL * (1 - part)
        svg.line([(_LEFT, y), (_WIDTH - _RIGHT, y)], IDLE, 1.0, 1.0)
        svg.text(_LEFT - 8, y + 4, f"{most * part:.4g}", size=11, anchor="end", fill=FAINT)


def _time_axis(svg: Svg, end: float, y: float) -> None:
    unit, name = (3600.0, "h") if end >= 2 * 3600 else (60.0, "min")
    for tick in nice_ticks(end / unit):
        if tick * unit <= end:
            x = _LEFT + (_WIDTH - _RIGHT - _LEFT) * tick * unit / end
            svg.line([(x, y), (x, y + 4)], FAINT, 1.0, 1.0)
            svg.text(x, y + 18, f"{tick:g} {name}", size=11, anchor="middle", fill=FAINT)


def _key(svg: Svg, place: int, fill: str, name: str) -> None:
    y = _TOP + 22 * place
    svg.rect(_WIDTH - _RIGHT + 24, y, 14, 14, fill)
    svg.text(_WIDTH - _RIGHT + 46, y + 12, clipped(name, _RIGHT - 52, 13), size=13)
