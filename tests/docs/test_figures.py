"""Every figure between `<!-- figures: TABLE ... -->` and `<!-- /figures -->` stands in such a table.

Outside such blocks the pages of the studies tell no figures but those that are listed here with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "paper_repro").rglob("*.md")),
)
QUOTED = re.compile(r"<!-- figures: ([^>]*?) -->(.*?)<!-- /figures -->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])")
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
FENCED = re.compile(r"```.*?```", re.DOTALL)
WRITTEN = ("docs/records.md", "docs/results.md", "paper_repro/icefrog/results.md")
"""Pages that a command writes with all their figures; nobody edits them."""
TELLING = ("cluster", "cluster_icefrog", "freezing", "matching", "replay")
STUDIES = tuple(
    path
    for path in DOCUMENTS
    if (name := path.relative_to(ROOT).as_posix()) not in WRITTEN
    and (name.startswith("paper_repro/") or name in {f"docs/{told}.md" for told in TELLING})
)
"""Pages that tell what studies came to."""
FIGURE = re.compile(
    r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:,? (?:and|to|or|beside|against) \d[\d,]*(?:\.\d+)?)* ?"
    r"(?:%|±|times\b|points\b|per cent)|(?<![\w.])\d[\d,]*\.\d+(?!\w)|±"
)
"""A number with decimals, a share, a multiple or an interval. Counts and rounds of whole seconds are none."""
EVERYWHERE = re.compile(
    r"arXiv:[\d.]+|95 % intervals?|95 % by Student's t|theta(?: =|,)? \d(?:\.\d+)?"
    r"|(?:Python|numpy|scipy|highspy|HiGHS|PyTorch|CP-SAT|apportion|Slurm) \d[\d.]*"
)
"""Versions, papers, the width of intervals, and theta, which is a setting."""
SETTINGS = {
    "docs/cluster.md": ("p = -0.5, lambda 1.1",),
    "docs/cluster_icefrog.md": (
        "p = -0.5, lambda = 1.1",
        "is frozen | 0.1 |",
        "end before | 0.9 |",
        "to 0.7 of the layers",
        "A beyond 0.65",
    ),
    "docs/freezing.md": ("-0.5, 0.5, 1 and lambda 1.1",),
    "docs/matching.md": ("costs like 0.1",),
    "docs/replay.md": ("under\n2 % of the machine is busy", "the paper's 93 %"),
    "paper_repro/accuracy/README.md": ("to 0.9 of\nthe layers", "stops at 0.7"),
    "paper_repro/costate/README.md": ("standard deviation of 0.7", "60 % of the jobs end"),
    "paper_repro/icefrog/README.md": (
        "down to 0.7 of the\n  layers",
        "deeper than 0.7",
        "Beyond 0.65",
        "jobs beyond 0.65",
    ),
    "paper_repro/joint/README.md": (
        "load 0.7\nand at 1.4",
        "theta = 1 first and 0.5 after it",
        "70, 10, 15 and 5 % ask",
        "knapsack to 5 %, `shortest first` to 1 %, the joint policy to 0.1 %",
    ),
    "paper_repro/malletrain/README.md": ("about 70 % with a seeded main queue",),
}
"""What was set or said by others, word for word: it is asked for, not measured."""
MEASURED = {
    "docs/cluster.md": (
        # held by `tests/simulation/test_published_pollux.py`
        "5301.875 s and 3469.69375 s on its workload 6,\n4087.0625 s and 2473.65 s on workload 1",
    ),
    # timed by `benchmarks`, whose commands print them; fits told by one line of `apportion fit`
    "docs/cluster_icefrog.md": ("7 % (imagenet) to 20 % (bert)",),
    "docs/freezing.md": (
        "2.1 ms | 1.8 ms | 1.9 s, 930 times | 2.0 s, 970 times",
        "825 times",
        "567 times",
        "8.1 % and 6.3 %",
    ),
    "docs/matching.md": (
        "0.05, 0.07, 0.10 CPU s with certificate; 0.12 to 0.16",
        "0.016 s | 0.70 s by matching, 2.5 s by HiGHS",
        "0.04 CPU s each (first call 0.17",
        "0.33 CPU s",
        "D: 0.07 to 0.28 % above our bound from 10 x 200 on, E 0.16 % at 20 x 200",
        "1.1 CPU s",
        "1.9 CPU s each, the other in 4.0",
        "0.1 to 4.3 %",
        "0.13 to 0.16 s",
        "0.37 to 0.66 s",
    ),
    "docs/replay.md": (
        "take 6.3 s of CPU",
        "takes 11.2 s",
        "88 % is the engine's",
        "5 % the policy's and 5 % the books'",
    ),
}
"""Figures that no table of a study holds, and why."""
PRINTED = {"paper_repro/malletrain/README.md": ("What it printed,", "Limits: one machine")}
"""From where to where a page says what a command printed before it wrote a table."""


def numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a text without separators of thousands."""
    for found in NUMBER.findall(text):
        yield found.rstrip(",").replace(",", "")


