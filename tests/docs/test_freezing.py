"""What docs/freezing.md shows is what the commands say; the profiler's own script runs where PyTorch is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from tests.cli.calling import call


def test_the_round_on_the_page_is_solved_so(root: Path) -> None:
    page = (root / "docs" / "freezing.md").read_text()
    told = call(solve, root / "examples" / "freezing_small.json").out
    shown = re.search(r"```\njob .*?```", page, flags=re.DOTALL)
    assert shown is not None
    for line in shown.group().strip("`\n").split("\n"):
        assert line in told


def test_the_fit_on_the_page_has_these_errors(root: Path) -> None:
    page, folder = (root / "docs" / "freezing.md").read_text(), root / "docs" / "freezing"
    told = call(
        main,
        "fit",
        folder / "steps.csv",
        "--layers",
        folder / "layers.csv",
        "--hold-out",
        "depth=1,4",
        "--json",
    )
    document = json.loads(told.out)
    shown = re.search(r"mean error ([\d.]+) % on 16 fitted rows, ([\d.]+) % on 8 held out", page)
    assert shown is not None
    assert document["mape_train"] == pytest.approx(float(shown[1]), abs=0.1)
    assert document["mape_held_out"] == pytest.approx(float(shown[2]), abs=0.1)
    assert document["work_share"] == "layers"


@pytest.mark.slow
def test_the_profiler_writes_what_fit_reads(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
    script = root / "examples" / "profile_freezing.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, script, tmp_path], check=True, env=environment, timeout=300)
    told = call(main, "fit", tmp_path / "steps.csv", "--layers", tmp_path / "layers.csv", "--json")
    assert json.loads(told.out)["rows_train"] == 24


def test_the_profiler_says_that_pytorch_is_missing(root: Path, tmp_path: Path) -> None:
    script = root / "examples" / "profile_freezing.py"
    source = f"import runpy, sys; sys.modules['torch'] = None; runpy.run_path({str(script)!r})"
    told = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 1
    assert "pip install 'apportion[torch]'" in told.stderr and "Traceback" not in told.stderr
