"""The report of replays: one self-contained HTML page, no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidOption
from apportion.simulation.report_charts import COLOURS, Line, bars, gantt, lines
from apportion.simulation.report_text import cells, heads
from apportion.simulation.run_record import RunRecord

__all__ = ["report_page", "whole_page"]

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
