"""A kind of instance is one folder and one line: licences are solved, explained and edited like any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

import apportion
from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from apportion.core.errors import InvalidInstance
from apportion.explanation import explain, what_if
from apportion.instances import edits, kinds
from apportion.io.schemas import committed, generated
from apportion.proofs import reference
from apportion.proofs.certificate import encode
from apportion.proofs.statement import statement_of
from tests.cli.calling import call
from tests.instances.licences.kind import LICENCES
from tests.instances.licences.schema import LicenceInstance, LicenceJob

JOBS = (("b", 4, 9.0), ("a", 3, 6.5), ("d", 2, 4.0), ("c", 2, 4.5), ("e", 9, 30.0))
INSTANCE = LicenceInstance("1", 7, tuple(LicenceJob(*job) for job in JOBS), "office")


@pytest.fixture(autouse=True)
def fifth_kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The one line: in the table of kinds."""
    monkeypatch.setattr(kinds, "KINDS", MappingProxyType({**kinds.KINDS, "licences": LICENCES}))
    yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "office.json"
    path.write_bytes(msgspec.json.encode(INSTANCE))
    return path


def optimum(instance: LicenceInstance) -> float | None:
    """Return the best worth by going through all sets of jobs."""
    sets = (set(some) for size in range(6) for some in combinations(instance.jobs, size))
    held = {job for job in instance.jobs if job.held}
    worths = [
        sum(job.worth for job in some)
        for some in sets
        if held <= some and sum(job.needs for job in some) <= instance.licences
    ]
    return max(worths, default=None)


@pytest.mark.parametrize("backend", ["exact", "highs", "cp-sat"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_it_is_solved_checked_and_certified(backend: str, deterministic: bool) -> None:
    instance: Any = INSTANCE
    solution = apportion.solve(instance, backend=backend, deterministic=deterministic, time_limit=300.0)
    assert solution.termination.value == "optimal"
    assert solution.objective == optimum(INSTANCE) == 15.5
    assert apportion.check(INSTANCE, solution.plan).feasible  # type: ignore[arg-type]
    assert not apportion.check(INSTANCE, {"licensed": {"e": 9}}).feasible  # type: ignore[arg-type]


def test_its_optimum_is_proved() -> None:
    """Nothing in the room of proofs knows licences."""
    instance: Any = INSTANCE
    solution = apportion.solve(instance, proof=True, time_limit=300.0)
    assert solution.proof is not None
    assert apportion.verify(instance, encode(solution.proof)).status == "proved"
    statement = json.loads(json.dumps(statement_of(instance, solution.plan)))
    assert reference.check(statement, encode(solution.proof))[0] is True


def test_it_is_edited() -> None:
    more = edits.change_capacity(INSTANCE, "licences", 2)  # type: ignore[arg-type]
    assert edits.capacities(more) == {"licences": 9}
    pinned = edits.pin(more, {"d": "run"})
    assert edits.unpin(pinned, ["d"]) == more
    with pytest.raises(InvalidInstance, match="has no nodes"):
        edits.remove_nodes(more, ["n0"])


def test_it_is_explained_in_its_own_words() -> None:
    explanation = explain(INSTANCE, job="d")
    text = str(explanation)
    assert text.startswith("licences office: optimal, objective 15.5 points")
    assert "d gets nothing (left out)" in text
    assert "runner-up: 2 of the licences: worth 4 points" in text
    needed = explanation.jobs[0].runner_up
    assert needed is not None and needed.needed is not None
    pinned = edits.pin(INSTANCE, {"d": "run"})  # type: ignore[arg-type]
    assert needed.needed.exact == 15.5 - (optimum(pinned) or 0.0)  # type: ignore[arg-type]
    more = edits.change_capacity(INSTANCE, "licences", 1)  # type: ignore[arg-type]
    gained = explanation.capacities[0].one_more
    assert gained is not None
    assert gained.exact == (optimum(more) or 0.0) - 15.5  # type: ignore[arg-type]


def test_no_plan_is_explained_by_a_conflict() -> None:
    stuck = edits.pin(INSTANCE, {"e": "run"})  # type: ignore[arg-type]
    assert optimum(stuck) is None  # type: ignore[arg-type]
    explanation = explain(stuck)
    assert explanation.conflicts[0].jobs == ("e",)
    assert explanation.relaxations[0].add == {"licences": 2}


def test_what_if_compares_two_plans() -> None:
    comparison = what_if(INSTANCE, capacity={"licences": 2}, remove_jobs=["a"])  # type: ignore[arg-type]
    changed = edits.change_capacity(edits.remove_jobs(INSTANCE, ["a"]), "licences", 2)  # type: ignore[arg-type]
    assert comparison.objective_after == optimum(changed) == 30.0  # type: ignore[arg-type]
    assert [job.job for job in comparison.winners] == ["e"]


def test_its_committed_schema_is_up_to_date() -> None:
    assert committed("licences") == generated("licences")


def test_every_command_takes_it(path: Path, tmp_path: Path) -> None:
    stored = tmp_path / "result.json"
    assert call(main, "validate", path).out == "valid: licences, office\n"
    told = call(solve, path)
    assert told.code == 0
    assert "licences office" in told.out and "licensed" in told.out
    assert call(solve, path, "-o", stored).code == 0
    assert call(main, "check", path, stored).code == 0
    document = json.loads(stored.read_bytes())
    document["plan"] = {"licensed": {"b": 4}}
    stored.write_text(json.dumps(document))
    assert call(main, "check", path, stored).code != 0
    assert "15.5 points" in call(main, "explain", path).out
    changed = call(main, "what-if", path, "--capacity", "licences=+2", "--unpin", "x")
    assert (changed.code, "no job 'x'" in changed.err) == (3, True)
    job = tmp_path / "job.json"
    job.write_text('{"id": "f", "needs": 1, "worth": 20}')
    changed = call(main, "what-if", path, "--add-job", job)
    assert changed.code == 0 and "f: new -> 1 of the licences" in changed.out


def test_every_problem_of_its_files_is_named(path: Path) -> None:
    broken = {**json.loads(path.read_bytes()), "licences": -1, "extra": 1}
    path.write_text(json.dumps(broken))
    done = call(main, "validate", path)
    assert done.code == 3
    assert done.out.splitlines()[-1] == "2 problems"
    assert "$.extra: is an unknown field" in done.out
    assert "$.licences: must be from 0 to 1000000000, not -1" in done.out
