"""The Gantt chart of a matching: well-formed, every machine and its end on it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import apportion
from apportion.draw import drawing
from apportion.draw.svg import COLORS, IDLE
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine


def instance(objective: str, divisible: bool = False) -> MatchingInstance:
    field = "time_s" if objective == "makespan" else objective
    capacity = None if objective == "makespan" else 4
    machines = (MatchingMachine("a<b", count=2, capacity=capacity), MatchingMachine("c", capacity=capacity))
    jobs = tuple(
        MatchingJob(f"j{j}", {m.id: MatchingEntry(uses=1, **{field: 2.0 + j}) for m in machines})
        for j in range(4)
    )
    return MatchingInstance("1", objective, machines, jobs, divisible=divisible, name="drawn")


def test_every_objective_has_a_drawing() -> None:
    for objective, divisible in (("makespan", False), ("makespan", True), ("cost", False), ("value", False)):
        asked = instance(objective, divisible)
        solution = apportion.solve(asked)
        text = drawing(asked, solution.require(), "plan.svg")
        root = ElementTree.fromstring(text)
        words = " ".join(node.text or "" for node in root.iter() if node.text)
        assert "drawn" in words
        assert f"{solution.objective:,.6g}" in words
        assert all(f"j{j}" in words for j in range(4))


def drawn(asked: MatchingInstance, bound: float | None = None) -> tuple[str, ElementTree.Element]:
    text = drawing(asked, apportion.solve(asked).require(), "plan.svg", bound=bound)
    return text, ElementTree.fromstring(text)


def test_the_bound_is_the_solutions() -> None:
    asked = instance("makespan")
    solution = apportion.solve(asked)
    assert solution.bound is not None
    text, _ = drawn(asked, solution.bound)
    assert f"at least {solution.bound:,.6g} s" in text
    assert "orange: its bound" in text
    assert "at least 1.5 s" in drawn(asked, 1.5)[0]


def test_a_gang_is_a_bar_on_each_of_its_machines_and_pools_stay_together() -> None:
    pools = (MatchingMachine("v100", count=4), MatchingMachine("k80", count=2))
    jobs = tuple(
        MatchingJob(f"gang{j}", {pool.id: MatchingEntry(time_s=3.0 + j, gpus=2) for pool in pools})
        for j in range(3)
    )
    asked = MatchingInstance("1", "makespan", pools, jobs, name="gangs")
    _, root = drawn(asked)
    words = [node.text for node in root.iter() if node.tag.endswith("}text")]
    assert all(words.count(f"gang{j}") == 2 for j in range(3))
    rows = [word for word in words if word and word.endswith("]")]
    assert rows == ["v100[0]", "v100[1]", "v100[2]", "v100[3]", "k80[0]", "k80[1]"]


def test_many_machines_are_counted() -> None:
    jobs = tuple(MatchingJob(f"j{j}", {"a": MatchingEntry(time_s=1.0)}) for j in range(70))
    asked = MatchingInstance("1", "makespan", (MatchingMachine("a", count=70),), jobs)
    text, _ = drawn(asked)
    assert "and 10 more machines" in text


def test_nothing_to_draw() -> None:
    asked = MatchingInstance("1", "makespan", (MatchingMachine("a"),), ())
    assert "0 jobs" in drawn(asked)[0]


def bars(root: ElementTree.Element) -> list[tuple[float, float, str]]:
    """Return x, width and fill of every rectangle."""
    rects = (node.attrib for node in root.iter() if node.tag.endswith("}rect") and "x" in node.attrib)
    return [(float(rect["x"]), float(rect["width"]), rect["fill"]) for rect in rects]


def test_a_shared_pool_is_full_where_all_its_machines_are_busy() -> None:
    pools = (MatchingMachine("few", count=2), MatchingMachine("many", count=8))
    jobs = tuple(MatchingJob(f"j{j}", {"few": MatchingEntry(time_s=2.0)}) for j in range(4))
    asked = MatchingInstance("1", "makespan", pools, jobs, divisible=True)
    text, root = drawn(asked)
    assert "2 of 2" in text and "idle" in text
    grey = [(x, width) for x, width, fill in bars(root) if fill == IDLE]
    assert len({width for _, width in grey}) == 1  # each pool's own room is as long as any other's
    ends = [x + width for x, width, fill in bars(root) if fill in COLORS]
    assert max(ends) == pytest.approx(grey[0][0] + grey[0][1], abs=0.05)


def test_each_machines_capacity_ends_its_own_bar() -> None:
    pools = (MatchingMachine("small", capacity=4), MatchingMachine("large", capacity=8))
    entry = MatchingEntry(cost=1.0, uses=2)
    jobs = tuple(MatchingJob(f"j{j}", {pool.id: entry for pool in pools}) for j in range(3))
    text, root = drawn(MatchingInstance("1", "cost", pools, jobs))
    small, large = [width for _, width, fill in bars(root) if fill == IDLE]
    assert large == pytest.approx(2 * small, abs=0.05)
    assert " of 4" in text or " of 8" in text


def test_wholly_idle_machines_are_rows_too() -> None:
    jobs = (MatchingJob("only", {"a": MatchingEntry(time_s=1.0)}),)
    text, _ = drawn(MatchingInstance("1", "makespan", (MatchingMachine("a", count=3),), jobs))
    assert all(f"a[{k}]" in text for k in range(3)) and text.count(">idle<") == 2


def test_names_are_painted_after_the_lines_of_makespan_and_bound() -> None:
    asked = instance("makespan")
    text, _ = drawn(asked, 3.0)
    assert text.rindex('fill="#d55e00"/>') < text.index(">j0<")
