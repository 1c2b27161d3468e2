"""A layer-freezing plan as a drawing: GPUs by job, and each job's effective progress over GPUs and depth.

One bar per GPU type; below, one panel per job with a line per depth, the stronger the deeper, the choice
marked, and what is worth as much as the choice at the certificate's price of a GPU; up to 24 jobs, those with
most GPUs of more.

One job's menu: effective progress over GPUs, a line per depth, the choice, and its indifference curve.

At a price mu per GPU a configuration is worth its value less mu times its GPUs (the mirror image where values
are minimised). With value w (y / ref)^p of effective progress y, what is worth as much as the choice (g0, v0)
lies on

    y(g) = ref ((v0 +- mu (g - g0)) / w)^(1 / p),

a straight line for p = 1 alone. Progress is drawn as the objective sees it, less what a restart costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.draw.svg import FAINT, IDLE, INK, OTHERS, Svg, clipped, neighbourly
from apportion.instances.freezing import FreezingInstance, FreezingJob, FreezingRow

__all__ = [
    "PANEL_HEIGHT",
    "PANEL_WIDTH",
    "freezing_svg",
    "indifferent_progress",
    "menu_panel",
    "progress_seen",
]


PANEL_WIDTH, PANEL_HEIGHT = 300.0, 206.0
_LEFT, _TOP, _PANEL_WIDTH, _HEIGHT = 4.0, 54.0, 262.0, 106.0
_SAMPLES = 121


def menu_panel(
    svg: Svg,
    x: float,
    y: float,
    instance: FreezingInstance,
    job: FreezingJob,
    configuration: Mapping[str, Any] | None,
    fill: str,
    price: float | None,
) -> None:
    """Draw a job's menu on the GPU type it gets, or the first of its menu where it waits.

    Parameters
    ----------
    svg, x, y
        The drawing, and the upper left corner of the panel in it.
    instance, job
        The job and its instance.
    configuration
        Its configuration, ``None`` where it waits.
    fill
        Its colour.
    price
        The multiplier of that type's GPUs, ``None`` for no curve.
    """
    gpu_type = _shown_type(job, configuration)
    fact = f"waits; its menu on {gpu_type}" if gpu_type else "waits"
    if configuration is not None:
        fact = f"{configuration['gpus']} x {gpu_type}, {configuration['depth']} of {job.layers} layers frozen"
    svg.rect(x, y + 4, 10, 10, fill)
    svg.text(x + 16, y + 14, clipped(job.id, 280, 13), size=13, bold=True)
    svg.text(x + 16, y + 30, clipped(fact, 280, 11), size=11, fill=FAINT)
    rows = sorted((row for row in job.menu if row.gpu_type == gpu_type), key=lambda row: row.gpus)
    left, top, bottom = x + _LEFT, y + _TOP, y + _TOP + _HEIGHT
    svg.rect(left, bottom, _PANEL_WIDTH, 1, FAINT)
    seen = {row.gpus: progress_seen(instance, job, row) for row in rows}
    most = max((float(values.max()) for values in seen.values() if values.size), default=0.0)
    if most <= 0:
        return
    svg.rect(left, top, _PANEL_WIDTH, 0.5, OTHERS)
    svg.rect(left, top, 1, _HEIGHT, FAINT)
    tallest = f"{most:,.0f}" if most >= 1000 else f"{most:.4g}"
    svg.text(left, top - 4, f"{tallest} samples/s", size=10, fill=FAINT)
    svg.text(left + _PANEL_WIDTH, bottom + 28, "GPUs", size=10, anchor="end", fill=FAINT)
    widest = rows[-1].gpus

    def at(gpus: float, progress: float) -> tuple[float, float]:
        return left + (_PANEL_WIDTH - 8) * gpus / widest, bottom - _HEIGHT * progress / most

    _ticks(svg, bottom, [(gpus, at(gpus, 0)[0]) for gpus in (0, *seen)])
    lines: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        for depth, progress in zip(row.depths, seen[row.gpus].tolist(), strict=True):
            lines.setdefault(depth, []).append(at(row.gpus, progress))
    for depth, points in lines.items():
        chosen = configuration is not None and configuration["depth"] == depth
        opacity = 0.4 + 0.6 * depth / job.layers
        svg.line(points, fill, 2.4 if chosen else 1.2, opacity)
        for px, py in points:
            svg.polygon([(px - 2, py), (px, py - 2), (px + 2, py), (px, py + 2)], fill, opacity)
    _name_depths(svg, lines, configuration, top, bottom)
    if price is not None:
        _curve(svg, instance, job, configuration, price, widest, most, at)
    if configuration is not None:
        row = next(row for row in rows if row.gpus == configuration["gpus"])
        px, py = at(row.gpus, float(seen[row.gpus][row.depths.index(configuration["depth"])]))
        svg.rect(px - 5, py - 5, 10, 10, fill, stroke=INK)


def progress_seen(instance: FreezingInstance, job: FreezingJob, row: FreezingRow) -> NDArray[np.float64]:
    """Return a row's effective progress by depth, each times its restart or rebuild factor."""
    now, progress = job.current, np.array(row.effective_progress, dtype=np.float64)
    if now is None:
        return progress
    if (now.gpu_type, now.gpus) == (row.gpu_type, row.gpus):
        rebuilt = max(0.0, 1.0 - job.rebuild_s / instance.round_s)
        return progress * np.where(np.array(row.depths) == now.depth, 1.0, rebuilt)
    lived, lost = job.age_s, job.restart_s
    return progress * (max(0.0, (lived - job.restarts * lost) / (lived + lost)) if lived + lost else 1.0)


