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
from apportion import stored
from apportion.instances.gap_filling.generator import generate
from apportion.stream import answer, serve


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
