"""Every script that is given a file or a folder says in one line that it is not there."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS: dict[str, list[str]] = {
    "benchmarks/__main__.py": ["report", "{missing}"],
    "benchmarks/assignment_search.py": ["--data", "{missing}"],
    "benchmarks/cluster_policies.py": ["{missing}"],
    "benchmarks/decomposition_growth.py": ["--out", "{missing}/rows.jsonl"],
    "benchmarks/exact_search.py": ["--data", "{missing}"],
    "benchmarks/freezing_rounds.py": ["--data", "{missing}"],
    "benchmarks/gap_filling_event.py": ["--data", "{missing}"],
    "benchmarks/gavel_makespan.py": ["--data", "{missing}"],
    "benchmarks/knapsack_scaling.py": ["--data", "{missing}"],
    "benchmarks/kueue_perf.py": ["--data", "{missing}"],
    "benchmarks/matching_orlib.py": ["--data", "{missing}"],
    "benchmarks/multiknapsack_orlib.py": ["--data", "{missing}"],
    "benchmarks/replay_speed.py": ["--data", "{missing}"],
    "benchmarks/sia_rounds.py": ["--data", "{missing}"],
    "benchmarks/tenant_rounds.py": ["--data", "{missing}"],
    "benchmarks/warm_start_events.py": ["--data", "{missing}"],
    "paper_repro/freetrain/__main__.py": ["--data", "{missing}"],
    "paper_repro/freetrain/parts.py": ["--data", "{missing}"],
    "paper_repro/icefrog/__main__.py": ["--data", "{missing}"],
    "paper_repro/icefrog/freezing.py": ["--data", "{missing}"],
    "paper_repro/joint/__main__.py": ["--data", "{missing}", "--quick"],
    "paper_repro/malletrain/__main__.py": ["--data", "{missing}"],
    "paper_repro/model_similarity/__main__.py": ["--data", "{missing}"],
    "paper_repro/model_similarity/prediction_errors.py": ["--data", "{missing}"],
}
WRITE_ONLY = {"paper_repro/accuracy/__main__.py", "paper_repro/malletrain/live.py"}
"""Their only path is a folder that they make."""


def test_no_script_that_takes_a_path_is_forgotten(root: Path) -> None:
    scripts = [*(root / "benchmarks").glob("*.py"), *(root / "paper_repro").glob("*/*.py")]
    taking = {
        script.relative_to(root).as_posix()
        for script in scripts
        if 'if __name__ == "__main__":' in (text := script.read_text())
        and re.search(r"type=Path|path_type=Path|benchmarks\.presets", text)
    }
    assert taking == SCRIPTS.keys() | WRITE_ONLY
    for name in taking:
        text = (root / name).read_text()
        assert "in_one_line(" in text or "benchmarks.presets" in text, name


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_missing_file_is_one_line(
    name: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = tmp_path / "missing"
    words = [word.format(missing=missing) for word in SCRIPTS[name]]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(root)
    monkeypatch.setattr(sys, "argv", [name, *words])
    with pytest.raises(SystemExit) as leaving:
        runpy.run_path(str(root / name), run_name="__main__")
    told = capsys.readouterr().err.strip()
    assert leaving.value.code in (2, 3), told
    assert len(told.splitlines()) == 1 and str(missing) in told, told
