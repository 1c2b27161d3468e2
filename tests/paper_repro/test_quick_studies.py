"""A study says how far it is, and has one small table that needs no data."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from paper_repro.icefrog.__main__ import main as icefrog
from paper_repro.progress import Progress, followed
from paper_repro.shipped import NEEDS_DATA, average_completion

STUDIES = ("accuracy", "costate", "freetrain", "icefrog", "joint", "malletrain", "model_similarity", "pollux")


def test_progress_is_told_at_once_every_few_seconds_and_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = iter([0.0, 1.0, 10.0, 11.0, 12.0])
    progress = Progress("runs", 4, lambda: next(now))
    for _ in range(4):
        progress.step()
    assert capsys.readouterr().err.splitlines() == [
        "4 runs to go",
        "2 of 4 runs done in 10 s, about 10 s left",
        "4 of 4 runs done in 12 s",
    ]
    assert list(followed(iter("ab"), "letters", 2)) == ["a", "b"]
    assert capsys.readouterr().err.splitlines()[0] == "2 letters to go"


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_has_a_quick_table(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    main = importlib.import_module(f"paper_repro.{study}.__main__").main
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", [study, "--help"])
        main()
    assert ended.value.code == 0 and "--quick" in capsys.readouterr().out
    readme = (Path(__file__).parents[2] / "paper_repro" / study / "README.md").read_text(encoding="utf-8")
    quick = [line for line in readme.splitlines() if "--quick" in line and "--data" not in line]
    # it says how long it takes
    assert len(quick) == 1
    assert "minute" in quick[0] or "second" in quick[0]


def test_the_whole_study_asks_for_its_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        icefrog(["--out", str(tmp_path)])
    assert ended.value.code == 2 and NEEDS_DATA in capsys.readouterr().err


def test_the_table_of_what_ships() -> None:
    rows = average_completion(("afs", "fifo"), {})
    assert [row["jobs done"] for row in rows] == [40, 40]
    assert rows[0]["to the first"] == 1
    assert rows[1]["to the first"] == pytest.approx(rows[1]["average, s"] / rows[0]["average, s"])


@pytest.mark.slow
@pytest.mark.parametrize("study", [study for study in STUDIES if study != "accuracy"])
def test_a_quick_table_needs_no_data(study: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = importlib.import_module(f"paper_repro.{study}.__main__").main
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [study, "--quick", "--out", str(tmp_path)])
        main()
    said = capsys.readouterr()
    assert "to go" in said.err and "|" in said.out
