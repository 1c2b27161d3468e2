"""A quantity in words is refused with the number to write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apportion.cli.main import main
from apportion.instances.fields import as_number
from tests.cli.calling import call


@pytest.mark.parametrize(
    ("field", "text", "hint"),
    [
        ("horizon_s", "2 min", "write 120, the field is in seconds"),
        ("horizon_s", "1.5h", "write 5400, the field is in seconds"),
        ("horizon_s", "250 ms", "write 0.25, the field is in seconds"),
        ("horizon_s", "30s", "write 30, the field is in seconds"),
        ("horizon_s", "120", "write 120, the field is in seconds"),
    ],
)
def test_a_duration_in_words_is_told_in_seconds(field: str, text: str, hint: str, tmp_path: Path) -> None:
    tree = json.loads(Path("examples/gap_filling_small.json").read_bytes())
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**tree, field: text}))
    done = call(main, "validate", path)
    assert done.code == 3
    assert f"must be a number, not {text!r}; {hint}" in done.out


@pytest.mark.parametrize(
    ("path", "text", "hint"),
    [
        ("$.capacities.v100", "8 GPUs", "; write 8, without 'GPUs'"),
        ("$.jobs[0].weight", "2", "; write 2, without quotes"),
        ("$.horizon_s", "soon", ""),
        ("$.horizon_s", ["2 min"], ""),
        ("$.horizon_s", "5 parsec", "; write 5, without 'parsec'"),
    ],
)
def test_other_quantities(path: str, text: object, hint: str) -> None:
    assert as_number(path, text) == hint
