"""The tutorials of docs/tutorials do what they say, command by command."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TUTORIALS = ("administrator", "scheduler_developer", "researcher")
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(?:e[+-]?\d+)?")


def same(told: str, shown: str) -> bool:
    """Whether two outputs agree token by token: ``...`` is any token, numbers agree to a millionth."""
    tokens, expected = told.split(), shown.split()
    return len(tokens) == len(expected) and all(map(_alike, tokens, expected))


def _alike(token: str, expected: str) -> bool:
    if expected in ("...", token):
        return True
    if not (_NUMBER.fullmatch(token) and _NUMBER.fullmatch(expected)):
        return False
    one, other = (float(text.replace(",", "")) for text in (token, expected))
    return one == pytest.approx(other, rel=1e-6)


@pytest.fixture
def folder(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like the root of a clone, in which a tutorial may write."""
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(root / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(root / "src"))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    return tmp_path


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield every command of a console block and what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_tutorial_does_what_it_says(name: str, root: Path, folder: Path) -> None:
    page = (root / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "tutorial"}
    printed: str | None = None
    ran = 0
    for language, title, block in _FENCE.findall(page):
        if title:  # an excerpt of a file that ships with the project
            assert block in (root / title).read_text(encoding="utf-8"), f"{title} does not hold:\n{block}"
        elif language == "console":
            for command, shown in commands(block):
                run = subprocess.run(
                    ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=600
                )
                assert same(run.stdout, shown), f"$ {command}\n{run.stdout}{run.stderr}\ninstead of\n{shown}"
                ran += 1
        elif language == "python":
            assert not printed, f"the page does not show\n{printed}"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block, f"{name}.md", "exec"), namespace)
            printed = out.getvalue()
            ran += 1
        elif language == "text":
            assert printed is not None and same(printed, block), f"{printed}\ninstead of\n{block}"
            printed = None
        else:
            assert language in ("sh", "json"), f"a block of {language} is not replayed"
    assert not printed and ran >= 5


def test_the_slurm_log_is_written_again_byte_for_byte(root: Path, tmp_path: Path) -> None:
    made = root / "examples" / "slurm_log"
    subprocess.run([sys.executable, made / "make.py", tmp_path], check=True, capture_output=True)
    for name in ("sacct.txt", "backlog.csv"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()
