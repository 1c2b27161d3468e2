"""The reproductions run end to end on generated data and write their tables and pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from paper_repro.freetrain.__main__ import main as freetrain
from paper_repro.malletrain.__main__ import main as malletrain


@pytest.mark.slow
def test_freetrain_on_generated_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    freetrain(["--quick", "--out", str(tmp_path)])
    table = (tmp_path / "results.md").read_text()
    assert table.count("| adaptive |") == 3 and "Seed 1." in table
    assert (
        "<svg" in (tmp_path / "sweeps.html").read_text() and "<svg" in (tmp_path / "replay.html").read_text()
    )
    assert "Forward-looking time" in capsys.readouterr().out


@pytest.mark.slow
def test_malletrain_on_generated_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    malletrain(["--seeds", "1", "--nodes", "128", "--days", "0.5", "--out", str(tmp_path)])
    table = (tmp_path / "results.md").read_text()
    # two cells each, and seven pairs of ways to know the curves: in both cells, and in the mean of them
    assert table.count("| hpo |") == table.count("| nas |") == 2 + 7 * 3 and "of the oracle" in table
    shares = json.loads((tmp_path / "shares.json").read_text())
    assert len(shares["rows"]) == 8 and shares["made"]["versions"]["numpy"]
    assert "MalleTrain" in capsys.readouterr().out
