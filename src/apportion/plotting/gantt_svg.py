"""A matching plan as a Gantt chart: one row per machine, the makespan and its bound as lines.

Cost and value have no time: there a row shows what each job uses of a machine. Up to 60 machines are drawn,
those that end last (or are fullest) first; the others are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.bounds import exact_bound, price_names
from apportion.instances.matching.meaning import check
from apportion.plotting.palette import FAINT, IDLE, INK, color, ink_on
from apportion.plotting.svg import Svg, clipped, text_width

__all__ = ["gantt_svg"]

_WIDTH, _MARGIN, _LEFT, _RIGHT = 1000.0, 24.0, 150.0, 90.0
_ROWS, _ROW, _BAR = 60, 24.0, 18.0


@dataclass(frozen=True, slots=True)
class _Bar:
    """One job on one machine, from where to where on the axis."""

    job: str
    position: int
    begin: float
    end: float


def gantt_svg(instance: MatchingInstance, plan: Mapping[str, Any], bound: float | None = None) -> str:
    """Return the drawing of a feasible plan.

    Parameters
    ----------
    instance
        The instance.
    plan
        Its plan.
    bound
        A bound on the makespan; by default what equal weights of all machines prove.
    """
    report = check(instance, plan)
    timed = instance.objective == "makespan"
    rows = _shares(instance, plan) if instance.divisible else _rows(instance, plan)
    if timed and bound is None and not instance.divisible and instance.jobs:
        counts = {machine.id: float(machine.count) for machine in instance.machines}
        proven = exact_bound(instance, {name: counts[name] for name in price_names(instance)})
        bound = None if proven is None else float(proven)
    ends = {row: max(bar.end for bar in bars) for row, bars in rows.items()}
    shown = sorted(rows, key=lambda row: -ends[row])[:_ROWS]
    reach = max([*ends.values(), 0.0 if bound is None or instance.divisible else bound, 1e-12])
    scale = (_WIDTH - _MARGIN - _LEFT - _RIGHT) / reach
    svg = Svg(_WIDTH)
    what = {"makespan": "makespan", "cost": "cost", "value": "value"}[instance.objective]
    told = "none" if report.objective is None else f"{report.objective:,.6g}" + (" s" if timed else "")
    limit = "" if bound is None else f", at least {bound:,.6g} s"
    title = f"{instance.name or 'matching'}: {what} {told}{limit}"
    svg.text(_MARGIN, 32, clipped(title, _WIDTH - 2 * _MARGIN, 16), size=16, bold=True)
    top = 56.0
    for number, row in enumerate(shown):
        y = top + number * _ROW
        svg.text(_LEFT - 8, y + 13, clipped(row, _LEFT - _MARGIN - 8, 12), size=12, anchor="end")
        svg.rect(_LEFT, y, reach * scale, _BAR, IDLE)
        for bar in rows[row]:
            _draw(svg, bar, y, scale, "share of time" if instance.divisible else "s" if timed else "used")
        label = f"{ends[row]:,.4g}"
        svg.text(_LEFT + reach * scale + 8, y + 13, label, size=12, fill=FAINT)
    bottom = top + len(shown) * _ROW
    if timed and not instance.divisible and report.objective is not None:
        svg.rect(_LEFT + report.objective * scale - 1, top - 6, 2, bottom - top + 6, INK)
        if bound is not None:
            svg.rect(_LEFT + bound * scale - 1, top - 6, 2, bottom - top + 6, "#d55e00")
    if len(rows) > len(shown):
        svg.text(_LEFT, bottom + 14, f"and {len(rows) - len(shown):,} more machines", size=12, fill=FAINT)
    description = f"{len(instance.jobs)} jobs on {len(rows)} machines; {what} {told}{limit}"
    return svg.finish(bottom + 32, title, description)


def _draw(svg: Svg, bar: _Bar, y: float, scale: float, unit: str) -> None:
    fill = color(bar.position)
    x, width = _LEFT + bar.begin * scale, (bar.end - bar.begin) * scale
    svg.open_group(f"{bar.job}: {bar.end - bar.begin:,.6g} {unit}")
    svg.rect(x, y, width, _BAR, fill, stroke="#ffffff")
    if width > text_width("mm", 11):
        svg.text(x + 4, y + 13, clipped(bar.job, width - 6, 11), size=11, fill=ink_on(fill))
    svg.close_group()


def _rows(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[str, list[_Bar]]:
    """Return the bars of every machine that holds a job."""
    counts = {machine.id: machine.count for machine in instance.machines}
    timed = instance.objective == "makespan"
    starts = plan.get("start_s", {})
    filled: dict[str, float] = {}
    rows: dict[str, list[_Bar]] = {}
    for position, job in enumerate(instance.jobs):
        pool = plan["assignment"].get(job.id)
        if pool is None:
            continue
        entry = job.on[pool]
        index = plan.get("machine_index", {}).get(job.id, 0)
        if entry.gpus == counts[pool] and "machine_index" not in plan:
            index = list(range(entry.gpus))
        length = float(entry.time_s or 0.0) if timed else float(entry.uses)
        for machine in index if isinstance(index, list | tuple) else [index]:
            row = pool if counts[pool] == 1 else f"{pool}[{machine}]"
            begin = float(starts[job.id]) if timed and job.id in starts else filled.get(row, 0.0)
            filled[row] = begin + length
            rows.setdefault(row, []).append(_Bar(job.id, position, begin, begin + length))
    return rows


def _shares(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[str, list[_Bar]]:
    """Return the shares of every pool's time, side by side; 1 is one machine all the time."""
    filled: dict[str, float] = {}
    rows: dict[str, list[_Bar]] = {}
    for position, job in enumerate(instance.jobs):
        for pool, share in plan["fractions"].get(job.id, {}).items():
            begin = filled.get(pool, 0.0)
            filled[pool] = begin + share * job.on[pool].gpus
            rows.setdefault(pool, []).append(_Bar(job.id, position, begin, filled[pool]))
    return rows
