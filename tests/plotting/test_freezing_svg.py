"""The drawing of a freezing plan: well-formed, every job named, nothing outside, whatever the instance."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

import apportion
from apportion.draw import drawing
from apportion.draw.freezing_svg import indifferent_progress, progress_seen
from apportion.draw.svg import INK
from apportion.instances import FreezingInstance
from apportion.instances.freezing import FreezingConfiguration, FreezingJob, FreezingRow
from apportion.instances.freezing.check import exact_objective
from apportion.instances.freezing.generator import generate
from tests.budgets import examples
from tests.strategies import freezing_instances


@given(freezing_instances())
@settings(max_examples=examples(60))
def test_every_plan_can_be_drawn(instance: FreezingInstance) -> None:
    plan = apportion.solve(instance).plan
    if plan is None:
        return
    prices = dict.fromkeys(instance.gpus, 0.25)
    tree = ElementTree.fromstring(drawing(instance, plan, "plan.svg", prices))
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


def test_the_price_is_named_and_drawn_once_a_job(root: Path) -> None:
    instance = apportion.read(root / "examples" / "freezing_small.json")
    solution = apportion.solve(instance)
    prices = solution.certificate.multipliers
    assert prices is not None
    text = drawing(instance, solution.require(), "plan.svg", prices)
    assert f"price: {prices['v100']:.4g} per v100 GPU, at its frozen penalty" in text
    assert text.count("stroke-dasharray") == 1 + len(instance.jobs)
    assert "stroke-dasharray" not in drawing(instance, solution.require(), "plan.svg")


def _one_job(power: float, current: FreezingConfiguration | None = None) -> FreezingInstance:
    rows = tuple(FreezingRow("t4", g, (0, 3), (10.0 * g**0.8, 11.0 * g**0.7)) for g in (1, 2, 4, 8))
    job = FreezingJob("j", 10, rows, current=current, age_s=100.0, restart_s=20.0, rebuild_s=6.0, weight=3.0)
    return FreezingInstance("1", {"t4": 8}, 60.0, (job,), power=power)


@pytest.mark.parametrize("power", [1.0, 0.5, 2.0, -0.5, -1.0])
@pytest.mark.parametrize("current", [None, FreezingConfiguration("t4", 2, 0)])
@pytest.mark.parametrize("told", [{"gpu_type": "t4", "gpus": 2, "depth": 3}, None])
def test_the_curve_is_worth_what_the_choice_is_by_the_checkers_own_objective(
    power: float, current: FreezingConfiguration | None, told: dict[str, Any] | None
) -> None:
    """A menu that offers exactly the progress on the curve leaves the priced objective as it is."""
    instance, price = _one_job(power, current), 0.05
    job = instance.jobs[0]
    gpus = np.array([1.0, 2.0, 3.0, 4.0, 8.0])
    curve = indifferent_progress(instance, job, told, price, gpus)
    sign = 1.0 if power > 0 else -1.0
    plan: dict[str, Any] = {"configuration": {} if told is None else {"j": told}}
    used = 0 if told is None else told["gpus"]
    priced = float(exact_objective(instance, plan)) - sign * price * used
    if told is not None:
        row = next(row for row in job.menu if row.gpus == used)
        assert curve[1] == pytest.approx(progress_seen(instance, job, row)[1])
    for count, progress in zip(gpus.astype(int).tolist(), curve.tolist(), strict=True):
        if np.isnan(progress):
            continue
        newcomer = FreezingJob("j", 10, (FreezingRow("t4", count, (0,), (progress,)),), weight=3.0)
        newcomer = msgspec.structs.replace(newcomer, reference_progress=10.0)
        other = FreezingInstance("1", {"t4": 8}, 60.0, (newcomer,), power=power)
        stands = {"configuration": {"j": {"gpu_type": "t4", "gpus": count, "depth": 0}}}
        worth = float(exact_objective(other, stands)) - sign * price * count
        assert worth == pytest.approx(priced, rel=1e-9)
    if power == 1.0 and told is not None:  # the price line itself
        slope = price * 10.0 / 3.0
        np.testing.assert_allclose(np.diff(curve) / np.diff(gpus), slope)


def test_progress_is_seen_less_what_restarts_and_rebuilds_cost() -> None:
    instance = _one_job(1.0, FreezingConfiguration("t4", 2, 0))
    job = instance.jobs[0]
    assert progress_seen(instance, job, job.menu[0]).tolist() == pytest.approx([10 / 1.2, 11 / 1.2])
    assert progress_seen(instance, job, job.menu[1]).tolist() == pytest.approx(
        [10 * 2**0.8, 0.9 * 11 * 2**0.7]
    )


def test_drawings_turn_dark_with_the_reader(root: Path) -> None:
    instance = apportion.read(root / "examples" / "freezing_small.json")
    page = drawing(instance, apportion.solve(instance).require(), "plan.html")
    assert page.count("prefers-color-scheme: dark") == 2
    assert f'[fill="{INK}"]' in page and 'class="paper"' in page