def indifferent_progress(
    instance: FreezingInstance,
    job: FreezingJob,
    configuration: Mapping[str, Any] | None,
    price: float,
    gpus: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return which effective progress on other GPU counts is worth as much as the choice at a price.

    NaN where none is: where the price of fewer GPUs alone exceeds what the choice is worth, or no progress
    repays more.
    """
    reference = job.reference_progress or min(
        (value for row in job.menu for value in row.effective_progress if value > 0), default=1.0
    )
    value, used = instance.queue_penalty, 0
    if configuration is not None:
        row = next(
            row
            for row in job.menu
            if (row.gpu_type, row.gpus) == (configuration["gpu_type"], configuration["gpus"])
        )
        progress = float(progress_seen(instance, job, row)[row.depths.index(configuration["depth"])])
        if progress <= 0 or job.weight <= 0:
            return np.full(gpus.shape, np.nan)
        value, used = job.weight * math.pow(progress / reference, instance.power), row.gpus
    if job.weight <= 0:
        return np.full(gpus.shape, np.nan)
    sign = 1.0 if instance.power > 0 else -1.0
    wanted = (value + sign * price * (gpus - used)) / job.weight
    with np.errstate(over="ignore"):
        ratio = np.power(wanted, 1.0 / instance.power, out=np.full(gpus.shape, np.nan), where=wanted > 0)
    return np.asarray(reference * ratio, dtype=np.float64)


def _shown_type(job: FreezingJob, configuration: Mapping[str, Any] | None) -> str:
    if configuration is not None:
        return str(configuration["gpu_type"])
    return job.menu[0].gpu_type if job.menu else ""


def _ticks(svg: Svg, bottom: float, places: list[tuple[int, float]]) -> None:
    """Write GPU counts from the largest down, leaving out what would touch the one before."""
    free = math.inf
    for gpus, x in reversed(places):
        half = 3.2 * len(str(gpus)) + 2
        if x + half <= free:
            svg.rect(x - 0.5, bottom, 1, 4, FAINT)
            svg.text(x, bottom + 15, str(gpus), size=10, anchor="middle", fill=FAINT)
            free = x - half


def _name_depths(
    svg: Svg,
    lines: Mapping[int, list[tuple[float, float]]],
    configuration: Mapping[str, Any] | None,
    top: float,
    bottom: float,
) -> None:
    """Name the chosen, the shallowest and the deepest line beside its end, none over another."""
    wanted = [] if configuration is None else [configuration["depth"]]
    taken: list[float] = []
    for depth in dict.fromkeys([*wanted, min(lines), max(lines), *sorted(lines)]):
        if depth not in lines:
            continue
        x, y = lines[depth][-1]
        y = min(max(y + 3.5, top + 3.5), bottom)
        if all(abs(y - other) >= 10 for other in taken):
            taken.append(y)
            svg.text(x + 7, y, str(depth), size=10, fill=FAINT, bold=depth in wanted)


def _curve(
    svg: Svg,
    instance: FreezingInstance,
    job: FreezingJob,
    configuration: Mapping[str, Any] | None,
    price: float,
    widest: int,
    most: float,
    at: Any,
) -> None:
    gpus = np.linspace(0.0, widest, _SAMPLES)
    progress = indifferent_progress(instance, job, configuration, price, gpus)
    inside = np.flatnonzero(np.isfinite(progress) & (progress <= most))
    if inside.size > 1:  # monotone in g: what lies inside is one stretch
        svg.line([at(float(gpus[i]), float(progress[i])) for i in inside], INK, 1.2, 0.9, dashed=True)


_WIDTH, _MARGIN = 1000.0, 24.0
_BAR_X, _BAR_WIDTH, _BAR_STEP = 160.0, 780.0, 28.0
_PANELS, _COLUMNS = 24, 3
_TOLD_TYPES = 4


def freezing_svg(
    instance: FreezingInstance,
    plan: Mapping[str, Any],
    multipliers: Mapping[str, float] | None = None,
    *_: object,
) -> str:
    """Return the drawing of a feasible plan.

    Parameters
    ----------
    instance
        The instance.
    plan
        ``{"configuration": {job: {"gpu_type", "gpus", "depth"}}}``.
    multipliers
        The certificate's prices by GPU type; without them no price is drawn.
    """
    prices = {name: multipliers[name] for name in instance.gpus if multipliers and name in multipliers}
    chosen = plan["configuration"]
    shown = sorted(instance.jobs, key=lambda job: -chosen.get(job.id, {"gpus": 0})["gpus"])[:_PANELS]
    kept = {job.id for job in shown}
    jobs = [job for job in instance.jobs if job.id in kept]
    bars = [
        [
            place
            for place, job in enumerate(jobs)
            if chosen.get(job.id, {}).get("gpu_type") == name  # in the order of the bar
        ]
        for name in instance.gpus
    ]
    fills = dict(zip((job.id for job in jobs), neighbourly(len(jobs), bars), strict=True))
    frozen = sum(configuration["depth"] > 0 for configuration in chosen.values())
    facts = f"{len(chosen)} of {len(instance.jobs)} jobs run, {frozen} of them with frozen layers"
    title = instance.name or "Layer freezing"
    svg = Svg(_WIDTH)
    svg.text(_MARGIN, 40, clipped(title, 940, 20), size=20, bold=True)
    svg.text(_MARGIN, 64, facts, size=13, fill=FAINT)
    top = _legend(svg, _bars(svg, 92, instance, chosen, fills), instance, prices)
    for index, job in enumerate(jobs):
        configuration = chosen.get(job.id)
        gpu_type = configuration["gpu_type"] if configuration else job.menu[0].gpu_type if job.menu else ""
        x, y = (
            _MARGIN + index % _COLUMNS * (PANEL_WIDTH + 26),
            top + index // _COLUMNS * PANEL_HEIGHT,
        )
        menu_panel(svg, x, y, instance, job, configuration, fills[job.id], prices.get(gpu_type))
    bottom = top + -(-len(jobs) // _COLUMNS) * PANEL_HEIGHT
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
            configuration = chosen.get(job.id)
            if configuration is None or configuration["gpu_type"] != name:
                continue
            width = _BAR_WIDTH * configuration["gpus"] / total
            frozen = f"{configuration['depth']} of {job.layers} layers frozen"
            svg.open_group(f"{job.id}: {configuration['gpus']} GPUs, {frozen}")
            svg.rect(
                x, top, max(width - 1, 0.5), 20, fills.get(job.id, FAINT), hatched=configuration["depth"] > 0
            )
            svg.close_group()
            x += width
        top += _BAR_STEP
    svg.text(_BAR_X, top + 8, "GPUs by job; striped where layers are frozen", size=11, fill=FAINT)
    return top + 30


def _legend(svg: Svg, top: float, instance: FreezingInstance, prices: Mapping[str, float]) -> float:
    """Say what a panel shows; return where the panels begin."""
    svg.line([(_MARGIN, top - 4), (_MARGIN + 26, top - 4)], FAINT, 2.0, 1.0)
    lost = " less what a restart costs" if any(job.current for job in instance.jobs) else ""
    label = f"effective progress{lost} over GPUs; a line per depth, the stronger the deeper"
    svg.text(_MARGIN + 34, top, label, size=11, fill=FAINT)
    svg.rect(_MARGIN + 616, top - 9, 10, 10, IDLE, stroke=INK)
    svg.text(_MARGIN + 632, top, "the choice", size=11, fill=FAINT)
    if not prices:
        return top + 16
    top += 18
    named = [f"{price:.4g} per {name} GPU" for name, price in prices.items()][:_TOLD_TYPES]
    more = ", ..." if len(prices) > _TOLD_TYPES else ""
    svg.line([(_MARGIN, top - 4), (_MARGIN + 26, top - 4)], INK, 1.2, 0.9, dashed=True)
    label = f"worth as much as the choice at the certificate's price: {', '.join(named)}{more}"
    if instance.penalty_cap_millionths is not None:
        label += ", at its frozen penalty"
    svg.text(_MARGIN + 34, top, clipped(label, 900, 11), size=11, fill=FAINT)
    return top + 16
