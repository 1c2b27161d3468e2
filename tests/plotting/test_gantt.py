"""The Gantt chart of a matching: well-formed, every machine and its end on it."""

from __future__ import annotations

from xml.etree import ElementTree

import apportion
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.plotting import drawing


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
