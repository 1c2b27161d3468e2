"""The report of replays: one self-contained HTML page, no script, nothing fetched; or its figures as text.

Charts are drawn by hand: the SVG stretches, the labels around it are text and do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.run_record import RunRecord
from apportion.cluster.simulation.summary import Summary
from apportion.core.errors import InvalidOption

__all__ = [
    "COLOURS",
    "Line",
    "bars",
    "cells",
    "gantt",
    "heads",
    "lines",
    "nice_ticks",
    "report_page",
    "table",
    "whole_page",
]


COLOURS = ("#0b6e99", "#d1651a", "#3c7d3c", "#8a4fa3", "#b3273d", "#7a6a00", "#55606e")
_WIDTH, _HEIGHT = 1000.0, 300.0


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A curve.

    Attributes
    ----------
    name
        The name of the curve in the legend.
    x, y
        float64 [points].
    colour
        CSS colour.
    filled
        Whether the area below is filled.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    colour: str
    filled: bool = False


def nice_ticks(top: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 to at least `top`, about `count` steps.

    Examples
    --------
    >>> nice_ticks(88.0)
    [0.0, 25.0, 50.0, 75.0, 100.0]
    """
    if not top > 0:
        return [0.0, 1.0]
    raw = top / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(next(m for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9)) * power)
    return [step * k for k in range(int(np.ceil(top / step - 1e-9)) + 1)]


def lines(
    curves: Sequence[Line], title: str, unit: str, note: str = "", axis: str = "hours since the start"
) -> str:
    """Return curves over hours, or over what `axis` says."""
    right = max((float(curve.x[-1]) for curve in curves if curve.x.size), default=1.0) or 1.0
    ticks = nice_ticks(max((float(curve.y.max(initial=0.0)) for curve in curves), default=1.0))
    top = ticks[-1]
    drawn = []
    for curve in curves:
        x, y = curve.x / right * _WIDTH, _HEIGHT - np.clip(curve.y / top, 0, 1) * _HEIGHT
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        if curve.filled and x.size:
            area = f"0,{_HEIGHT:.0f} {points} {x[-1]:.1f},{_HEIGHT:.0f}"
            drawn.append(f'<polygon points="{area}" fill="{curve.colour}" fill-opacity=".22"/>')
        drawn.append(f'<polyline points="{points}" stroke="{curve.colour}" class="curve"/>')
    return _figure(title, unit, "".join(drawn), ticks, nice_ticks(right, 5), right, curves, note, axis=axis)


def gantt(
    started_h: Sequence[float | None],
    ended_h: Sequence[float | None],
    span_h: float,
    title: str,
    note: str = "",
) -> str:
    """Return one thin line per job from its admission to its completion; jobs top down."""
    count = max(len(started_h), 1)
    span = span_h or 1.0
    path = []
    for job, (begin, end) in enumerate(zip(started_h, ended_h, strict=True)):
        if begin is None:
            continue
        y = (job + 0.5) / count * _HEIGHT
        stop = span_h if end is None else end
        path.append(f"M{begin / span * _WIDTH:.1f} {y:.2f}H{stop / span * _WIDTH:.1f}")
    inner = f'<path d="{"".join(path)}" stroke="{COLOURS[0]}" class="job"/>'
    ticks = [tick for tick in nice_ticks(float(count)) if tick <= count]
    return _figure(title, "job", inner, ticks, nice_ticks(span, 5), span, (), note, downward=float(count))


def bars(rows: Sequence[tuple[str, Sequence[tuple[str, float, str]]]], title: str, note: str = "") -> str:
    """Return one stacked bar of percentages per row, 100 % wide: (row, [(part, per cent, colour)])."""
    top = max([100.0, *(sum(max(value, 0.0) for _, value, _ in parts) for _, parts in rows)])
    drawn = []
    for name, parts in rows:
        pieces = "".join(
            f'<i style="width:{max(value, 0.0) / top * 100:.2f}%;background:{colour}" '
            f'title="{escape(part)} {value:.2f} %"></i>'
            for part, value, colour in parts
        )
        text = ", ".join(f"{escape(part)} {value:.1f} %" for part, value, _ in parts)
        drawn.append(
            f'<div class="row"><b>{escape(name)}</b><div class="bar">{pieces}</div><span>{text}</span></div>'
        )
    kinds = {part: colour for _, parts in rows for part, _, colour in parts}
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(part)}</span>' for part, colour in kinds.items()
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="legend">{legend}</div>'
        f"{''.join(drawn)}{_note(note)}</figure>"
    )


