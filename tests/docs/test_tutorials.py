"""The tutorials and the pages of the problems do what they say, command by command, and what they draw."""

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

from apportion.cli.solve_instance import main as solve
from tests.cli.calling import call

TUTORIALS = ("tutorials/administrator", "tutorials/scheduler_developer", "tutorials/researcher")
PROBLEMS = ("gap_filling", "knapsack")
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CLOCK = re.compile(r"(?:µs|ms|s|min),?")
"""A busy machine takes seconds where a quiet one takes milliseconds."""
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(?:e[+-]?\d+)?")


def same(told: str, shown: str) -> bool:
    """Whether two outputs agree token by token: ``...`` is any token, numbers agree to a millionth."""
    tokens, expected = told.split(), shown.split()
    return len(tokens) == len(expected) and all(map(_alike, tokens, expected))


def _alike(token: str, expected: str) -> bool:
    if expected in ("...", token) or (_CLOCK.fullmatch(token) and _CLOCK.fullmatch(expected)):
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


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in (*TUTORIALS, *PROBLEMS[1:])), PROBLEMS[0]],
)
def test_the_tutorial_does_what_it_says(name: str, root: Path, folder: Path) -> None:
    page = (root / "docs" / f"{name}.md").read_text(encoding="utf-8")
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
    assert not printed and ran >= (5 if name in TUTORIALS else 3)


def test_the_slurm_log_is_written_again_byte_for_byte(root: Path, tmp_path: Path) -> None:
    made = root / "examples" / "slurm_log"
    subprocess.run([sys.executable, made / "make.py", tmp_path], check=True, capture_output=True)
    for name in ("sacct.txt", "backlog.csv"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()


@pytest.mark.parametrize("name", ["gap_filling_small", "sia_round", "matching_unrelated", "freezing_small"])
def test_the_pictures_of_the_documents_are_drawn_so(name: str, root: Path, tmp_path: Path) -> None:
    done = call(solve, root / "examples" / f"{name}.json", "--plot", tmp_path / "plan.svg")
    assert done.code == 0, done.err
    shown = (root / "docs" / "assets" / f"{name}.svg").read_text(encoding="utf-8")
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8") == shown, (
        f"run: apportion solve examples/{name}.json --plot docs/assets/{name}.svg"
    )


def test_commands_are_copied_without_prompts_and_output(browser: str, root: Path, tmp_path: Path) -> None:
    script = (root / "docs" / "assets" / "copy_commands.js").read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(
        "<textarea id=t></textarea><script>"
        + script
        + """
        const copied = (text) => {
          const field = document.getElementById("t");
          field.value = text;
          field.focus();
          const event = new ClipboardEvent("copy", {clipboardData: new DataTransfer(), cancelable: true});
          document.dispatchEvent(event);
          return event.defaultPrevented ? event.clipboardData.getData("text/plain") : "as it is";
        };
        document.title = [copied("$ one\\nprinted\\n$ two --x\\nmore\\n"), copied("import x\\n")].join("|");
        </script>"""
    )
    run = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", tmp_path / "page.html"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "<title>one\\ntwo --x|as it is</title>" in run.stdout.replace("\n", "\\n"), run.stdout
