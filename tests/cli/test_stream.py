"""``solve-instance --stream`` and `solve_many`."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

import apportion
from apportion.instances.gap_filling.generator import generate
from apportion.io import stored
from apportion.service.stream import answer, serve


def lines_of(count: int) -> list[bytes]:
    return [msgspec.json.encode(generate(seed=seed, jobs=5, nodes=20)) for seed in range(count)]


def test_every_line_is_answered_in_order_and_verifies() -> None:
    lines = lines_of(5)
    answers: list[bytes] = []
    assert serve(lines, answers.append) == 5
    for line, told in zip(lines, answers, strict=True):
        assert told.endswith(b"\n")
        assert stored.verify(apportion.read(line), json.loads(told)).ok


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "JSON"),
        (b"[]", "object"),
        (b'{"kind":"gap_filling"}', "schema_version"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"kind":"nonsense"}', "kind"),
    ],
)
def test_a_malformed_line_is_an_error_object_and_the_stream_goes_on(line: bytes, problem: str) -> None:
    good = lines_of(1)[0]
    answers: list[bytes] = []
    serve([line, b"\n", good], answers.append)
    first, second = (json.loads(told) for told in answers)
    assert first["line"] == 1
    assert first["error"]["exit_code"] == 3
    assert problem.lower() in json.dumps(first["error"]).lower()
    assert second["termination"] == "optimal"


def test_a_bad_option_is_an_error_object_too() -> None:
    told = json.loads(answer(lines_of(1)[0], 7, gap=-1.0))
    assert told["line"] == 7
    assert told["error"]["exit_code"] == 2


def test_the_command_streams_and_prints_nothing_else() -> None:
    lines = lines_of(3)
    run = subprocess.run(
        [sys.executable, "-m", "apportion.cli.solve_instance", "--stream"],
        input=b"\n".join([lines[0], b"nonsense", *lines[1:]]),
        capture_output=True,
        check=False,
    )
    told = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0
    assert [("error" in one) for one in told] == [False, True, False, False]
    assert run.stderr == b""


def test_a_stream_with_a_path_is_a_usage_error(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "apportion.cli.solve_instance", "--stream", "x.json"],
        capture_output=True,
        check=False,
    )
    assert run.returncode == 2
    assert run.stdout == b""


def test_many_instances_here_on_threads_and_on_processes_agree() -> None:
    instances = [generate(seed=seed, jobs=4, nodes=12) for seed in range(6)]
    here = [solution.objective for solution in apportion.solve_many(instances)]
    with ThreadPoolExecutor(2) as threads:
        threaded = [s.objective for s in apportion.solve_many(iter(instances), threads, ahead=2)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as processes:
        spread = [s.objective for s in apportion.solve_many(instances, processes, gap=0.0)]
    assert here == threaded == spread
    assert all(objective is not None for objective in here)


def test_messages_change_and_decide_a_session() -> None:
    """The same deltas as of the service, with ids and options per line; a bad line changes nothing."""
    instance = generate(seed=4, jobs=6, nodes=20)
    lines = [
        {"deltas": []},
        {"request": "a", "instance": json.loads(msgspec.json.encode(instance))},
        {"request": "b", "deltas": [{"op": "set_capacity", "name": "idle_nodes", "amount": 9}], "gap": 0.5},
        {"request": "c", "deltas": [{"op": "remove_job", "id": "nobody"}]},
        {"request": "d", "time_limit": -1},
        {"request": "e", "deltas": [{"op": "remove_job", "id": instance.jobs[0].id}]},
    ]
    answers: list[bytes] = []
    assert serve([json.dumps(line).encode() for line in lines], answers.append, time_limit=10.0) == 6
    told = [json.loads(line) for line in answers]
    assert ["error" in one for one in told] == [True, False, False, True, True, False]
    assert [one.get("request") for one in told] == [None, "a", "b", "c", None, "e"]
    assert told[3]["error"]["problems"][0]["path"] == "$.deltas[0].id"
    session = apportion.Session(instance)
    assert stored.verify(session.instance, told[1]["result"]).ok
    session.set_capacity("idle_nodes", 9)
    assert stored.verify(session.instance, told[2]["result"]).ok
    session.remove_job(instance.jobs[0].id)
    assert told[5]["result"]["objective"] == apportion.solve(session.instance).objective
    assert {change["job"] for change in told[5]["changes"]} >= {instance.jobs[0].id}
