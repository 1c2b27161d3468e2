"""The report of what was harvested: one self-contained HTML page, no script, nothing fetched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape

import numpy as np

from apportion.core import __version__
from apportion.draw.report_page import COLOURS, Line, bars, lines, whole_page
from apportion.live.record.journal import Harvested

__all__ = ["harvest_page"]

_SHOWN = 40


def harvest_page(found: Harvested, names: Mapping[str, str]) -> str:
    """Return the page.

    Parameters
    ----------
    found
        What was harvested.
    names
        What people call the jobs, by id.
    """
    parts = [_head(found), _figures(found), _nodes(found), _jobs(found, names), _returns(found)]
    made = f"Made with apportion {escape(__version__)} from the controller's journal."
    parts.append(f'<p class="note">{made}</p>')
    return whole_page("Harvested node hours", parts)


def _day(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))


def _head(found: Harvested) -> str:
    total, span_h = found.total, (found.until_s - found.since_s) / 3600
    return (
        f"<h1>{total.used:,.1f} node hours harvested</h1>"
        f'<p class="lead">{_day(found.since_s)} to {_day(found.until_s)}. A controller watched '
        f"{found.watched_h:,.1f} of these {span_h:,.1f} hours; nothing is known of the others.</p>"
    )


def _figures(found: Harvested) -> str:
    total = found.total
    free = total.idle + total.held
    done, lost = sum(found.samples.values()), sum(found.undone.values())
    rows = [
        ("Node hours idle or held", f"{free:,.2f}"),
        ("held by pilots", f"{total.held:,.2f}"),
        ("used by jobs", f"{total.used:,.2f}" + (f" ({total.used / free:.0%})" if free > 0 else "")),
        ("Samples trained", f"{done:,}"),
        ("lost, no checkpoint held them", f"{lost:,}" + (f" ({lost / done:.1%})" if done else "")),
        ("Nodes the main queue took back", f"{len(found.returns_s):,}"),
        ("gone without a word", f"{found.gone:,}"),
        *((kind.replace("_", " "), f"{count:,}") for kind, count in sorted(found.troubles.items())),
    ]
    return _table(rows)


def _table(rows: list[tuple[str, str]] | list[tuple[str, str, str, str]]) -> str:
    cells = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table>{cells}</table></div>'


def _nodes(found: Harvested) -> str:
    last = int((found.until_s - found.since_s) // 3600)
    hours = np.arange(last + 1, dtype=np.float64) + 0.5

    def curve(*names: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        sums = [
            sum(getattr(found.hours[hour], name) for name in names) if hour in found.hours else 0.0
            for hour in range(last + 1)
        ]
        return np.array(sums, dtype=np.float64)

    return lines(
        [
            Line("idle or held", hours, curve("idle", "held"), COLOURS[6], filled=True),
            Line("held", hours, curve("held"), COLOURS[1]),
            Line("used by jobs", hours, curve("used"), COLOURS[0]),
        ],
        "Nodes, hour by hour",
        "node hours",
        "0 also where no controller watched.",
    )


def _jobs(found: Harvested, names: Mapping[str, str]) -> str:
    total = sum(found.used.values())
    ordered = sorted(found.used.items(), key=lambda item: (-item[1], item[0]))
    rows = [("Job", "node hours", "samples", "lost")]
    rows += [
        (
            _called(job, names),
            f"{hours:,.2f}",
            f"{found.samples.get(job, 0):,}",
            f"{found.undone.get(job, 0):,}",
        )
        for job, hours in ordered[:_SHOWN]
    ]
    if len(ordered) > _SHOWN:
        rest = sum(hours for _, hours in ordered[_SHOWN:])
        rows.append((f"{len(ordered) - _SHOWN} other jobs", f"{rest:,.2f}", "", ""))
    share = [
        (_called(job, names), 100 * hours / total, COLOURS[k % len(COLOURS)])
        for k, (job, hours) in enumerate(ordered[:7])
    ]
    drawn = bars([("node hours", share)], "To whom, in per cent of the node hours used") if total > 0 else ""
    return drawn + _table(rows)


def _called(job: str, names: Mapping[str, str]) -> str:
    return f"{job} {names.get(job, '')}".strip()


def _returns(found: Harvested) -> str:
    if not found.returns_s:
        return "<p>The main queue took no node back in this time: it felt nothing.</p>"
    waits = np.sort(np.array(found.returns_s))
    middle, high, most = (float(np.quantile(waits, share)) for share in (0.5, 0.95, 1.0))
    return (
        "<figure><figcaption>What the main queue felt</figcaption><p>From when Slurm began to end a pilot "
        "to when the controller saw it gone. It looks every few seconds: the true waits are shorter.</p>"
        "</figure>"
    ) + _table(
        [
            ("Median, at most", f"{middle:.2f} s"),
            ("95 of 100 within", f"{high:.2f} s"),
            ("Longest", f"{most:.2f} s"),
        ]
    )
