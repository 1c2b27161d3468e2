"""The drawing of tenants: the one in the docs is drawn from the example, and everything used is in it."""

from __future__ import annotations

from pathlib import Path

import apportion
from apportion.draw import drawing


def test_the_picture_of_the_docs_is_the_example() -> None:
    instance = apportion.read("examples/three_teams.json")
    solution = apportion.solve(instance)
    drawn = drawing(instance, solution.require(), "plan.svg")
    assert drawn == Path("docs/assets/three_teams.svg").read_text(encoding="utf-8")
    for said in ("6 of 3, 3 borrowed", "whisper: 4", "4 of 6"):
        assert said in drawn
