"""A matching plan as a Gantt chart: one row per machine, the makespan and its bound as lines.

Cost and value have no time: there a row shows what each job uses of a machine. Up to 60 machines are drawn,
those that end last (or are fullest), pool by pool; the others are counted. A job that holds several machines
is a bar on each of them, all in its colour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.bounds import exact_bound, price_names
from apportion.instances.matching.meaning import check
from apportion.instances.matching.schedule import machine_name, schedule
from apportion.plotting.palette import FAINT, IDLE, INK, color, ink_on
from apportion.plotting.svg import Svg, clipped, text_width

__all__ = ["gantt_svg"]

_WIDTH, _MARGIN, _LEFT, _RIGHT = 1000.0, 24.0, 150.0, 90.0
_ROWS, _ROW, _BAR, _GAP = 60, 24.0, 18.0, 8.0
_BOUND = "#d55e00"
_TICKS = 6

_Row = tuple[int, int]
"""Numbers of a pool and of a machine of it; -1 for the pool as a whole."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """One job on one machine, from where to where on the axis."""

    job: str
    position: int
    begin: float
    end: float


def gantt_svg(
    instance: MatchingInstance,
    plan: Mapping[str, Any],
    _: Mapping[str, float] | None = None,
    bound: float | None = None,
) -> str:
    """Return the drawing of a feasible plan.

    Parameters
    ----------
    instance
        The instance.
    plan
        Its plan.
    bound
        The solution's bound; where it is absent, of a makespan what equal weights of all machines prove.
    """
    report = check(instance, plan)
    timed = instance.objective == "makespan"
    rows = _shares(instance, plan) if instance.divisible else _rows(instance, plan)
    if timed and bound is None and not instance.divisible and instance.jobs:
        bound = _proven(instance)
    ends = {row: max(bar.end for bar in bars) for row, bars in rows.items()}
    late = set(sorted(rows, key=lambda row: -ends[row])[:_ROWS])
    shown = [row for row in sorted(rows) if row in late]
    lines = timed and not instance.divisible
    reach = max([*ends.values(), bound if lines and bound is not None else 0.0, 1e-12])
    scale = (_WIDTH - _MARGIN - _LEFT - _RIGHT) / reach
    svg = Svg(_WIDTH)
    value = "none" if report.objective is None else f"{report.objective:,.6g}" + (" s" if timed else "")
    side = "at most" if instance.objective == "value" else "at least"
    limit = "" if bound is None else f", {side} {bound:,.6g}{' s' if timed else ''}"
    title = f"{instance.name or 'matching'}: {instance.objective} {value}{limit}"
    svg.text(_MARGIN, 32, clipped(title, _WIDTH - 2 * _MARGIN, 16), size=16, bold=True)
    top = 72.0
    y, pool = top, -1
    names = [(machine.id, machine.count) for machine in instance.machines]
    for row in shown:
        y += _GAP if pool not in (-1, row[0]) else 0.0
        pool, machine = row
        name = names[pool][0] if machine < 0 else machine_name(names[pool][0], machine, names[pool][1])
        svg.text(_LEFT - 8, y + 13, clipped(name, _LEFT - _MARGIN - 8, 12), size=12, anchor="end")
        svg.rect(_LEFT, y, reach * scale, _BAR, IDLE)
        for bar in rows[row]:
            _draw(svg, bar, y, scale, "share of time" if instance.divisible else "s" if timed else "used")
        svg.text(_LEFT + reach * scale + 8, y + 13, f"{ends[row]:,.4g}", size=12, fill=FAINT)
        y += _ROW
    _axis(svg, reach, scale, top, y, "s" if lines else "")
    if lines and report.objective is not None:
        _line(svg, report.objective * scale, top, y, INK)
        if bound is not None:
            _line(svg, bound * scale, top, y, _BOUND)
        if y > top:
            svg.text(_MARGIN, 54, "black: makespan", size=12, fill=INK)
            svg.text(_MARGIN + 130, 54, "" if bound is None else "orange: its bound", size=12, fill=_BOUND)
    if not lines:
        what = "machines busy on average" if instance.divisible else "what is used of each machine"
        svg.text(_MARGIN, 54, what, size=12, fill=FAINT)
    if len(rows) > len(shown):
        svg.text(_LEFT, y + 34, f"and {len(rows) - len(shown):,} more machines", size=12, fill=FAINT)
    description = f"{len(instance.jobs)} jobs on {len(rows)} machines; {instance.objective} {value}{limit}"
    return svg.finish(y + (50 if len(rows) > len(shown) else 34), title, description)


def _proven(instance: MatchingInstance) -> float | None:
    counts = {machine.id: float(machine.count) for machine in instance.machines}
    proven = exact_bound(instance, {name: counts[name] for name in price_names(instance)})
    return None if proven is None else float(proven)


def _line(svg: Svg, x: float, top: float, bottom: float, fill: str) -> None:
    svg.rect(_LEFT + x - 1, top - 6, 2, bottom - top + 6, fill)


def _axis(svg: Svg, reach: float, scale: float, top: float, bottom: float, unit: str) -> None:
    """Write round numbers below the rows."""
    raw = reach / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= raw * (1 - 1e-9))
    for number in range(int(reach / step + 1e-9) + 1):
        at = number * step
        svg.rect(_LEFT + at * scale - 0.5, bottom - 2, 1, 6, FAINT)
        label = f"{at:,.4g}" + (f" {unit}" if unit and number == 0 else "")
        svg.text(_LEFT + at * scale, bottom + 16, label, size=11, anchor="middle", fill=FAINT)


def _draw(svg: Svg, bar: _Bar, y: float, scale: float, unit: str) -> None:
    fill = color(bar.position)
    x, width = _LEFT + bar.begin * scale, (bar.end - bar.begin) * scale
    svg.open_group(f"{bar.job}: {bar.end - bar.begin:,.6g} {unit}")
    svg.rect(x, y, width, _BAR, fill, stroke="#ffffff")
    if width > text_width("mm", 11):
        svg.text(x + 4, y + 13, clipped(bar.job, width - 6, 11), size=11, fill=ink_on(fill))
    svg.close_group()


def _rows(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[_Row, list[_Bar]]:
    """Return the bars of every machine that holds a job, by the numbers of pool and machine."""
    number = {machine.id: k for k, machine in enumerate(instance.machines)}
    position = {job.id: k for k, job in enumerate(instance.jobs)}
    rows: dict[_Row, list[_Bar]] = {}
    for job, placed in schedule(instance, plan).items():
        for machine in placed.machines:
            bar = _Bar(job, position[job], placed.begin, placed.end)
            rows.setdefault((number[placed.pool], machine), []).append(bar)
    return rows


def _shares(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[_Row, list[_Bar]]:
    """Return the shares of every pool's time, side by side; 1 is one machine all the time."""
    number = {machine.id: k for k, machine in enumerate(instance.machines)}
    filled: dict[str, float] = {}
    rows: dict[_Row, list[_Bar]] = {}
    for position, job in enumerate(instance.jobs):
        for pool, share in plan["fractions"].get(job.id, {}).items():
            begin = filled.get(pool, 0.0)
            filled[pool] = begin + share * job.on[pool].gpus
            rows.setdefault((number[pool], -1), []).append(_Bar(job.id, position, begin, filled[pool]))
    return rows
