"""A matching plan as a Gantt chart: one row per machine, the makespan and its bound as lines.

Cost and value have no time: there a row shows what each job uses of a machine, and ends at its capacity.
Pools that are shared by fractions of time are a row each, full where all their machines are busy all the
time. Up to 60 machines are drawn, those that end last (or are fullest) first and idle ones then; the others
are counted. A job that holds several machines is a bar on each of them, all in its colour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.draw.svg import FAINT, IDLE, INK, Svg, clipped, ink_on, neighbourly, text_width
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.bounds import exact_bound, machine_name, price_names, schedule
from apportion.instances.matching.check import check

__all__ = ["Bar", "Row", "gantt_svg", "machine_rows", "pool_rows"]


@dataclass(frozen=True, slots=True)
class Bar:
    """One job on one machine.

    Attributes
    ----------
    job
        Its number.
    begin, end
        From where to where: seconds, uses, or machines of a pool that is shared.
    """

    job: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Row:
    """A machine, or a pool whose machines are shared.

    Attributes
    ----------
    name
        What it is called.
    pool
        The number of its pool.
    room
        How much there is of it: its capacity, the machines of the pool; ``None`` for no limit.
    bars
        The jobs in it.
    """

    name: str
    pool: int
    room: float | None
    bars: list[Bar] = field(default_factory=list)

    @property
    def end(self) -> float:
        """Where its last bar ends."""
        return max((bar.end for bar in self.bars), default=0.0)


def machine_rows(instance: MatchingInstance, plan: Mapping[str, Any], most: int) -> tuple[list[Row], int]:
    """Return a row per machine, at most some of them, and how many machines are left away.

    Parameters
    ----------
    instance, plan
        The instance and a feasible plan of it.
    most
        How many rows there may be: those that end last, or are fullest, and then idle ones.
    """
    position = {job.id: number for number, job in enumerate(instance.jobs)}
    number = {machine.id: pool for pool, machine in enumerate(instance.machines)}
    timed = instance.objective == "makespan"
    held: dict[tuple[int, int], list[Bar]] = {}
    for job, placed in schedule(instance, plan).items():
        for index in placed.machines:
            bar = Bar(position[job], placed.begin, placed.end)
            held.setdefault((number[placed.pool], index), []).append(bar)
    last = sorted(held, key=lambda at: -max(bar.end for bar in held[at]))[:most]
    shown = set(last)
    for pool, machine in enumerate(instance.machines):
        for index in range(min(machine.count, most)):
            if len(shown) < most:
                shown.add((pool, index))
    rows = []
    for pool, index in sorted(shown):
        machine = instance.machines[pool]
        room = None if timed or machine.capacity is None else float(machine.capacity)
        bars = held.get((pool, index), [])
        rows.append(Row(machine_name(machine.id, index, machine.count), pool, room, bars))
    return rows, sum(machine.count for machine in instance.machines) - len(rows)


def pool_rows(instance: MatchingInstance, plan: Mapping[str, Any]) -> list[Row]:
    """Return a row per pool with the shares of its machines' time, in machines."""
    rows = {
        machine.id: Row(machine.id, k, float(machine.count)) for k, machine in enumerate(instance.machines)
    }
    for position, job in enumerate(instance.jobs):
        for pool, share in plan["fractions"].get(job.id, {}).items():
            begin = rows[pool].end
            rows[pool].bars.append(Bar(position, begin, begin + share * job.on[pool].gpus))
    return list(rows.values())


_WIDTH, _MARGIN, _LEFT, _RIGHT, _TOP = 1000.0, 24.0, 150.0, 110.0, 72.0
_SPAN = _WIDTH - _MARGIN - _LEFT - _RIGHT
_MOST, _ROW, _BAR, _GAP = 60, 24.0, 18.0, 8.0
_BOUND = "#d55e00"
_TICKS = 6


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
    timed, shared = instance.objective == "makespan", instance.divisible
    rows, more = (pool_rows(instance, plan), 0) if shared else machine_rows(instance, plan, _MOST)
    objective = check(instance, plan).objective
    lines: dict[str, float] = {}
    if timed and not shared:
        bound = _proven(instance) if bound is None and instance.jobs else bound
        lines = {fill: at for fill, at in ((INK, objective), (_BOUND, bound)) if at is not None}
    reach = max([*(row.end for row in rows), *(row.room or 0.0 for row in rows), *lines.values(), 1e-12])
    chart = _Chart(Svg(_WIDTH), instance, _SPAN / reach, shared)
    title, description = _words(instance, objective, bound, len(rows) + more)
    chart.svg.text(_MARGIN, 32, clipped(title, _WIDTH - 2 * _MARGIN, 16), size=16, bold=True)
    bottom = chart.draw(rows, lines)
    chart.legend(lines)
    if shared:
        chart.axis(bottom, 100.0, _SPAN / 100.0, "%")
    else:
        chart.axis(bottom, reach, chart.scale, "s" if timed else "")
    if more:
        chart.svg.text(_LEFT, bottom + 34, f"and {more:,} more machines", size=12, fill=FAINT)
    return chart.svg.finish(bottom + (50 if more else 34), title, description)


