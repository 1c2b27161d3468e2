"""Every command and every program of docs/explain.md prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from apportion.cli.main import command
from apportion.cli.running import run


def page(root: Path) -> str:
    return (root / "docs" / "explain.md").read_text(encoding="utf-8")


def test_every_command_prints_what_the_page_says(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    shown = re.findall(r"```console\n\$ apportion (\S+) ([^\n]*)\n(.*?)```", page(root), re.DOTALL)
    assert len(shown) == 6
    for name, arguments, printed in shown:
        run(command, "apportion", [name, *shlex.split(arguments)])
        assert capfd.readouterr().out == printed


def test_the_program_prints_what_the_page_says(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    [program] = re.findall(r"```python\n(.*?)```", page(root), re.DOTALL)
    [printed] = re.findall(r"```text\n(.*?)```", page(root), re.DOTALL)
    exec(program, {})
    assert capfd.readouterr().out == printed
