"""Rounds with rules whose optima two other roads found, situations of public reports, sequences of rounds.

The judge is the one that came with the rounds; it shares nothing with this package.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.io.stored import document, verify
from tests.conftest import data_folder
from tests.placement.rounds import instance, pods_at

FOLDER = data_folder() / "placement"
_LONG = ("conflict+spare-0", "goal-colocate_excess-3")
"""Rounds that take five and fifteen seconds."""


def cases(name: str) -> list[Any]:
    """Return the rounds of a file as parameters, none where it is absent; two thirds of the many are slow."""
    path = FOLDER / name
    given = json.loads(path.read_bytes())["cases"] if path.is_file() else []

    def slow(at: int, name: str) -> bool:
        return name in _LONG or (at % 3 > 0 and len(given) > 50)

    return [
        pytest.param(case, id=case["name"], marks=[pytest.mark.slow] if slow(at, case["name"]) else [])
        for at, case in enumerate(given)
    ]


@pytest.fixture(scope="session")
def judge(data: Path) -> Any:
    return runpy.run_path(str(data / "placement" / "judge.py"))["judge"]


def solved(case: dict[str, Any]) -> Any:
    """Return the answer to a round, its stored form checked."""
    given: Any = apportion.read(instance(case))
    solution: Any = apportion.solve(given, time_limit=120.0)
    stored = json.loads(json.dumps(document(solution)))
    assert verify(given, stored).ok
    return solution


@pytest.mark.one_in(5)
@pytest.mark.parametrize("case", [*cases("rules.json"), *cases("victims.json")])
def test_the_optimum_is_found_and_proved(case: dict[str, Any], judge: Any) -> None:
    solution = solved(case)
    if case["expected"]["status"] == "infeasible":
        assert solution.termination == "infeasible"
        return
    broken, values = judge(case, pods_at(case, solution.plan))
    assert broken == []
    assert values == case["expected"]["values"]
    assert solution.termination == "optimal"
    assert all(goal.proven for goal in solution.goals)
    assert solution.objective == pytest.approx(values[0])


def sequences() -> list[Any]:
    path = FOLDER / "victims.json"
    given = json.loads(path.read_bytes())["sequences"] if path.is_file() else []
    return [pytest.param(one, id=one["name"]) for one in given]


@pytest.mark.parametrize("sequence", sequences())
def test_rounds_without_an_event_change_nothing(sequence: dict[str, Any], judge: Any) -> None:
    """The loop of kueue 14543: who was stopped for a preemptor does not come back in its place."""
    present: set[str] = set()
    at: dict[str, str] = {}
    for round_ in sequence["rounds"]:
        event = round_["event"]
        present = (present | set(event.get("arrive", ()))) - set(event.get("leave", ()))
        jobs = [
            {
                "name": name,
                "labels": {},
                "must": False,
                "gang": True,
                "pods": [
                    {"name": f"{name}.{k}", "needs": told["needs"], "now": at.get(f"{name}.{k}")}
                    for k in range(told["pods"])
                ],
            }
            for name, told in sequence["jobs"].items()
            if name in present
        ]
        worth = {
            pod["name"]: sequence["jobs"][job["name"]]["value"] / len(job["pods"])
            for job in jobs
            for pod in job["pods"]
        }
        case = {
            "name": sequence["name"],
            "levels": ["rack", "node"],
            "resources": ["gpu"],
            "places": sequence["nodes"],
            "jobs": jobs,
            "rules": [],
            "goals": [
                [{"goal": "value", "pods": worth, "at": []}],
                [{"goal": "job_victims", "cost": {}}],
                [{"goal": "moves", "cost": {}}],
            ],
        }
        solution = solved(case)
        then = pods_at(case, solution.plan)
        broken, values = judge(case, then)
        assert broken == []
        assert values == round_["values"]
        changed = sum(then.get(pod["name"]) != pod["now"] for job in jobs for pod in job["pods"])
        if not event:
            assert changed == 0
        at = then
