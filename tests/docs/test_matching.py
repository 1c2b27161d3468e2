"""The programs of docs/matching.md and docs/knapsack.md print, and find, what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from apportion.core.outcome import Termination


def test_the_program_prints_what_the_page_says(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = (root / "docs" / "matching.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [printed] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    exec(program, {})
    assert capfd.readouterr().out == printed


def test_the_menus_that_are_asked_find_what_the_page_says(root: Path) -> None:
    page = (root / "docs" / "knapsack.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["plan"].termination is Termination.OPTIMAL
