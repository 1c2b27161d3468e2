"""Accuracy and loss of trainings against time, without training anything."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

import pytest
from paper_repro.accuracy.against_time import course_rows, courses_chart


@dataclass
class Course:
    loss: list[float]
    accuracy: list[float]


def courses(accuracy: float) -> list[Course]:
    return [Course([0.5 / (k + 1 + seed) for k in range(17)], [accuracy] * 17) for seed in range(3)]


def test_means_over_seeds_stand_at_every_tenth_of_the_time() -> None:
    rows = list(course_rows("cnn", {"nothing frozen": courses(0.9), "half": courses(0.4)}))
    assert [row["share of the time"] for row in rows[:10]] == pytest.approx([k / 10 for k in range(1, 11)])
    assert len(rows) == 20 and rows[0]["accuracy"] == pytest.approx(0.9) and rows[10]["rule"] == "half"
    assert rows[0]["loss"] == pytest.approx((0.5 + 0.25 + 0.5 / 3) / 3) and rows[0]["loss_half"] > 0


def test_every_rule_is_drawn_for_every_network() -> None:
    rows = [
        row
        for network in ("cnn", "transformer")
        for row in course_rows(network, {"nothing frozen": courses(0.9), "half": courses(0.4)})
    ]
    drawing = ElementTree.fromstring(courses_chart(rows))
    lines = [one for one in drawing.iter() if one.tag.endswith(("polyline", "path"))]
    bands = [one for one in drawing.iter() if one.tag.endswith("polygon")]
    assert len(bands) == 8 and len(lines) >= 8
