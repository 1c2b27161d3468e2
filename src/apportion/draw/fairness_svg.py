"""How a cluster was shared over time: what tenants had of what was due, Jain's index, finish-time ratios.

A plan of jobs that belong to tenants, as a drawing: who uses how much of what, over what is guaranteed.

One row per tenant without children and capacity, at most 60; its jobs one after another, hatched where they
lie beyond the guarantee, which is outlined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.draw.report_page import nice_ticks
from apportion.draw.svg import FAINT, IDLE, INK, OTHERS, Svg, clipped, color, ink_on
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.check import ledger_of, positions, shared_capacities

__all__ = ["FairnessPicture", "fairness_svg", "tenants_svg"]


_TENANTS_WIDTH, _MARGIN, _BAR_X, _BAR_WIDTH = 1000.0, 24.0, 230.0, 640.0
_ROW, _BAR, _ROWS = 34.0, 22.0, 60


def tenants_svg(instance: Any, plan: Mapping[str, Any], *_: object) -> str:
    """Return the drawing of a feasible plan of an instance with tenants; prices and bound are not drawn."""
    kind = kind_of(instance)
    ledger = ledger_of(kind, instance)
    places = positions(kind, instance, plan, ledger)
    capacities = shared_capacities(kind, instance)
    leaves = ledger.tree.leaves
    svg, y = Svg(_TENANTS_WIDTH), 40.0
    svg.text(_MARGIN, y, clipped(instance.name or kind.name, 940, 20), size=20, bold=True)
    y += 24
    key = "each bar: a tenant's jobs; outline: what it is guaranteed; hatched: borrowed"
    svg.text(_MARGIN, y, key, size=13, fill=FAINT)
    drawn, caption = 0, list[str]()
    for capacity, total in capacities.items():
        guaranteed = ledger.tree.guarantees(capacity)
        y += 40
        svg.text(_MARGIN, y, f"{clipped(capacity, 300, 15)}: {total} in all", size=15, bold=True)
        step = _BAR_WIDTH / max(1, total)
        for number, leaf in enumerate(leaves):
            if drawn >= _ROWS:
                break
            drawn, y = drawn + 1, y + (12 if number == 0 else _ROW)
            svg.text(_BAR_X - 12, y + 16, clipped(leaf, 180, 13), anchor="end")
            svg.rect(_BAR_X, y, _BAR_WIDTH, _BAR, IDLE)
            used = 0
            for job in sorted(ledger.members(leaf)):
                place = places.get(job)
                use = 0 if place is None else ledger.options[job][place].uses.get(capacity, 0)
                if use:
                    _segment(svg, (y, step), (used, use, guaranteed[leaf]), color(number), f"{job}: {use}")
                    used += use
            svg.rect(_BAR_X, y - 2, guaranteed[leaf] * step, _BAR + 4, "none", stroke=INK)
            beyond = f", {used - guaranteed[leaf]} borrowed" if used > guaranteed[leaf] else ""
            svg.text(_BAR_X + _BAR_WIDTH + 10, y + 16, f"{used} of {guaranteed[leaf]}{beyond}", size=12)
            caption.append(f"{leaf} uses {used} {capacity}, {guaranteed[leaf]} guaranteed")
        y += _BAR
    return svg.finish(y + 30, instance.name or kind.name, "; ".join(caption))


def _segment(svg: Svg, at: tuple[float, float], amounts: tuple[int, int, int], fill: str, text: str) -> None:
    """Paint one job: the part within the guarantee plain, the part beyond it hatched."""
    (y, step), (used, use, guaranteed) = at, amounts
    within = max(0, min(use, guaranteed - used))
    x = _BAR_X + used * step
    svg.open_group(text)
    svg.rect(x, y, within * step, _BAR, fill)
    svg.rect(x + within * step, y, (use - within) * step, _BAR, fill, hatched=True)
    svg.line([(x, y), (x, y + _BAR)], "#ffffff", 1.5, 1.0)
    if use * step > 50 and within == use:
        svg.text(x + 6, y + 15, clipped(text, use * step - 10, 11), size=11, fill=ink_on(fill))
    svg.close_group()


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
