"""The report: what stands in it, as Markdown and as a page, and a look at the page in a real browser."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import main
from benchmarks.reporting.markdown import markdown
from benchmarks.reporting.page import page
from benchmarks.reporting.report import TITLE, report
from click.testing import CliRunner

from tests.benchmarks.test_compare import row


def rows() -> list[dict[str, Any]]:
    """Make five sizes of one set and a second family, with a crash, an absent peer and a hostile name."""
    machine = {"cpu": "A <CPU>", "cores": 2, "memory_gib": 8, "system": "Linux x86_64"}
    made: list[dict[str, Any]] = [
        {
            "kind": "run",
            "commit": "abc1234",
            "workers": 2,
            "versions": {"numpy": "2"},
            "missing_data": ["mmkp-files"],
        }
    ]
    peers = ("scipy-milp", "ortools-cp-sat", "linopy+highs", "pop", "cvxpy+glpk")
    for family, name in (("sia", "rounds"), ("mckp", "menus")):
        for k in range(5):
            common = {"family": family, "set": name, "size": 2**k, "size_of": "jobs", "machine": machine}
            common["at"] = "2026-01-02T03:04:05+00:00"
            label = f"{2**k}-s0"
            made.append(row(instance=label, seconds=0.002 * 2**k, **common))
            for p, peer in enumerate(peers):
                made.append(row(peer, label, seconds=0.0015 * (p + 1) * 4**k, **common))
            made[-1].update(termination="crash", told="<b>SIGSEGV</b> | boom", objective=None, check=None)
            gone = {"termination": "unavailable", "told": "pyscipopt not installed", "objective": None}
            made.append(row("cvxpy+scip", label, **common) | gone | {"check": None})
    for number, told in enumerate(made[1:]):
        told["key"] = str(number)
    return made


def test_losses_stand_before_wins_and_nothing_is_left_out() -> None:
    lead, sections = report(rows())
    text = markdown(TITLE, lead, sections)
    assert "mmkp-files" in text and "abc1234" in text and "2 cores, 8 GiB" in text
    assert sections[0].anchor == "standing"
    first = sections[0].blocks[0]
    ranking = [line[0] for line in first.rows]
    assert ranking == ["scipy-milp", "ortools-cp-sat", "linopy+highs", "pop", "cvxpy+glpk"]
    assert "It lost 2 of 50 duels" in text and "pyscipopt not installed" in text
    losses = sections[0].blocks[1]
    assert len(losses.rows) == 2 and all("time" in line for line in losses.rows)
    assert text.count("| crash |") == 10 and "SIGSEGV&lt;/b> \\| boom" in text
    assert "| sia | " in text or "Sia-style" in text
    assert "2.00 ± 0.00" in text and "1.00 ± 0.00" in text, "fitted exponents"
    assert "Shift 10 ms" in text and "Shift 1 s" in text


def test_the_page_is_one_file_without_script_that_fetches_nothing() -> None:
    lead, sections = report(rows())
    text = page(TITLE, lead, sections)
    assert "<script" not in text and "<b>SIGSEGV" not in text and "&lt;b&gt;SIGSEGV" in text
    assert not re.search(r"\ssrc=|url\(|https?://|@import|<link", text)
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for anchor in re.findall(r'href="#([^"]+)"', text):
        assert anchor in ids
    charts = re.findall(r"<svg [^>]*role=\"img\".*?</svg>", text, re.S)
    assert len(charts) >= 5 and all("<title" in chart and "<desc" in chart for chart in charts)
    assert text.count("The figures behind") == len(charts), "every chart has its table"
    assert text.count('tabindex="0"') == text.count('class="scroll"') and 'lang="en"' in text


def test_an_empty_or_single_row_file_has_a_report_too(tmp_path: Path) -> None:
    for given in ([], [row()], [row("peer", termination="crash", objective=None, check=None, seconds=None)]):
        lead, sections = report(given)
        assert page(TITLE, lead, sections) and markdown(TITLE, lead, sections)


def test_the_command_writes_both(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows()))
    out, told = tmp_path / "page.html", tmp_path / "told.md"
    done = CliRunner().invoke(main, ["report", str(file), "--out", str(out), "--markdown", str(told)])
    assert done.exit_code == 0, done.output
    assert out.read_text().startswith("<!doctype html>") and told.read_text().startswith("# apportion")
    assert CliRunner().invoke(main, ["report", str(file)]).exit_code == 2


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_the_window_of_a_real_browser(browser: str, tmp_path: Path, width: int) -> None:
    """Chromium lays the page out; a probe appended to it reports what sticks out and what is drawn.

    Chromium's windows are not as narrow as a phone; the page has no rule that asks for the window's width, so
    a root of a phone's width is laid out as on a phone.
    """
    lead, sections = report(rows())
    text = page(TITLE, lead, sections)
    assert "max-width:" not in "".join(re.findall(r"@media[^{]*", text)) and "vw" not in text
    probe = (
        "<script>const d=document.documentElement,b=e=>e.getBoundingClientRect();"
        "document.querySelectorAll('details').forEach(e=>e.open=true);"
        "const out=[...document.querySelectorAll('body *')].filter(e=>!e.closest('.scroll table')&&"
        f"!e.closest('svg *')&&b(e).width&&b(e).right>{width}+1).map(e=>e.outerHTML.slice(0,80));"
        "const key=[...document.querySelectorAll('a,summary,[tabindex]')];"
        "document.title=JSON.stringify({wide:out.slice(0,3),"
        "charts:[...document.querySelectorAll('figure .plot>svg')].map(e=>[b(e).width,b(e).height]),"
        "reached:key.every(e=>{e.focus();return document.activeElement===e}),keys:key.length,"
        "fetched:performance.getEntriesByType('resource').length,"
        "small:[...document.querySelectorAll('.x,.y,td,th,p,span,li')].filter(e=>e.textContent&&"
        "parseFloat(getComputedStyle(e).fontSize)<11).length})</script></body>"
    )
    file = tmp_path / "page.html"
    sized = text.replace("</style>", f"html{{width:{width}px}}</style>")
    file.write_text(sized.replace("</body>", probe))
    done = subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--dump-dom"),
            *("--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"),
            file.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert b":CONSOLE" not in done.stderr, done.stderr[-500:]
    found = re.search(rb"<title>(\{.*?\})</title>", done.stdout)
    assert found is not None, done.stderr[-500:]
    told = json.loads(html.unescape(found[1].decode()))
    assert told["wide"] == [] and told["small"] == 0 and told["fetched"] == 0
    assert told["reached"] and told["keys"] > 20
    assert len(told["charts"]) >= 5 and all(w > 250 and h > 200 for w, h in told["charts"])
