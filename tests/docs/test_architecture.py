"""The architecture page and its picture say what the imports are, and every step of the walk exists."""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    path = Path(__file__).parents[2] / "docs" / "_site" / "rooms.py"
    spec = importlib.util.spec_from_file_location("rooms_of_the_docs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def known(rooms: ModuleType) -> dict[str, set[str]]:
    """What every room imports, read once."""
    found: dict[str, set[str]] = rooms.imports()
    return found


@pytest.fixture(scope="module")
def page() -> str:
    return (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_picture_is_the_one_of_the_code(
    rooms: ModuleType, known: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "imports", lambda: known)  # read once for this file
    drawn = rooms.PICTURE.read_text(encoding="utf-8")
    assert drawn == rooms.drawing(), "run: python docs/_site/rooms.py"


def test_every_arrow_goes_down_and_none_is_missing(rooms: ModuleType, known: dict[str, set[str]]) -> None:
    shown = set(rooms.arrows(known))
    level = {room: number for number, row in enumerate(rooms.rows()) for room in row}
    assert level.keys() == known.keys()
    small = {rooms.VALUES}
    for room, met in known.items():
        assert all(level[room] < level[other] for other in met), room
    below: dict[str, set[str]] = {room: set() for room in known}
    for room in sorted(known, key=lambda name: -level[name]):
        for upper, lower in shown:
            if upper == room:
                below[room] |= {lower} | below[lower]
    for room in known.keys() - small:
        assert known[room] - small <= below[room], f"{room} imports more than the arrows say"


def test_every_room_has_its_paragraph(rooms: ModuleType, known: dict[str, set[str]], page: str) -> None:
    assert re.findall(r"^\*\*(\w+)\*\* ", page, re.MULTILINE) == [
        room for row in rooms.rows() for room in row
    ]
    assert {room for row in rooms.rows() for room in row} == known.keys()


def test_every_step_of_the_walk_exists(page: str) -> None:
    walk = page[page.index("## A plan's way") : page.index("## Where it is")]
    steps = re.findall(r"`(apportion(?:\.\w+)+)`", walk)
    assert len(steps) >= 12
    for step in steps:
        module, name = step.rsplit(".", 1)
        assert callable(getattr(import_module(module), name)), step


def test_every_place_where_something_is_decided_exists(page: str) -> None:
    named = re.findall(
        r"`(apportion(?:\.\w+)+)`", page[page.index("## Where it is") : page.index("## The rooms")]
    )
    assert len(named) >= 15
    for one in named:
        module, name = one.rsplit(".", 1)
        assert hasattr(import_module(module), name), one
