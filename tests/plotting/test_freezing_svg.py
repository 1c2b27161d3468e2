"""The drawing of a freezing plan: well-formed, every job named, nothing outside, whatever the instance."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given, settings

import apportion
from apportion.instances import FreezingInstance
from apportion.instances.freezing.generator import generate
from apportion.plotting import drawing
from tests.strategies import freezing_instances


@given(freezing_instances())
@settings(max_examples=60)
def test_every_plan_can_be_drawn(instance: FreezingInstance) -> None:
    plan = apportion.solve(instance).plan
    if plan is None:
        return
    tree = ElementTree.fromstring(drawing(instance, plan, "plan.svg"))
    texts = [element.text or "" for element in tree.iter() if element.tag.endswith("text")]
    assert all(job.id in texts for job in instance.jobs)
    boxes = [element for element in tree.iter() if element.tag.endswith("rect")]
    assert all(float(box.get("width", "0")) >= 0 and float(box.get("y", "0")) >= 0 for box in boxes)


def test_the_example_is_drawn_with_its_choices(root: Path) -> None:
    instance = apportion.read(root / "examples" / "freezing_small.json")
    text = drawing(instance, apportion.solve(instance).require(), "plan.html")
    assert "2 x v100, 29 of 97 layers frozen" in text
    assert "4 of 4 jobs run, 2 of them with frozen layers" in text


def test_many_jobs_are_cut_and_said_so() -> None:
    instance = generate(1, 30, {"t4": 64}, depths=3, counts=3)
    text = drawing(instance, apportion.solve(instance).require(), "plan.svg")
    assert "and 6 more jobs with fewer GPUs" in text
