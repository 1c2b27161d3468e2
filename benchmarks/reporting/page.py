"""The report as one HTML page: nothing is fetched, no script, readable by keyboard and by ear."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from benchmarks.reporting.blocks import Chart, Section, Table
from benchmarks.reporting.charts import STYLE, chart_html

__all__ = ["page"]

_STYLE = (
    """
:root{--ink:#1b2026;--soft:#59636e;--rule:#d9dee4;--paper:#fff;--shade:#f4f6f8;--link:#0b5c82;
 --s0:#0b6e99;--s1:#c2570c;--s2:#2f7a3a;--s3:#8a4fa3;--s4:#b3273d;--s5:#7a6a00;--s6:#55606e;
 color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--ink:#e8ebee;--soft:#a3adb8;--rule:#3a434d;--paper:#15191e;
 --shade:#1d2329;--link:#7cc4e8;--s0:#4fb3e0;--s1:#f08a45;--s2:#6cbf78;--s3:#c596dc;--s4:#ee7286;
 --s5:#c9b63f;--s6:#9aa6b2}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:66rem;padding:1.2rem 1rem 3rem;background:var(--paper);color:var(--ink);
 font:16px/1.45 system-ui,"DejaVu Sans",sans-serif;overflow-wrap:break-word}
h1{font-size:1.6rem;margin:.2rem 0}
h2{font-size:1.25rem;margin:2.4rem 0 .3rem;border-top:1px solid var(--rule);
 padding-top:1.1rem}h3{font-size:1rem;margin:1.4rem 0 .3rem}
p{margin:.4rem 0;max-width:46rem}p.axis{max-width:none}
.lead{color:var(--soft)}.note{font-size:.85rem;color:var(--soft)}
a{color:var(--link)}
nav ul{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;padding:0;list-style:none;margin:.8rem 0}
.skip{position:absolute;left:-100rem}.skip:focus{position:static}
:focus-visible{outline:2px solid var(--s1);outline-offset:2px}
.scroll{overflow-x:auto;margin:.5rem 0 .8rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.28rem .6rem;font-size:.9rem;border-bottom:1px solid var(--rule);text-align:right;
 white-space:nowrap;vertical-align:top}
thead th{color:var(--soft);font-weight:600;white-space:normal;vertical-align:bottom}
th:first-child{position:sticky;left:0;background:var(--paper);white-space:nowrap}
tbody tr:hover{background:var(--shade)}
th:first-child,.words{text-align:left}tbody th{font-weight:600}
.long{white-space:normal;min-width:13rem}
figure{margin:1.6rem 0}figcaption{font-weight:600}
summary{cursor:pointer;color:var(--link);padding:.25rem 0;width:fit-content}
@media print{details>*{display:block}}
"""
    + STYLE
)


def page(title: str, lead: Sequence[str], sections: Sequence[Section]) -> str:
    """Return the whole page."""
    links = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in sections)
    number = 0
    body = []
    for section in sections:
        parts = [f'<section id="{section.anchor}"><h2>{escape(section.title)}</h2>']
        if section.lead:
            parts.append(f"<p>{escape(section.lead)}</p>")
        for block in section.blocks:
            number += 1
            parts.append(_table(block) if isinstance(block, Table) else _figure(block, number))
        body.append("".join(parts) + "</section>")
    paragraphs = "".join(f'<p class="lead">{_coded(escape(line))}</p>' for line in lead)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f'<a class="skip" href="#main">To the content</a><header><h1>{escape(title)}</h1>{paragraphs}'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>'
        f'<main id="main">{"".join(body)}</main></body></html>\n'
    )


def _coded(text: str) -> str:
    """Turn what stands between backticks into code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _figure(chart: Chart, number: int) -> str:
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    figures = _folded(chart.figures, f"The figures behind: {chart.title}")
    return f"<figure>{chart_html(chart, number)}{note}</figure>{figures}"


def _table(table: Table) -> str:
    if table.folded:
        return _folded(table, f"{table.title} ({len(table.rows)})")
    head = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return head + _grid(table)


def _folded(table: Table, title: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{_grid(table)}</details>"


def _grid(table: Table) -> str:
    if not table.rows:
        return f'<p class="note">{escape(table.note or "None.")}</p>'
    heads = "".join(
        f'<th scope="col"{_words(table, k)}>{escape(head)}</th>' for k, head in enumerate(table.heads)
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td{_words(table, k)}>{escape(cell)}</td>" for k, cell in enumerate(row[1:], start=1))
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    name = escape(table.title or "table", quote=True)
    return (
        f'<div class="scroll" role="region" aria-label="{name}" tabindex="0"><table><thead><tr>{heads}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div>{note}"
    )


def _words(table: Table, column: int) -> str:
    if column not in table.text_columns:
        return ""
    long = max((len(row[column]) for row in table.rows), default=0) > 40
    return ' class="words long"' if long else ' class="words"'
