"""Every figure between `<!-- figures: TABLE ... -->` and `<!-- /figures -->` stands in such a table."""

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


def test_a_figure_that_no_table_holds_is_found() -> None:
    tables = [
        {"made": {"seeds": "philly-1"}, "rows": [{"less": 12.3456, "share": 0.179, "policy": "theta 0.5"}]}
    ]
    assert unheld("12.3 ± 17.9 %, theta 0.5 of 1", tables) == []
    assert unheld("12.4 and 18.0 % of `99`", tables) == ["12.4", "18.0"]


def test_the_studies_quote_their_tables() -> None:
    quoting = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS if "<!-- figures:" in path.read_text()}
    assert {"paper_repro/icefrog/README.md"} <= quoting
