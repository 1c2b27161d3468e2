"""The journal: bounded, read across its rotation, whole after a crash; and what is added up from it."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from apportion.live.record.jobs import Job, JobSpec
from apportion.live.record.journal import HarvestTotals, Journal, harvested, read_journal
from apportion.live.record.state import Hold, Rank, State

LIMIT = 2000


def event(number: int, kind: str = "thing") -> dict[str, object]:
    return {"time_s": float(number), "event": kind, "padding": "x" * 50}


def numbers(folder: Path, since_s: float = 0.0) -> list[int]:
    return [int(found["time_s"]) for found in read_journal(folder, since_s)]


def files(folder: Path) -> list[Path]:
    return sorted((folder / "journal").iterdir())


def test_it_is_bounded_and_its_end_is_read_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LIMIT, 3)
    for number in range(500):
        journal.write([event(number)])
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert len(sizes) == 3 and max(sizes) < LIMIT + 200
    found = numbers(tmp_path)
    assert found == list(range(found[0], 500)) and len(found) > 2 * LIMIT // 100
    assert numbers(tmp_path, since_s=490.0) == list(range(490, 500))
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files(tmp_path))
    journal.close()


def test_a_restarted_controller_goes_on_in_the_same_file(tmp_path: Path) -> None:
    for number in range(30):  # a controller that dies at once, again and again, throws no history away
        journal = Journal(tmp_path, LIMIT * 10, 2)
        journal.write([event(number)])
        journal.close()
    assert len(files(tmp_path)) == 1 and numbers(tmp_path) == list(range(30))
    assert b"\n\n" not in files(tmp_path)[0].read_bytes(), "one JSON object a line"


def test_half_a_line_costs_that_line_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LIMIT, 3)
    journal.write([event(1)])
    journal.close()
    with files(tmp_path)[-1].open("ab") as torn:
        torn.write(b'{"time_s": 2.0, "event": "to')
    assert numbers(tmp_path) == [1]
    journal = Journal(tmp_path, LIMIT, 3)
    journal.write([event(3)])
    journal.close()
    assert numbers(tmp_path) == [1, 3]


def test_a_full_disk_costs_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, write = Journal(tmp_path, LIMIT, 3), os.write
    journal.write([event(1)])
    room = [10]

    def full(file: int, data: bytes) -> int:
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        taken = write(file, data[: room[0]])
        room[0] -= taken
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        journal.write([event(2), event(3)])
        journal.write([event(4)])
    assert journal.lost == 3
    journal.write([event(5)])
    journal.close()
    assert numbers(tmp_path) == [1, 5]


@pytest.mark.slow
def test_whoever_reads_during_the_rotation_meets_every_line_at_most_once(tmp_path: Path) -> None:
    journal, over = Journal(tmp_path, 400, 4), threading.Event()

    def write() -> None:
        for number in range(3000):
            journal.write([event(number)])
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    readings = 0
    while not over.is_set() or readings == 0:
        found = numbers(tmp_path)
        assert found == sorted(set(found))
        readings += 1
    writer.join()
    journal.close()
    assert numbers(tmp_path)[-1] == 2999


def test_node_hours_add_up_like_a_sum_over_every_second() -> None:
    """By another road: a second at a time, node by node, of a course drawn at random."""
    drawn = random.Random(7)
    state, ledger = State(instance="0a1b2c3d"), HarvestTotals()
    for number in (1, 2):
        spec = JobSpec(("x",), 1, 4, "/w", "/c")
        state.jobs[number] = Job(number, f"j{number}", spec, 0.0)
    want = {"idle": 0, "held": 0, "lost": 0, "j1": 0, "j2": 0}
    trained, undone = {"j1": 0, "j2": 0}, {"j1": 0, "j2": 0}
    ledger.step(state, [], 0.0)
    now, idle = 0, ["n0"]
    ledger.step(state, idle, 0.0)
    for step in range(200):
        seconds = drawn.randrange(1, 5)
        held = {pilot.node for pilot in state.pilots.values() if pilot.live}
        for _ in range(seconds):
            want["idle"] += len(set(idle) - held)
            want["held"] += len(held)
            want["lost"] += sum(pilot.lost_s is not None for pilot in state.pilots.values() if pilot.live)
            for rank in state.ranks.values():
                want[f"j{rank.job}"] += rank.live
        now += seconds
        state.pilots.clear(), state.ranks.clear()
        for node in range(drawn.randrange(6)):
            pilot = state.new_pilot(f"n{node}", "t" * 16, now, None)
            pilot.enter(drawn.choice([Hold.HELD, Hold.ENDED]), now)
            pilot.lost_s = drawn.choice([None, None, 1.0])
            if pilot.live:
                job = drawn.choice([1, 2])
                state.ranks[job, 1, node] = Rank(job, 1, node, pilot.pilot)
        idle = [f"n{node}" for node in range(drawn.randrange(8))]
        for job in state.jobs.values():
            change = drawn.randrange(-min(job.samples, 20), 50)
            job.samples += change
            (trained if change > 0 else undone)[job.id] += abs(change)
        ledger.step(state, idle, float(now))
        if step == 100:
            early = ledger.close()
    late = ledger.close()
    events = [early.event(1.0), late.event(2.0)]
    found = harvested(events, 0.0, 10.0)
    assert found.watched_h == pytest.approx(now / 3600)
    assert (found.total.idle * 3600, found.total.held * 3600) == pytest.approx((want["idle"], want["held"]))
    assert early.lost + late.lost == pytest.approx(want["lost"])
    assert {job: hours * 3600 for job, hours in found.used.items()} == pytest.approx(
        {job: want[job] for job in ("j1", "j2")}
    )
    assert (found.samples, found.undone) == (trained, undone)


def test_a_machine_that_slept_harvested_nothing_meanwhile() -> None:
    state, ledger = State(instance="0a1b2c3d"), HarvestTotals()
    ledger.step(state, ["n1"], 0.0)
    ledger.step(state, ["n1"], 10.0)
    ledger.step(state, ["n1"], 100_000.0)
    ledger.step(state, ["n1"], 100_005.0)
    assert (ledger.close().idle, ledger.close().idle) == (15.0, 0.0)


def test_what_the_main_queue_felt_is_told_apart_from_leases_and_silence() -> None:
    def told(time_s: float, kind: str, pilot: str, **more: object) -> dict[str, object]:
        return {"time_s": time_s, "event": kind, "pilot": pilot, **more}

    events = [
        told(0.0, "node_leaves", "before"),
        told(10.0, "node_leaves", "a", reason="the scheduler ends the pilot"),
        told(10.5, "released", "a"),
        told(11.0, "node_leaves", "b"),
        told(13.0, "node_gone", "b"),
        told(14.0, "node_leaves", "c", reason="nothing heard of the controller"),
        told(15.0, "released", "c"),
        told(16.0, "node_gone", "d"),
        told(17.0, "released", "e"),
        told(18.0, "node_lost", "f"),
    ]
    found = harvested(events, 5.0, 100.0)
    assert (found.returns_s, found.gone, found.troubles) == ([0.5, 2.0], 1, {"node_lost": 1})
