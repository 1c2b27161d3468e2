"""Jobs, their books, the state on disk and the requests that are left for a controller."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.core.errors import InUse, InvalidInstance, InvalidOption, StateUnwritable
from apportion.core.files import private_folder
from apportion.live.channel.messages import Progress
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.core import Limits
from apportion.live.record import requests
from apportion.live.record import requests as module
from apportion.live.record.jobs import DISTRUST, Job, JobSpec, JobState, Point
from apportion.live.record.requests import (
    Cancel,
    Drain,
    Submit,
    apply,
    leave,
    listing,
    state_as_asked,
    waiting,
)
from apportion.live.record.state import Rank, State, book, close_books, open_books
from apportion.live.record.store import Lock, Store, in_use, read_state
from tests.patience import wait_until


def spec(**more: Any) -> JobSpec:
    return JobSpec(
        **{
            "command": ("train", "--lr", "0.1"),
            "min_nodes": 1,
            "max_nodes": 8,
            "directory": "/w",
            "checkpoint": "/w/c",
            **more,
        }
    )


def job(**more: Any) -> Job:
    made = Job(1, "a", spec(**more), 0.0, generation=1)
    open_books(made, 0.0)
    return made


def says(samples: int, durable: int | None = None, rank: int = 0, **more: Any) -> Progress:
    return Progress("a", 1, rank, "t" * 16, float(more.pop("at", 0.0)), samples, durable=durable, **more)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"command": ()}, "$.command"),
        ({"command": ("",)}, "$.command"),
        ({"command": ("a", "b\0")}, "$.command[1]"),
        ({"command": ("a" * 200_000,)}, "$.command"),
        ({"min_nodes": 0}, "$.min_nodes"),
        ({"min_nodes": 5, "max_nodes": 4}, "$.max_nodes"),
        ({"samples": 0}, "$.samples"),
        ({"directory": "here"}, "$.directory"),
        ({"checkpoint": ""}, "$.checkpoint"),
        ({"name": "two\nlines"}, "$.name"),
        ({"environment": {"A B": "1"}}, "$.environment['A B']"),
        ({"environment": {"APPORTION_RANK": "1"}}, "$.environment['APPORTION_RANK']"),
        ({"environment": {"A": "x" * 70_000}}, "$.environment"),
        ({"curve": ((2, 1.0), (1, 1.0))}, "$.curve"),
        ({"curve": ((1, float("nan")),)}, "$.curve"),
    ],
)
def test_a_job_that_is_not_valid_is_refused_with_its_path(wrong: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInstance) as caught:
        spec(**wrong)
    assert path in [problem.path for problem in caught.value.problems]


def test_all_problems_of_a_job_are_told_at_once() -> None:
    with pytest.raises(InvalidInstance) as caught:
        spec(command=(), min_nodes=0, directory="x")
    assert len(caught.value.problems) == 3


def test_books_follow_the_trainer() -> None:
    made = job()
    assert book(made, says(100, 100), 1.0)
    assert (made.samples, made.durable) == (100, 100), "restored from a checkpoint"
    assert book(made, says(250, 100), 2.0)
    assert book(made, says(300, 300), 3.0)
    assert (made.samples, made.durable, made.heard_s, made.reporter) == (300, 300, 3.0, 0)
    assert book(made, says(400, 300), 4.0)
    close_books(made, stopped=False)
    assert (made.samples, made.durable, made.claimed) == (300, 300, None), "the rest is lost"


def test_any_rank_may_report_and_a_late_one_changes_nothing() -> None:
    made = job()
    for rank in range(3):
        assert book(made, says(0, 0, rank=rank), 1.0)
    assert book(made, says(500, 400, rank=1), 2.0)
    assert book(made, says(480, 400, rank=0), 2.0)
    assert (made.samples, made.durable, made.inconsistent) == (500, 400, 0)
    assert book(made, says(900, 900, rank=1, done=True), 3.0)
    assert book(made, says(480, 400, rank=0), 3.0)
    assert (made.samples, made.durable, made.done_rank) == (900, 900, 1)


def test_reports_that_contradict_one_another_are_counted() -> None:
    made = job(samples=1000)
    book(made, says(0, 0), 1.0)
    assert not book(made, says(10, 50), 1.0), "more in the checkpoint than was trained on"
    assert not book(made, says(5000, 10), 1.0), "more than the goal"
    assert made.trusted
    assert not book(made, says(20, 10), 1.0), "fewer than before"
    assert not made.trusted
    assert made.samples == 20, "the record follows the trainer all the same"


def test_a_checkpoint_that_holds_less_than_was_said_costs_all_trust() -> None:
    made = job()
    book(made, says(0, 0), 1.0)
    book(made, says(900, 900), 1.0)
    close_books(made, stopped=True)
    open_books(made, 2.0)
    assert not book(made, says(90, 90), 2.0)
    assert made.inconsistent >= DISTRUST
    assert (made.samples, made.durable) == (90, 90)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 300)), max_size=30))
def test_books_never_hold_more_in_the_checkpoint_than_samples(lines: list[tuple[int, int, int]]) -> None:
    made = job()
    for rank, samples, durable in lines:
        book(made, says(samples, durable, rank=rank), 1.0)
        assert 0 <= made.durable <= made.samples <= 300
    close_books(made, stopped=False)
    assert made.samples == made.durable


def feed(advisor: LiveAdvisor, made: Job, count: int, rate: float, seconds: int, **more: Any) -> None:
    """Let a job report every second at a steady rate, from a fresh generation."""
    made.generation += 1
    open_books(made, 0.0)
    for second in range(seconds + 1):
        line = msgspec.structs.replace(
            says(int(made.durable + second * rate), made.durable, at=second, **more),
            generation=made.generation,
        )
        advisor.progress(made, count, line, book(made, line, float(second)), float(second))
    close_books(made, stopped=False)


def test_rates_are_measured_by_the_agents_clock_and_written_to_the_record() -> None:
    advisor, made = LiveAdvisor(warm_up_s=2.0, measure_s=5.0), job()
    feed(advisor, made, 4, 200.0, 20)
    feed(advisor, made, 2, 120.0, 20)
    assert {count: round(point.rate) for count, point in made.curve.items()} == {4: 200, 2: 120}
    assert made.error[4] == 0.0
    again = LiveAdvisor()
    again.recall([made])
    assert again.fitted(made, 4)[[2, 4]] == pytest.approx([120.0, 200.0]), (
        "what was learnt outlives a controller"
    )


def test_a_rate_far_above_what_fewer_nodes_make_is_cut() -> None:
    advisor, made = LiveAdvisor(warm_up_s=1.0, measure_s=3.0), job()
    feed(advisor, made, 1, 100.0, 10)
    feed(advisor, made, 4, 5000.0, 10)
    assert made.curve[4].rate <= 1.25 * 4 * 100.0


def test_points_that_fewer_nodes_give_the_lie_are_forgotten() -> None:
    advisor, made = LiveAdvisor(warm_up_s=1.0, measure_s=3.0), job()
    feed(advisor, made, 8, 50_000.0, 10)
    feed(advisor, made, 4, 100.0, 10)
    assert set(made.curve) == {4}


def test_a_distrusted_job_scales_like_the_average_one() -> None:
    advisor, made = LiveAdvisor(warm_up_s=1.0, measure_s=3.0), job()
    feed(advisor, made, 4, 1e6, 10)
    made.inconsistent = DISTRUST
    fitted = advisor.fitted(made, 8)
    assert not made.curve
    assert fitted[8] / fitted[1] <= 8.0
    assert advisor.profiling.next_count(made.number, 8) is None, "and is not profiled for ever"


def test_a_given_curve_is_believed_until_something_else_is_measured() -> None:
    advisor, made = LiveAdvisor(warm_up_s=1.0, measure_s=3.0), job(curve=((1, 50.0), (4, 160.0)))
    assert advisor.fitted(made, 4)[[1, 4]] == pytest.approx([50.0, 160.0])
    assert not made.curve, "it was not measured"
    feed(advisor, made, 4, 80.0, 12)
    assert advisor.fitted(made, 4)[4] == pytest.approx(80.0, rel=0.05)


def test_one_hiccup_does_not_throw_a_curve_away() -> None:
    advisor, made = LiveAdvisor(warm_up_s=1.0, measure_s=3.0), job()
    feed(advisor, made, 4, 200.0, 10)
    feed(advisor, made, 2, 120.0, 10)
    feed(advisor, made, 4, 20.0, 4)
    assert set(made.curve) == {2, 4}
    assert made.curve[4].rate == pytest.approx(200.0)


def test_limits_are_checked() -> None:
    for wrong in ({"trainers": 0}, {"interval_s": -1.0}, {"max_nodes": 0}, {"grace_s": float("nan")}):
        with pytest.raises(InvalidOption):
            Limits(**wrong)  # type: ignore[arg-type]


# the state on disk


def filled() -> State:
    state = State("0a1b2c3d")
    apply(state, Submit("a", 1.0, spec(environment={"A": "b"}, curve=((1, 2.0),))), 1.0)
    state.jobs[1].curve[3] = Point(1.5, 20.0)
    state.jobs[1].said[0] = (3, 2)
    pilot = state.new_pilot("n1", "secret", 1.0, 1)
    state.ranks[1, 1, 0] = Rank(1, 1, 0, pilot.pilot, tail="é\n")
    return state


def test_the_state_on_disk_is_private_and_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "s")
    store = Store(folder)
    store.load()
    state = filled()
    store.commit(state, 2.0)
    assert read_state(folder) == state
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.close()


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = filled()
    store.commit(state, 2.0)
    before = store.connection.total_changes
    store.commit(state, 2.0)
    assert store.connection.total_changes == before
    state.jobs[1].samples = 5
    store.commit(state, 2.0)
    assert store.connection.total_changes == before + 1
    store.close()


def test_pilots_that_ended_long_ago_are_forgotten(tmp_path: Path) -> None:
    from apportion.live.record.state import Hold

    state = filled()
    state.ranks.clear()
    next(iter(state.pilots.values())).enter(Hold.ENDED, 10.0)
    store = Store(tmp_path)
    store.commit(state, 100.0)
    assert state.pilots
    store.commit(state, 10_000.0)
    assert not state.pilots
    assert state.next_pilot == 2, "but their numbers are not used again"
    store.close()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = filled()
    store.commit(state, 1.0)
    store.connection.execute("PRAGMA max_page_count = 4")
    apply(state, Submit("b", 1.0, spec(command=("x" * 60_000,))), 1.0)
    with pytest.raises(StateUnwritable, match="full"):
        store.commit(state, 1.0)
    assert set(store.load().jobs) == {1}
    store.connection.execute("PRAGMA max_page_count = 100000")
    store.commit(state, 1.0)
    assert set(store.load().jobs) == {1, 2}
    store.close()


def test_a_second_controller_is_refused_even_from_another_process(tmp_path: Path, root: Path) -> None:
    source = (
        "import sys; from pathlib import Path; from apportion.live.record.store import Lock\n"
        "lock = Lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert in_use(tmp_path)
        with pytest.raises(InUse, match=f"process {other.pid}"):
            Lock(tmp_path)
        other.kill()
        other.wait()
    with Lock(tmp_path):
        assert in_use(tmp_path)
    assert not in_use(tmp_path)


def test_asking_whether_a_controller_runs_keeps_none_from_starting(tmp_path: Path) -> None:
    """`apportion queue` in a loop made a controller that started at that moment refuse."""
    Lock(tmp_path).close()
    over = threading.Event()
    told: list[bool] = []

    def ask() -> None:
        while not over.is_set():
            told.append(in_use(tmp_path))
            time.sleep(0.002)

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(20):  # each refused while one asks, before
            Lock(tmp_path).close()
        assert wait_until(lambda: False in told)
        with Lock(tmp_path):
            before = len(told)
            assert wait_until(lambda: len(told) >= before + 4)
            assert all(told[before + 2 :]), "who asks while one is held is told so"
    finally:
        over.set()
        for asker in askers:
            asker.join()
    assert not in_use(tmp_path)


def test_a_damaged_file_is_one_clear_error(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    (tmp_path / "state.sqlite3").write_bytes(b"no database at all, but long enough to be read" * 50)
    with pytest.raises((InvalidInstance, StateUnwritable), match="state file"):
        read_state(tmp_path)
    (tmp_path / "state.sqlite3").unlink()
    store = Store(tmp_path)
    store.commit(filled(), 1.0)
    store.connection.execute("UPDATE record SET value = '{}' WHERE key = 'job/1'")
    with pytest.raises(InvalidInstance, match="not valid"):
        read_state(tmp_path)
    store.connection.execute("UPDATE record SET value = json_set(value, '$.schema', 9) WHERE key = 'head'")
    with pytest.raises(InvalidInstance, match="schema 9"):
        store.load()
    store.close()


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(InvalidInstance, match="another user"):
        private_folder(tmp_path)


def test_an_open_folder_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    folder.chmod(0o755)
    assert stat.S_IMODE(private_folder(folder).stat().st_mode) == 0o700


def test_a_reader_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit(filled(), 1.0)
    store.connection.execute("BEGIN IMMEDIATE")
    assert read_state(tmp_path) is not None
    store.connection.execute("ROLLBACK")
    with sqlite3.connect(tmp_path / "state.sqlite3") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    store.close()


# requests


def test_requests_are_taken_up_in_order_and_twice_without_harm(tmp_path: Path) -> None:
    for request in (Submit("a", 1.0, spec()), Submit("b", 2.0, spec()), Cancel("a"), Cancel("zz"), Drain()):
        path = leave(tmp_path, request)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found, problems = waiting(tmp_path)
    assert not problems
    state = State("0a1b2c3d")
    for _ in range(2):
        told = [apply(state, item.request, 3.0) for item in found]
    assert "no job zz" in told[3]
    assert [made.id for made in state.jobs.values()] == ["a", "b"]
    assert (state.jobs[1].cancel, state.jobs[2].cancel, state.draining) == (True, False, True)
    for item in found:
        item.remove()
    assert waiting(tmp_path) == ([], [])


def test_a_job_taken_up_while_the_queue_is_read_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, Submit("a", 1.0, spec()))
    store = Store(tmp_path)
    store.commit(store.load(), 1.0)

    def then_taken_up(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def wrapped(folder: Path) -> Any:
            found = read(folder)
            state = store.load()
            for item in waiting(folder)[0]:
                apply(state, item.request, 2.0)
                store.commit(state, 2.0)
                item.remove()
            return found

        return wrapped

    for name in ("waiting", "read_state"):
        monkeypatch.setattr(module, name, then_taken_up(getattr(module, name)))
    assert state_as_asked(tmp_path, 3.0).job("a") is not None
    store.close()


def test_a_request_that_is_not_valid_is_put_aside(tmp_path: Path) -> None:
    leave(tmp_path, Submit("a", 1.0, spec()))
    spool = tmp_path / "requests"
    bad = json.loads(next(spool.iterdir()).read_text())
    bad["spec"]["command"] = "rm -rf /"
    (spool / "00000000000000000001-x.json").write_text(json.dumps(bad))
    (spool / "00000000000000000002-x.json").write_bytes(b"\xff{")
    (spool / "00000000000000000003-x.json").write_text('{"type":"submit","id":"../x"}')
    (spool / "00000000000000000004-x.json").write_text('{"type":"drain","now":true}')
    found, problems = waiting(tmp_path)
    assert len(found) == 1
    assert len(problems) == 4
    requests.put_aside(tmp_path, problems)
    assert len(list((spool / "rejected").iterdir())) == 4
    assert waiting(tmp_path)[1] == []


def test_a_spool_that_cannot_be_written_stops_no_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = leave(tmp_path, Drain())
    (path.parent / "1.json").write_text("{}")
    found, problems = waiting(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    monkeypatch.setattr(Path, "unlink", full)
    found[0].remove()
    requests.put_aside(tmp_path, problems)
    assert len(waiting(tmp_path)[0]) == 1


def test_the_listing_is_plain_json() -> None:
    state = filled()
    state.jobs[1].generation = 1
    told = json.loads(msgspec.json.encode(listing(state)))
    assert told[0]["nodes"] == ["n1"]
    assert told[0]["curve"] == {"3": 1.5}
    assert told[0]["state"] == JobState.QUEUED
