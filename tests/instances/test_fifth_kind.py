"""A kind of instance is one folder and one line: licences are solved, explained and edited like any."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

import apportion
from apportion.cli.commands import COMMANDS
from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from apportion.core.errors import InvalidInstance
from apportion.explanation import explain, what_if
from apportion.instances import edits, kinds
from apportion.io.schemas import committed, generated
from apportion.proofs import reference
from apportion.proofs.certificate import encode
from apportion.proofs.statement import statement_of
from apportion.service.stream import serve
from tests.cli.calling import call
from tests.instances.licences.kind import LICENCES
from tests.instances.licences.schema import LicenceInstance, LicenceJob
from tests.service.running import service

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


TAKEN = {
    *("solve", "explain", "what-if", "price-of-fairness", "init", "validate", "check", "schema", "convert"),
    *("export", "serve", "history"),
}
"""The commands that read instances or write them, each called below; the others know no instance."""


def test_no_command_that_takes_instances_is_left_out() -> None:
    groups = {name: one.group for name, one in COMMANDS.items()}
    others = {"backends"} | {
        name for name, group in groups.items() if group in ("Simulate", "Live on Slurm", "Help")
    }
    assert set(groups) - others == TAKEN


def test_it_is_solved_and_checked_by_command(path: Path, tmp_path: Path) -> None:
    stored, proof = tmp_path / "result.json", tmp_path / "proof.json"
    assert call(main, "validate", path).out == "valid: licences, office\n"
    told = call(solve, path, "-o", stored, "--proof", proof)
    assert told.code == 0
    assert told.out.startswith("job  before  after  value  uses\nb    -       4          9  4 licences\n")
    assert "2 of 5 jobs chosen; used 7 of 7 licences" in told.out and "licences office" in told.out
    assert call(main, "check", path, stored, "--proof", proof).code == 0
    document = json.loads(stored.read_bytes())
    document["plan"] = {"licensed": {"b": 4}}
    stored.write_text(json.dumps(document))
    assert call(main, "check", path, stored).code != 0


def test_it_is_explained_by_command(path: Path, tmp_path: Path) -> None:
    assert "15.5 points" in call(main, "explain", path).out
    changed = call(main, "what-if", path, "--capacity", "licences=+2", "--unpin", "x")
    assert (changed.code, "no job 'x'" in changed.err) == (3, True)
    job = tmp_path / "job.json"
    job.write_text('{"id": "f", "needs": 1, "worth": 20}')
    changed = call(main, "what-if", path, "--add-job", job)
    assert changed.code == 0 and "f: new -> 1 of the licences" in changed.out


def test_a_file_to_start_from_is_written_drawn_converted_and_exported(tmp_path: Path) -> None:
    start = tmp_path / "start.yaml"
    assert call(main, "init", "licences", "-o", start).code == 0
    assert call(solve, start, "--plot", tmp_path / "plan.html").code == 0
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "licences: 5 of 5 used" in page and "value 10.5 (maximized)" in page
    refused = call(main, "init", "licences", "-o", tmp_path / "start.csv")
    assert refused.code == 2 and "no table says all of licences" in refused.err
    assert call(main, "convert", start, "-o", tmp_path / "start.json").code == 0
    read: Any = apportion.read(tmp_path / "start.json")
    assert apportion.solve(read).objective == optimum(read) == 10.5
    assert json.loads(call(main, "schema", "licences").out)["title"] == "apportion instance: licences"
    assert "capacity(licences)" in call(main, "export", start, "--to", "lp").out
    assert "RHS" in call(main, "export", start, "--to", "mps").out
    refused = call(main, "export", start, "--to", "kueue")
    assert refused.code == 2 and "convert --from kueue" in refused.err


def test_its_jobs_belong_to_tenants(path: Path, tmp_path: Path) -> None:
    """Nothing was written for it but that its types are tenanted."""
    tree = json.loads(path.read_bytes())
    tree["tenants"] = [
        {"id": name, "quotas": {"licences": {"guarantee": amount}}} for name, amount in (("x", 4), ("y", 3))
    ]
    tree["fairness"] = {"share": "dominant_share"}
    for job, name in zip(tree["jobs"], "xyxyy", strict=True):
        job["tenant"] = name
    path.write_text(json.dumps(tree))
    stored, proof = tmp_path / "result.json", tmp_path / "proof.json"
    told = call(solve, path, "-o", stored, "--proof", proof, "--plot", tmp_path / "plan.svg")
    assert told.code == 0, told.err
    assert json.loads(stored.read_bytes())["floors"] == {"x": 4, "y": 3}
    assert call(main, "check", path, stored, "--proof", proof).code == 0
    assert "d of x waits\n  no room for 2: licences" in call(main, "explain", path).out
    priced = json.loads(call(main, "price-of-fairness", path, "--points", "2", "--json").out)
    assert [point["objective"] for point in priced["points"]] == [15.5, 15.5]


def test_it_is_streamed_and_edited_in_a_session(path: Path) -> None:
    asked = [{"deltas": [], "instance": json.loads(path.read_bytes())}]
    asked += [{"deltas": [{"op": "set_capacity", "name": "licences", "amount": 9}]}]
    lines = b"\n".join(msgspec.json.encode(one) for one in (json.loads(path.read_bytes()), *asked)) + b"\n"
    written = list[bytes]()
    serve(io.BytesIO(lines), written.append)
    alone, first, second = (json.loads(line) for line in written)
    assert alone["objective"] == first["result"]["objective"] == 15.5
    assert second["result"]["objective"] == 30.0
    session = apportion.Session(INSTANCE)  # type: ignore[type-var]
    session.add_job({"id": "f", "needs": 1, "worth": 20.0})
    session.remove_job("b")
    session.update_job("c", worth=8.0)
    edited: Any = session.instance
    assert session.decide().solution.objective == optimum(edited) == 34.5


_TABLE = """
from types import MappingProxyType
from apportion.instances import kinds
from tests.instances.licences.kind import LICENCES
kinds.KINDS = MappingProxyType({**kinds.KINDS, "licences": LICENCES})
"""


def test_it_is_served_and_its_decisions_are_on_record(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_TABLE)  # the one line, in the service's processes
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tmp_path, root, root / "src"))))
    with service(tmp_path, "--workers", "1") as running:
        tree = json.loads(path.read_bytes())
        opened = running.ok("POST", "/sessions", {"name": "office", "instance": tree})
        assert opened["capacities"] == {"licences": 7}
        made = running.ok("POST", "/sessions/office/decisions", {"deltas": []})
        assert made["result"]["objective"] == 15.5
        number = made["decision"]["id"]
        about = running.ok("GET", f"/decisions/{number}/about")  # what the page shows of a decision
        assert about["capacities"] == {"licences": 7}
        assert "15.5 points" in running.ok("GET", f"/decisions/{number}/explanation")["text"]
    record = ("--record", tmp_path / "record")
    assert "office" in call(main, "history", "list", *record).out
    assert call(main, "history", "check", *record).code == 0
    assert "15.5 points" in call(main, "history", "explain", *record, "1").out


def test_every_problem_of_its_files_is_named(path: Path) -> None:
    broken = {**json.loads(path.read_bytes()), "licences": -1, "extra": 1}
    path.write_text(json.dumps(broken))
    done = call(main, "validate", path)
    assert done.code == 3
    assert done.out.splitlines()[-1] == "2 problems"
    assert "$.extra: is an unknown field" in done.out
    assert "$.licences: must be from 0 to 1000000000, not -1" in done.out
