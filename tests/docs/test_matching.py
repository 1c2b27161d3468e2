"""The program of docs/matching.md prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_the_program_prints_what_the_page_says(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = (root / "docs" / "matching.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [printed] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    exec(program, {})
    assert capfd.readouterr().out == printed
