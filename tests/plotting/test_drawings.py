"""Drawings: well-formed, escaped, true to the plan, and bounded in size however large the instance is."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import apportion
from apportion.core.errors import InvalidOption
from apportion.draw import drawing
from apportion.draw.svg import IDLE, OTHERS, clipped, color, escaped, ink_on, text_width
from apportion.instances import (
    GapFillingInstance,
    GapFillingJob,
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
    ScalingCurve,
)
from apportion.instances.gap_filling.generator import generate
from tests.budgets import examples
from tests.strategies import gap_filling_instances, knapsack_instances

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def shared_out(instance: GapFillingInstance) -> dict[str, Any]:
    """Return a plan that keeps what is held and gives the free nodes to the first jobs."""
    held = {node for job in instance.jobs for node in job.current_nodes}
    free = [node for node in instance.nodes if node not in held]
    allocation = {}
    for job in instance.jobs:
        room = max(job.max_nodes - len(job.current_nodes), 0)
        allocation[job.id] = [*job.current_nodes, *free[:room]]
        del free[:room]
    return {"allocation": allocation}


@pytest.mark.parametrize(("jobs", "nodes"), [(6, 24), (20, 200), (1000, 4608)])
def test_every_size_is_drawn_within_bounds(jobs: int, nodes: int) -> None:
    instance = generate(13, jobs=jobs, nodes=nodes, decided_ago_s=900)
    svg = drawing(instance, shared_out(instance), "plan.svg")
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert (width, root.attrib["role"]) == (1000, "img")
    assert height < 1300 and len(svg) < 200_000
    for rectangle in root.iter(f"{SVG}rect"):
        if rectangle.get("x") is not None:
            x, w = float(rectangle.attrib["x"]), float(rectangle.attrib["width"])
            assert x >= 0 and x + w <= 1000 - 20
    shown = [text for text in texts(svg) if re.match(r"j\d+-\w+$", text)]
    assert len(shown) == min(jobs, 40)
    assert any("other jobs" in text for text in texts(svg)) is (jobs > 40)


def test_the_strips_add_up_to_all_nodes_before_and_after() -> None:
    instance = generate(13, jobs=1000, nodes=4608, decided_ago_s=900)
    plan = shared_out(instance)
    root = ElementTree.fromstring(drawing(instance, plan, "plan.svg"))
    for y in ("84", "158"):
        bands = [r for r in root.iter(f"{SVG}rect") if r.get("y") == y and r.get("height") == "34"]
        total = sum(float(band.attrib["width"]) for band in bands if band.get("fill") != "#ffffff")
        assert total == pytest.approx(884, rel=1e-3)


def test_counts_and_changes_are_written() -> None:
    curve = ScalingCurve(nodes=(0, 4), rate=(0.0, 4.0))
    instance = GapFillingInstance(
        schema_version="1",
        horizon_s=1.0,
        nodes=("a", "b", "c", "d", "e"),
        jobs=tuple(
            GapFillingJob(
                id=name,
                min_nodes=1,
                max_nodes=4,
                scaling=curve,
                rescale_up_s=0.0,
                rescale_down_s=0.0,
                current_nodes=held,
            )
            for name, held in (("grows", ("a",)), ("shrinks", ("b", "c")), ("waits", ()))
        ),
    )
    svg = drawing(instance, {"allocation": {"grows": ["a", "d", "e"], "shrinks": ["b"]}}, "x.svg")
    written = texts(svg)
    for expected in ("1 → 3", "+2", "2 → 1", "−1", "0 → 0", "±0", "idle 2", "idle 1"):
        assert expected in written
    assert "keeps a\ngains d e" in svg
    assert "gives up c" in svg


@settings(max_examples=examples(40))
@given(gap_filling_instances())
def test_any_allocation_is_drawn(instance: GapFillingInstance) -> None:
    plan = shared_out(instance)
    written = texts(drawing(instance, plan, "x.svg"))
    for job in instance.jobs:
        assert job.id in written
        assert f"{len(job.current_nodes)} → {len(plan['allocation'][job.id])}" in written


@settings(max_examples=examples(40))
@given(knapsack_instances())
def test_any_choice_is_drawn(instance: MultipleChoiceKnapsackInstance) -> None:
    plan = {"choice": {job.id: job.options[0].id for job in instance.jobs if job.options}}
    svg = drawing(instance, plan, "x.svg")
    assert {job.id for job in instance.jobs} <= set(texts(svg))


def test_use_of_capacities_and_changed_options_are_written() -> None:
    jobs = tuple(
        KnapsackJob(
            id=f"job{i}",
            required=False,
            options=(
                KnapsackOption(id="one", value=2.0, uses={"gpu": 1}),
                KnapsackOption("two", 3.0, {"gpu": 2}),
            ),
            current="one" if i == 0 else None,
        )
        for i in range(60)
    )
    instance = MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense="maximize",
        capacities={"gpu": 100, **{f"pool{i}": 0 for i in range(40)}},
        jobs=jobs,
        name="menus",
    )
    plan = {"choice": {f"job{i}": "two" for i in range(45)}}
    written = texts(drawing(instance, plan, "x.svg"))
    assert "90 of 100 (90%)" in written
    assert "one → two" in written
    assert "and 17 capacities that are less full" in written
    assert "20 other jobs: 5 chosen, 15 left out" in written


def test_names_cannot_break_out_of_the_drawing() -> None:
    evil = "</title><script>alert(1)</script>&\x00\x1b\ud800\ufffe\"'"
    assert "<" not in escaped(evil)
    instance = MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense="maximize",
        capacities={"<b>": 1},
        jobs=(KnapsackJob(id="<script>x</script>", options=(KnapsackOption("&", 1.0, {"<b>": 1}),)),),
        name="</title><script>alert(1)</script>\x01",
    )
    for name in ("x.svg", "x.html"):
        drawn = drawing(instance, {"choice": {"<script>x</script>": "&"}}, name)
        assert "<script" not in drawn and "\x01" not in drawn
    ElementTree.fromstring(drawing(instance, {"choice": {"<script>x</script>": "&"}}, "x.svg"))


def test_the_page_holds_the_drawing_and_loads_nothing() -> None:
    instance = generate(1, jobs=2, nodes=4)
    page = drawing(instance, shared_out(instance), "x.HTML")
    assert page.startswith("<!doctype html>") and "<svg" in page
    assert not re.search(r"(src|href)=|url\((?!#)", page)


@pytest.mark.parametrize("name", ["plan.gif", "plan", "svg"])
def test_other_suffixes_are_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match=r"FILE\.svg, \.html, \.png or \.pdf"):
        drawing(generate(1, jobs=1, nodes=1), {"allocation": {}}, name)


def test_words_are_readable_on_every_fill() -> None:
    for fill in [*map(color, range(8)), IDLE, OTHERS]:
        assert contrast(fill, ink_on(fill)) >= 4.5
    assert len({color(place) for place in range(8)}) == 8


def contrast(one: str, other: str) -> float:
    def luminance(fill: str) -> float:
        parts = [int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_long_words_are_cut_to_their_room() -> None:
    assert clipped("short", 100, 10) == "short"
    cut = clipped("a very long job name indeed", 60, 10)
    assert cut.endswith("…") and text_width(cut, 10) <= 60


def test_a_solved_instance_is_drawn() -> None:
    instance = generate(3, jobs=4, nodes=12)
    plan = apportion.solve(instance).require()
    assert "12 idle nodes" in drawing(instance, plan, "x.svg")
