"""A drawing as PNG and PDF."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import apportion.draw
from apportion.cli.solve_instance import main
from apportion.core.errors import InvalidOption
from tests.cli.calling import call

EXAMPLE = Path("examples/gap_filling_small.json")


def test_a_plan_is_written_as_png_of_twice_its_size(tmp_path: Path) -> None:
    for name in ("plan.png", "plan.svg"):
        assert call(main, EXAMPLE, "--plot", tmp_path / name).code == 0
    data = (tmp_path / "plan.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert width == 2000  # 1,000 px of 1/96 inch at 192 dots
    assert f'height="{height / 2:g}"' in (tmp_path / "plan.svg").read_text()


def test_a_plan_is_written_as_pdf_of_one_page(tmp_path: Path) -> None:
    assert call(main, EXAMPLE, "--plot", tmp_path / "plan.pdf").code == 0
    data = (tmp_path / "plan.pdf").read_bytes()
    assert data.startswith(b"%PDF-") and data.count(b"/Type /Page\n") + data.count(b"/Type/Page\n") <= 1


def test_without_typst_it_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apportion.draw, "find_spec", lambda _: None)
    with pytest.raises(InvalidOption, match="pip install 'apportion\\[pictures\\]'"):
        apportion.draw.check_name("plan.png")
    apportion.draw.check_name("plan.svg")
