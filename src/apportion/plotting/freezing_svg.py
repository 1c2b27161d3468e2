"""A layer-freezing plan as a drawing: GPUs by job, and each job's effective progress over GPUs and depth.

One bar per GPU type; below, one panel per job with a line per depth, the stronger the deeper, the choice
marked, and what is worth as much as the choice at the certificate's price of a GPU; up to 24 jobs, those with
most GPUs of more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.instances.freezing import FreezingInstance
from apportion.plotting.colouring import neighbourly
from apportion.plotting.freezing_panel import PANEL_HEIGHT, PANEL_WIDTH, menu_panel
from apportion.plotting.palette import FAINT, IDLE, INK
from apportion.plotting.svg import Svg, clipped

__all__ = ["freezing_svg"]

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
