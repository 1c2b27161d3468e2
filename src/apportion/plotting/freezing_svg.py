"""A layer-freezing plan as a drawing: GPUs by job, and each job's effective progress over GPUs and depth.

One bar per GPU type; below, one panel per job with a line per depth, the darker the deeper, and the choice
marked; up to 24 jobs, those with most GPUs of more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.instances.freezing import FreezingInstance, FreezingJob
from apportion.plotting.palette import FAINT, IDLE, INK, color
from apportion.plotting.svg import Svg, clipped

__all__ = ["freezing_svg"]

_WIDTH, _MARGIN = 1000.0, 24.0
_BAR_X, _BAR_WIDTH, _BAR_STEP = 160.0, 780.0, 28.0
_PANELS, _COLUMNS, _PANEL_WIDTH, _PANEL_HEIGHT = 24, 3, 300.0, 190.0
_PLOT_X, _PLOT_Y, _PLOT_WIDTH, _PLOT_HEIGHT = 46.0, 40.0, 236.0, 112.0


def freezing_svg(instance: FreezingInstance, plan: Mapping[str, Any]) -> str:
    """Return the drawing of a feasible plan.

    Parameters
    ----------
    instance
        The instance.
    plan
        ``{"configuration": {job: {"gpu_type", "gpus", "depth"}}}``.
    """
    chosen = plan["configuration"]
    shown = sorted(instance.jobs, key=lambda job: -chosen.get(job.id, {"gpus": 0})["gpus"])[:_PANELS]
    kept = {job.id for job in shown}
    jobs = [job for job in instance.jobs if job.id in kept]
    fills = {job.id: color(place) for place, job in enumerate(jobs)}
    frozen = sum(told["depth"] > 0 for told in chosen.values())
    facts = f"{len(chosen)} of {len(instance.jobs)} jobs run, {frozen} of them with frozen layers"
    title = instance.name or "Layer freezing"
    svg = Svg(_WIDTH)
    svg.text(_MARGIN, 40, clipped(title, 940, 20), size=20, bold=True)
    svg.text(_MARGIN, 64, facts, size=13, fill=FAINT)
    top = _bars(svg, 92, instance, chosen, fills)
    for index, job in enumerate(jobs):
        x = _MARGIN + (index % _COLUMNS) * (_PANEL_WIDTH + 26)
        _panel(svg, x, top + index // _COLUMNS * _PANEL_HEIGHT, job, chosen.get(job.id), fills[job.id])
    bottom = top + -(-len(jobs) // _COLUMNS) * _PANEL_HEIGHT
    if len(jobs) < len(instance.jobs):
        more = f"and {len(instance.jobs) - len(jobs)} more jobs with fewer GPUs"
        svg.text(_MARGIN, bottom + 10, more, size=13, fill=FAINT)
        bottom += 24
    return svg.finish(bottom + 10, title, facts)


def _bars(
    svg: Svg, top: float, instance: FreezingInstance, chosen: Mapping[str, Any], fills: Mapping[str, str]
) -> float:
    for name, total in instance.gpus.items():
        svg.text(_MARGIN, top + 15, clipped(name, 120, 13), size=13)
        svg.rect(_BAR_X, top, _BAR_WIDTH, 20, IDLE)
        x = _BAR_X
        for job in instance.jobs:
            told = chosen.get(job.id)
            if told is None or told["gpu_type"] != name:
                continue
            width = _BAR_WIDTH * told["gpus"] / total
            svg.open_group(f"{job.id}: {told['gpus']} GPUs, {told['depth']} of {job.layers} layers frozen")
            svg.rect(x, top, max(width - 1, 0.5), 20, fills.get(job.id, FAINT), hatched=told["depth"] > 0)
            svg.close_group()
            x += width
        top += _BAR_STEP
    svg.text(_BAR_X, top + 8, "GPUs by job; striped where layers are frozen", size=11, fill=FAINT)
    return top + 30


def _panel(svg: Svg, x: float, y: float, job: FreezingJob, told: Any, fill: str) -> None:
    if told is None:
        fact, gpu_type = "waits", job.menu[0].gpu_type if job.menu else ""
    else:
        gpu_type = told["gpu_type"]
        fact = f"{told['gpus']} x {gpu_type}, {told['depth']} of {job.layers} layers frozen"
    svg.rect(x, y + 4, 10, 10, fill)
    svg.text(x + 16, y + 14, clipped(job.id, 270, 13), size=13, bold=True)
    svg.text(x + 16, y + 30, clipped(fact, 270, 11), size=11, fill=FAINT)
    rows = sorted((row for row in job.menu if row.gpu_type == gpu_type), key=lambda row: row.gpus)
    most = max((value for row in rows for value in row.effective_progress), default=0.0)
    left, top, bottom = x + _PLOT_X, y + _PLOT_Y, y + _PLOT_Y + _PLOT_HEIGHT
    svg.rect(left, bottom, _PLOT_WIDTH, 1, FAINT)
    if not rows or most <= 0:
        return
    svg.text(left - 6, top + 8, f"{most:.4g}", size=10, anchor="end", fill=FAINT)
    step = _PLOT_WIDTH / len(rows)
    every = -(-len(rows) // 8)
    lines: dict[int, list[tuple[float, float]]] = {}
    for index, row in enumerate(rows):
        at = left + (index + 0.5) * step
        if index % every == 0:
            svg.text(at, bottom + 14, str(row.gpus), size=10, anchor="middle", fill=FAINT)
        for depth, progress in zip(row.depths, row.effective_progress, strict=True):
            lines.setdefault(depth, []).append((at, bottom - _PLOT_HEIGHT * progress / most))
            if told is not None and (row.gpus, depth) == (told["gpus"], told["depth"]):
                svg.rect(at - 5, lines[depth][-1][1] - 5, 10, 10, fill, stroke=INK)
    svg.text(left + _PLOT_WIDTH, bottom + 28, "GPUs", size=10, anchor="end", fill=FAINT)
    for depth, points in lines.items():
        _line(svg, points, fill, 0.25 + 0.75 * depth / job.layers)


def _line(svg: Svg, points: list[tuple[float, float]], fill: str, opacity: float) -> None:
    for x, y in points:
        svg.polygon([(x - 2, y), (x, y - 2), (x + 2, y), (x, y + 2)], fill, opacity)
    if len(points) > 1:
        upper = [(x, y - 0.8) for x, y in points]
        svg.polygon([*upper, *((x, y + 0.8) for x, y in reversed(points))], fill, opacity)
