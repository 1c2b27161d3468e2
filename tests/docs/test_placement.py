"""The page on placement: its command and its programs print what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from apportion.cli.solve_instance import main
from tests.cli.calling import call


def page(root: Path) -> str:
    return (root / "docs" / "placement.md").read_text(encoding="utf-8")


def test_the_command_prints_what_the_page_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    [(arguments, printed)] = re.findall(
        r"```console\n\$ apportion solve ([^\n]*)\n(.*?)```", page(root), re.DOTALL
    )
    assert call(main, *shlex.split(arguments)).out.startswith(printed)


def test_the_programs_print_what_the_page_says(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    programs = re.findall(r"```python\n(.*?)```", page(root), re.DOTALL)
    [printed] = re.findall(r"```text\n(.*?)```", page(root), re.DOTALL)
    for program in programs:
        exec(program, {})
    assert capfd.readouterr().out == printed