def _words(
    instance: MatchingInstance, objective: float | None, bound: float | None, machines: int
) -> tuple[str, str]:
    """Return the title and the description for readers who cannot see the drawing."""
    unit = " s" if instance.objective == "makespan" else ""
    value = "none" if objective is None else f"{objective:,.6g}{unit}"
    side = "at most" if instance.objective == "value" else "at least"
    limit = "" if bound is None else f", {side} {bound:,.6g}{unit}"
    outcome = f"{instance.objective} {value}{limit}"
    places = "pools" if instance.divisible else "machines"
    return (
        f"{instance.name or 'matching'}: {outcome}",
        f"{len(instance.jobs)} jobs on {machines} {places}; {outcome}",
    )


def _proven(instance: MatchingInstance) -> float | None:
    counts = {machine.id: float(machine.count) for machine in instance.machines}
    proven = exact_bound(instance, {name: counts[name] for name in price_names(instance)})
    return None if proven is None else float(proven)


@dataclass(frozen=True, slots=True)
class _Chart:
    """The drawing, its scale in pixels, and whether every row has a scale of its own."""

    svg: Svg
    instance: MatchingInstance
    scale: float
    shared: bool

    def draw(self, rows: Sequence[Row], lines: Mapping[str, float]) -> float:
        """Draw the rows, the lines over them and the names over both; return where they end."""
        orders = [[bar.job for bar in row.bars] for row in rows]
        fills = neighbourly(len(self.instance.jobs), orders)
        places, y = [], _TOP
        for number, row in enumerate(rows):
            y += _GAP if number and rows[number - 1].pool != row.pool else 0.0
            places.append(y)
            self._row(row, y, fills)
            y += _ROW
        for fill, at in lines.items():
            self.svg.rect(_LEFT + at * self.scale - 1, _TOP - 6, 2, y - _TOP + 6, fill)
        for row, place in zip(rows, places, strict=True):
            for bar in row.bars:
                self._label(row, bar, place, fills[bar.job])
        return y

    def _scale_of(self, row: Row) -> float:
        return _SPAN / row.room if self.shared and row.room else self.scale

    def _row(self, row: Row, y: float, fills: Sequence[str]) -> None:
        scale = self._scale_of(row)
        self.svg.text(_LEFT - 8, y + 13, clipped(row.name, _LEFT - _MARGIN - 8, 12), size=12, anchor="end")
        self.svg.rect(_LEFT, y, _SPAN if row.room is None else row.room * scale, _BAR, IDLE)
        unit = "machines" if self.shared else "s" if self.instance.objective == "makespan" else "used"
        for bar in row.bars:
            name = self.instance.jobs[bar.job].id
            self.svg.open_group(f"{name}: {bar.end - bar.begin:,.6g} {unit}")
            width = (bar.end - bar.begin) * scale
            self.svg.rect(_LEFT + bar.begin * scale, y, width, _BAR, fills[bar.job], stroke="#ffffff")
            self.svg.close_group()
        end = f"{row.end:,.4g}" if row.bars else "idle"
        full = f"{end} of {row.room:,.4g}" if row.room is not None and row.bars else end
        self.svg.text(_LEFT + _SPAN + 8, y + 13, full, size=12, fill=FAINT)

    def _label(self, row: Row, bar: Bar, y: float, fill: str) -> None:
        scale = self._scale_of(row)
        width, name = (bar.end - bar.begin) * scale, self.instance.jobs[bar.job].id
        fitted = clipped(name, width - 6, 11)
        if width > text_width("mm", 11) and (fitted == name or len(fitted) > 3):
            self.svg.text(_LEFT + bar.begin * scale + 4, y + 13, fitted, size=11, fill=ink_on(fill))

    def legend(self, lines: Mapping[str, float]) -> None:
        """Say what is drawn."""
        if self.shared:
            what = "how much of each pool's time is used, in machines"
        elif self.instance.objective != "makespan":
            what = "what is used of each machine, up to its capacity"
        else:
            what = ""
        self.svg.text(_MARGIN, 54, what, size=12, fill=FAINT)
        if INK in lines:
            self.svg.text(_MARGIN, 54, "black: makespan", size=12, fill=INK)
        if _BOUND in lines:
            self.svg.text(_MARGIN + 130, 54, "orange: its bound", size=12, fill=_BOUND)

    def axis(self, bottom: float, reach: float, scale: float, unit: str) -> None:
        """Write round numbers below the rows."""
        raw = reach / _TICKS
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= raw * (1 - 1e-9))
        for number in range(int(reach / step + 1e-9) + 1):
            at = number * step
            self.svg.rect(_LEFT + at * scale - 0.5, bottom - 2, 1, 6, FAINT)
            label = f"{at:,.4g}" + (f" {unit}" if unit and number == 0 else "")
            self.svg.text(_LEFT + at * scale, bottom + 16, label, size=11, anchor="middle", fill=FAINT)