def _figure(
    title: str,
    unit: str,
    inner: str,
    y_ticks: Sequence[float],
    x_ticks: Sequence[float],
    right: float,
    curves: Sequence[Line],
    note: str,
    downward: float | None = None,
    axis: str = "hours since the start",
) -> str:
    top = y_ticks[-1] if downward is None else downward
    at = [tick / top * 100 if downward is not None else 100 - tick / top * 100 for tick in y_ticks]
    grid = "".join(f'<path d="M0 {p / 100 * _HEIGHT:.1f}H{_WIDTH:.0f}" class="grid"/>' for p in at)
    left_labels = "".join(
        f'<span class="y" style="top:{p:.2f}%">{_number(tick)}</span>'
        for tick, p in zip(y_ticks, at, strict=True)
    )
    below = "".join(
        f'<span class="x" style="left:{tick / right * 100:.2f}%">{_number(tick)}</span>'
        for tick in x_ticks
        if tick <= right * 1.001
    )
    legend = "".join(
        f'<span><i style="background:{curve.colour}"></i>{escape(curve.name)}</span>' for curve in curves
    )
    svg = (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}">{grid}{inner}</svg>'
    )
    return (
        f"<figure><figcaption>{escape(title)}, {escape(unit)}</figcaption>"
        f'<div class="legend">{legend}</div><div class="plot">{svg}{left_labels}{below}</div>'
        f'<p class="axis">{escape(axis)}</p>{_note(note)}</figure>'
    )


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>' if text else ""


def _number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    if value >= 10_000:
        return f"{value / 1e3:g} k"
    return f"{value:g}"


_HEADS = (
    "policy",
    "makespan h, or jobs",
    "mean completion h",
    "to dedicated",
    "eq. nodes",
    "lost to pre-emption",
    "lost to rescaling",
    "lost past the end",
    "rescales",
    "events",
    "seconds",
)


def cells(summary: Summary) -> tuple[str, ...]:
    """Return the figures of one replay as text, in the order of the table's heads."""
    unfinished = (
        f"{summary.jobs_done} done" if summary.jobs is None else f"{summary.jobs_done}/{summary.jobs}"
    )
    return (
        summary.policy,
        unfinished if summary.makespan_h is None else f"{summary.makespan_h:.2f}",
        "-" if summary.mean_completion_h is None else f"{summary.mean_completion_h:.2f}",
        "-" if summary.to_dedicated is None else f"{summary.to_dedicated:.3f}",
        f"{summary.equivalent_nodes:.1f}",
        f"{100 * summary.lost_preemption:.2f} %",
        f"{100 * summary.lost_rescale:.2f} %",
        f"{100 * summary.lost_excess:.2f} %",
        f"{summary.rescales:,}",
        f"{summary.events:,}",
        f"{summary.seconds:.2f}",
    )


def heads() -> tuple[str, ...]:
    """Return the heads of the table."""
    return _HEADS


def table(summaries: Sequence[Summary]) -> str:
    """Return one line per replay under a line of heads."""
    rows = [_HEADS, *(cells(summary) for summary in summaries)]
    wide = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, wide, strict=True))
        )
        for row in rows
    )


_POINTS = 150
"""Throughput is averaged to about so many points."""
_STYLE = """
:root{--ink:#1b2026;--soft:#5a6470;--rule:#d9dee4;--paper:#fff;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--ink:#e8ebee;--soft:#a3adb8;--rule:#3a434d;--paper:#15191e}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:1.2rem 1rem 3rem;background:var(--paper);color:var(--ink);
 font:16px/1.45 system-ui,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:.2rem 0}p{margin:.4rem 0}.lead{color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.3rem clamp(.3rem,1.2%,.7rem);font-size:.92rem;
 border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}
th:first-child{text-align:left;font-weight:600;white-space:normal;min-width:6.2rem}
figure{margin:1.8rem 0}figcaption{font-weight:600;margin-bottom:.3rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.85rem;margin-bottom:.6rem}
.legend i{display:inline-block;width:.9em;height:.9em;margin-right:.35em;vertical-align:-.1em;
 border-radius:2px}
.plot{position:relative;height:15rem;margin:0 .8rem 1.6rem 3.2rem}
.plot svg{width:100%;height:100%;overflow:visible;display:block}
.curve{fill:none;stroke-width:1.6;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.job{fill:none;stroke-width:1;vector-effect:non-scaling-stroke}
.grid{stroke:var(--rule);stroke-width:1;vector-effect:non-scaling-stroke;fill:none}
.y{position:absolute;right:100%;margin-right:.45rem;transform:translateY(-50%);font-size:.8rem;color:var(--soft);
 white-space:nowrap}
.x{position:absolute;top:100%;transform:translateX(-50%);margin-top:.3rem;font-size:.8rem;color:var(--soft)}
.axis{font-size:.8rem;color:var(--soft);text-align:center;margin:0}
.note{font-size:.85rem;color:var(--soft)}
.row{margin:.6rem 0}.row b{display:block;font-weight:600;font-size:.9rem}
.row span{font-size:.85rem;color:var(--soft)}
.bar{display:flex;height:1.1rem;background:var(--rule);border-radius:3px;overflow:hidden}.bar i{display:block}
"""


