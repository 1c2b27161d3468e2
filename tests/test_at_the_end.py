"""The end of a run: every reason for which tests are skipped is one line, however many places skip for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PLACES = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one_place(number: int) -> None:
    pytest.skip("no Slurm on this machine")

def test_another_place() -> None:
    pytest.skip("no Slurm on this machine")

@pytest.mark.skipif(True, reason="no browser")
def test_a_mark() -> None: ...

def test_busy() -> None:
    import time
    while time.process_time() < 1.0: pass
"""
COLLECTED = 'import pytest\npytest.importorskip("no_such_module", reason="no Slurm on this machine")\n'


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_a_reason_for_skipping_is_told_once_with_its_count(
    root: Path, tmp_path: Path, processes: str
) -> None:
    """23 lines said that there is no Slurm: one a place."""
    (tmp_path / "test_places.py").write_text(PLACES)
    (tmp_path / "test_collected.py").write_text(COLLECTED)
    (tmp_path / "conftest.py").write_text((root / "tests" / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-n", processes, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", str(root / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert told == ["SKIPPED [5] no Slurm on this machine", "SKIPPED [1] no browser"]
    (seconds,) = re.findall(r"^The tests took (\d+) CPU seconds\.$", done.stdout, flags=re.MULTILINE)
    assert 1 <= int(seconds) < 60
