"""The page on placement: its command and its programs print what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from apportion.cli.main import main
from tests.cli.calling import call


def page(root: Path) -> str:
    return (root / "docs" / "placement.md").read_text(encoding="utf-8")


def test_the_commands_print_what_the_page_says(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(root / "examples")
    blocks = re.findall(r"```console\n(.*?)```", page(root), re.DOTALL)
    commands = [one for block in blocks for one in re.findall(r"\$ apportion ([^\n]*)\n([^$]*)", block)]
    assert [line.split()[0] for line, _ in commands] == ["solve", "solve", "solve", "convert", "solve"]
    for line, printed in commands:
        told = call(main, *shlex.split(line))
        begins, cut, ends = printed.partition("...\n")
        assert (told.err + told.out).startswith(begins), line
        assert not cut or told.out.endswith(ends), line


def test_the_programs_print_what_the_page_says(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    programs = re.findall(r"```python\n(.*?)```", page(root), re.DOTALL)
    [printed] = re.findall(r"```text\n(.*?)```", page(root), re.DOTALL)
    for program in programs:
        exec(program, {})
    assert capfd.readouterr().out == printed
