"""What decides whether a change lands: a newcomer's machine is made of any; what fails side by side fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paper_repro.malletrain.one_machine import PROGRAMS

LACKING = (*PROGRAMS, "sacct", "munge", "runc", "chromium", "google-chrome")


def ran(
    *command: str, path: str | None = None, told: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more, **({} if path is None else {"PATH": path})}
    return subprocess.run(
        command, input=told, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """A search path on which everything is that a newcomer's machine lacks, and what the script needs."""
    (tmp_path / "bin").mkdir()
    for name in LACKING:
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


def test_neither_slurm_nor_a_browser_nor_a_home_is_found_where_the_readme_is_tried(
    root: Path, tmp_path: Path, machine: str
) -> None:
    """A test that failed without Slurm's commands was never seen: they were installed before it ran."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "mine" / ".config" / "pip").mkdir(parents=True)
    (settings := tmp_path / "mine" / ".config" / "pip" / "pip.conf").write_text("[global]\n")
    more = {"HOME": str(tmp_path / "mine"), "PIP_CONFIG_FILE": "", "XDG_CONFIG_HOME": "", "PIP_CACHE_DIR": ""}
    made = ran("bash", str(root / ".ci" / "bare"), str(tmp_path / "bare"), path=machine, **more)
    assert made.returncode == 0, made.stderr
    asked = "import os, sys; print(*[os.environ[n] for n in sys.argv[1:]], sep='|')"
    program = f'{made.stdout}\npython3 -c "{asked}" PATH HOME PIP_CONFIG_FILE PIP_CACHE_DIR'
    bare = ran("bash", "-c", program, path=machine, **more)
    assert bare.returncode == 0, bare.stderr
    path, home, pip, cache = bare.stdout.strip().split("|")
    assert [name for name in LACKING if shutil.which(name, path=path)] == []
    assert shutil.which("ls", path=path) and shutil.which("python3", path=path)
    assert list(Path(home).iterdir()) == [] and home != more["HOME"]
    assert (pip, cache) == (str(settings), f"{more['HOME']}/.cache/pip")


def test_an_environment_made_there_outlives_the_folder(root: Path, tmp_path: Path, machine: str) -> None:
    (tmp_path / "bare").mkdir()
    assert ran("bash", str(root / ".ci" / "bare"), str(tmp_path / "bare"), path=machine).returncode == 0
    python = tmp_path / "bare" / "bin" / "python3"
    made = ran(str(python), "-m", "venv", "--without-pip", str(tmp_path / "venv"))
    assert made.returncode == 0, made.stderr
    shutil.rmtree(tmp_path / "bare")
    assert ran(str(tmp_path / "venv" / "bin" / "python"), "-c", "print(1)").stdout == "1\n"


@pytest.mark.parametrize(
    ("commands", "code"), [("echo one\necho two\nexit 3\necho four", 1), ("echo one", 0)]
)
def test_one_that_fails_among_others_side_by_side_fails_and_all_are_shown(
    root: Path, commands: str, code: int
) -> None:
    done = ran("bash", str(root / ".ci" / "side_by_side"), told=commands)
    assert done.returncode == code, done.stderr
    shown = [line for line in done.stdout.splitlines() if not line.startswith("==")]
    assert sorted(shown) == sorted(line[5:] for line in commands.splitlines() if line.startswith("echo"))
    assert ("== exit 3: exit code 3" in done.stdout) == bool(code)


def test_no_more_than_two_run_at_once(root: Path, tmp_path: Path) -> None:
    (now := tmp_path / "now").mkdir()
    one = f"touch {now}/$$; ls {now} | wc -l; sleep 0.2; rm {now}/$$"
    done = ran("bash", str(root / ".ci" / "side_by_side"), told="\n".join([one] * 5))
    counts = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    assert len(counts) == 5 and max(counts) <= 2 and done.returncode == 0