def leaves(value: Any) -> Iterator[Any]:
    """Yield every leaf of a JSON value, keys among them."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def unheld(text: str, tables: list[Any]) -> list[str]:
    """Return the numbers of a text that no table holds at the digits told, as they are or in per cent."""
    values: list[float] = []
    words: set[str] = set()
    for leaf in leaves(tables):
        if isinstance(leaf, str):
            words.update(numbers(leaf))
        elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
            values.append(abs(float(leaf)))
    wrong = []
    for told in numbers(CODE.sub("", text)):
        digits = len(told.partition(".")[2])
        half = 0.5 * 10.0**-digits * (1 + 1e-6)
        held = any(abs(scale * value - float(told)) <= half for value in values for scale in (1.0, 100.0))
        if not held and told not in words:
            wrong.append(told)
    return wrong


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_quotes_what_its_tables_hold(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert text.count("<!-- figures:") == len(QUOTED.findall(text)) == text.count("<!-- /figures -->")
    for names, quoted in QUOTED.findall(text):
        tables = [json.loads((ROOT / name).read_text(encoding="utf-8")) for name in names.split()]
        assert all(table["made"]["commit"] and table["made"]["versions"] for table in tables)
        assert unheld(quoted, tables) == [], f"{document.name} quotes figures that are not in {names}"


def blanked(text: str) -> str:
    """Return a text without blocks of figures, code, links and what is no figure anywhere."""
    for pattern in (QUOTED, FENCED, CODE, EVERYWHERE):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    return text


@pytest.mark.parametrize("document", STUDIES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_figure_outside_a_block_is_a_setting_or_listed(document: Path) -> None:
    name, text = document.relative_to(ROOT).as_posix(), document.read_text(encoding="utf-8")
    for known in (*SETTINGS.get(name, ()), *MEASURED.get(name, ())):
        assert known in text, f"{name} no longer says {known!r}: take it off the list"
        text = text.replace(known, re.sub(r"[^\n]", " ", known))
    for first, last in (PRINTED[name],) if name in PRINTED else ():
        begin, end = text.index(first), text.index(last)
        text = text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + text[end:]
    lines = list(enumerate(blanked(text).splitlines(), start=1))
    loose = [f"{number}: {found}" for number, line in lines for found in FIGURE.findall(line)]
    assert loose == [], f"{name} tells figures that no table holds, or outside a block"


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if path.relative_to(ROOT).as_posix() not in WRITTEN],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_an_interval_stands_in_a_block(document: Path) -> None:
    """Whoever tells an interval has a table of what was measured."""
    assert "±" not in blanked(document.read_text(encoding="utf-8"))


def test_a_figure_outside_a_block_is_found() -> None:
    told = "12 jobs in 60 s, `0.5` of 7\n<!-- figures: a --> 1.5 ± 2 % <!-- /figures -->\ntheta 0.5"
    assert FIGURE.findall(blanked(told)) == []
    assert FIGURE.findall(blanked("3 % of 0.25, 4 times, 1,234 of 5 to 6 %")) == [
        "3 %",
        "0.25",
        "4 times",
        "5 to 6 %",
    ]
    assert FIGURE.findall(blanked("1 ± 2")) == ["1 ±"]


def test_a_figure_that_no_table_holds_is_found() -> None:
    tables = [
        {"made": {"seeds": "philly-1"}, "rows": [{"less": 12.3456, "share": 0.179, "policy": "theta 0.5"}]}
    ]
    assert unheld("12.3 ± 17.9 %, theta 0.5 of 1", tables) == []
    assert unheld("12.4 and 18.0 % of `99`", tables) == ["12.4", "18.0"]


def test_the_studies_quote_their_tables() -> None:
    quoting = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS if "<!-- figures:" in path.read_text()}
    assert {"paper_repro/icefrog/README.md"} <= quoting