def report_page(records: Sequence[RunRecord]) -> str:
    """Return the page of one or more replays, side by side.

    Raises
    ------
    InvalidOption
        If there is none.
    """
    if not records:
        raise InvalidOption("a report needs at least one replay")
    first = records[0].summary
    parts = [
        _head(records),
        _table(records),
        _allocation(records[0]),
        _losses(records),
        _rates(records),
        _completions(records),
    ]
    if records[0].jobs is not None:
        started = [at for at in records[0].jobs.started_h if at is not None]
        parts.append(
            gantt(
                started,
                records[0].jobs.completed_h[: len(started)],
                first.span_h,
                f"Jobs from admission to completion, {first.policy}",
                "One line per job, first submitted on top. A job runs on the nodes it has at the time, "
                "on none while the policy suspends it.",
            )
        )
    versions = ", ".join(f"{escape(name)} {escape(version)}" for name, version in records[0].versions.items())
    parts.append(f'<p class="note">Made with {versions}.</p>')
    return whole_page(f"Replay of {first.trace}", parts)


def whole_page(title: str, parts: Sequence[str]) -> str:
    """Return a self-contained page of these parts of HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _head(records: Sequence[RunRecord]) -> str:
    first = records[0].summary
    jobs = "an endless backlog" if first.jobs is None else f"{first.jobs:,} jobs"
    seed = "" if records[0].seed is None else f", seed {records[0].seed}"
    return (
        f"<h1>Replay of {escape(first.trace)}</h1>"
        f'<p class="lead">{jobs}, at most {first.trainers} at a time, on {first.equivalent_nodes:.1f} idle '
        f"nodes on average over {first.span_h:.1f} hours{seed}.</p>"
    )


def _table(records: Sequence[RunRecord]) -> str:
    columns = [cells(record.summary) for record in records]
    rows = "".join(
        f"<tr><th>{escape(head)}</th>{''.join(f'<td>{escape(column[k])}</td>' for column in columns)}</tr>"
        for k, head in enumerate(heads())
    )
    return (
        f'<div class="scroll"><table>{rows}</table></div><p class="note">To dedicated: the makespan of the '
        "same jobs on a dedicated pool of the equivalent nodes divided by this makespan. That pool is "
        "as short-sighted as FreeTrain's objective, so the ratio can exceed 1 and is no share of what is "
        "possible. Losses are shares of the output.</p>"
    )


def _hours(record: RunRecord) -> NDArray[np.float64]:
    hours: NDArray[np.float64] = (
        np.arange(len(record.curves["idle"]), dtype=np.float64) + 0.5
    ) * record.bin_h
    return hours


def _allocation(record: RunRecord) -> str:
    hours = _hours(record)
    idle, used = (np.array(record.curves[name]) for name in ("idle", "used"))
    return lines(
        [Line("idle", hours, idle, COLOURS[6], filled=True), Line("held by jobs", hours, used, COLOURS[0])],
        f"Nodes over time, {record.summary.policy}",
        "nodes",
        f"Averages over {record.bin_h * 60:.0f} minutes; idle includes the nodes held by jobs.",
    )


def _losses(records: Sequence[RunRecord]) -> str:
    kinds = (
        ("pre-emption", "lost_preemption", COLOURS[4]),
        ("rescaling", "lost_rescale", COLOURS[1]),
        ("past the end", "lost_excess", COLOURS[3]),
    )
    rows = [
        (r.summary.policy, [(name, 100 * getattr(r.summary, field), colour) for name, field, colour in kinds])
        for r in records
    ]
    return bars(rows, "Where output was lost, in per cent of the output")


def _rates(records: Sequence[RunRecord]) -> str:
    curves, widths = [], []
    for k, record in enumerate(records):
        hours, rate = _hours(record), np.array(record.curves["rate"])
        bins = max(rate.size // _POINTS, 1)
        curves.append(
            Line(
                record.summary.policy, smoothed(hours, bins), smoothed(rate, bins), COLOURS[k % len(COLOURS)]
            )
        )
        widths.append(record.bin_h * bins)
    wide = ", ".join(dict.fromkeys(f"{width * 60:.0f} minutes" for width in widths))
    return lines(curves, "Throughput over time", "samples/s", f"Averages over {wide}; losses not taken off.")


def smoothed(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the means of so many values at a time; what is left over at the end is averaged by itself.

    Examples
    --------
    >>> smoothed(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [2.0, 5.0]
    """
    starts = np.arange(0, values.size, bins)
    counts = np.minimum(bins, values.size - starts)
    return np.add.reduceat(values, starts) / counts if values.size else values


def _completions(records: Sequence[RunRecord]) -> str:
    curves = []
    for k, record in enumerate(records):
        if record.jobs is None:
            continue
        done = np.sort([at for at in record.jobs.completed_h if at is not None])
        x = np.concatenate(([0.0], done, [record.summary.span_h]))
        y = np.concatenate((np.arange(done.size + 1), [done.size])).astype(np.float64)
        curves.append(Line(record.summary.policy, x, y, COLOURS[k % len(COLOURS)]))
    return lines(curves, "Jobs done over time", "jobs") if curves else ""
