"""Every script that is given a file or a folder says in one line that it is not there."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {
    "benchmarks/__main__.py": ["report", "{missing}"],
    "benchmarks/cluster_policies.py": ["{missing}"],
    "paper_repro/freetrain/gains.py": ["{missing}"],
    "paper_repro/freetrain/idle_logs.py": ["{missing}"],
    "paper_repro/malletrain/gains.py": ["{missing}"],
    "paper_repro/joint/__main__.py": ["--data", "{missing}", "--quick"],
}
"""How scripts are told of what is not there; all others by ``--data``."""
WRITE_ONLY = {
    "paper_repro/accuracy/__main__.py",
    "paper_repro/malletrain/live.py",
    "paper_repro/malletrain/main_queue_delay.py",
    "paper_repro/malletrain/mixed_types.py",
}
"""Their only path is a folder that they make."""


def taking_paths() -> list[str]:
    """The scripts that are given a file or a folder."""
    scripts = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "paper_repro").glob("*/*.py")]
    return sorted(
        script.relative_to(ROOT).as_posix()
        for script in scripts
        if 'if __name__ == "__main__":' in (text := script.read_text())
        and re.search(r"type=Path|path_type=Path", text)
    )


SCRIPTS = [name for name in taking_paths() if name not in WRITE_ONLY]


def test_the_scripts_are_found() -> None:
    assert OTHERS.keys() <= set(SCRIPTS) and set(taking_paths()) >= WRITE_ONLY and len(SCRIPTS) > 10


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_missing_file_is_one_line(
    name: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = tmp_path / "missing"
    words = [word.format(missing=missing) for word in OTHERS.get(name, ["--data", "{missing}"])]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(root)
    monkeypatch.setattr(sys, "argv", [name, *words])
    with pytest.raises(SystemExit) as leaving:
        runpy.run_path(str(root / name), run_name="__main__")
    told = capsys.readouterr().err.strip()
    assert leaving.value.code in (2, 3), told
    assert len(told.splitlines()) == 1 and str(missing) in told, told
