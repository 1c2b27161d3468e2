"""The record: what is written can be had again, whole, whatever happens to the process or the disk."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from apportion.io import stored
from apportion.service.record import (
    Asked,
    History,
    NotOnRecord,
    Record,
    RecordDamaged,
    RecordFull,
    record_file,
)
from apportion.service.record.entries import MIGRATIONS, VERSION
from apportion.service.record.replaying import check_record as check
from tests.patience import patience
from tests.record.deciding import START_S, decide, decided, instance_of

OLD = Path(__file__).parent / "version_1.sqlite3"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return record_file(tmp_path / "record")


def test_what_is_decided_is_had_again(path: Path) -> None:
    with Record(path) as record:
        numbers = [decide(record, seed, proof=True) for seed in range(4)]
    assert numbers == [1, 2, 3, 4]
    with History(path) as history:
        entries = history.entries()
        assert [entry.id for entry in entries] == numbers
        for seed, entry in enumerate(entries):
            given = decided(entry.session, 0, seed, proof=True)
            assert history.instance(entry.session, 0) == instance_of(seed)
            assert history.proof(entry.id) == given.proof
            assert entry.objective == msgspec.json.decode(given.result)["objective"]
            assert (entry.asked_by, entry.policy, entry.options) == ("tests", "optimal", {"time_limit": 10.0})
        assert all(checked.ok for checked in check(history, entries))


def test_decisions_are_chosen_by_session_time_and_number(path: Path) -> None:
    with Record(path) as record:
        for seed in range(5):
            decide(record, seed)
    with History(path) as history:
        assert [e.id for e in history.entries(since_s=START_S + 60, until_s=START_S + 180)] == [2, 3]
        assert [e.id for e in history.entries(last=2)] == [4, 5]
        assert [e.id for e in history.entries(session="s3")] == [4]
        assert history.at(START_S + 100).id == 2
        with pytest.raises(NotOnRecord, match="by then"):
            history.at(START_S - 1)
        for number in (0, 6, -1, 2**70):
            with pytest.raises(NotOnRecord, match="holds 1 to 5"):
                history.entry(number)


def test_nobody_else_may_read_it(path: Path) -> None:
    with Record(path) as record:
        decide(record, 0)
        for file in (path, *path.parent.iterdir()):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_process_killed_at_any_moment_leaves_it_whole(path: Path, root: Path) -> None:
    """Every number that was printed is on record, none is there twice, and all can be checked."""
    rng, told, killed = random.Random(11), list[int](), 0
    while killed < 5 or (len(told) <= 20 and killed < 60):
        killed += 1
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.record.deciding", str(path)], stdout=subprocess.PIPE, cwd=root
        )
        assert child.stdout is not None
        told.append(int(child.stdout.readline()))  # it is at work
        time.sleep(rng.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        told += [int(line) for line in child.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
        child.wait()
        child.stdout.close()
    assert len(told) > 20 and told == sorted(set(told))
    with History(path) as history:
        assert history.problems() == []
        entries = history.entries()
        assert {entry.id for entry in entries} >= set(told)
        assert len(entries) <= len(told) + killed  # the last one of each may be on record and not told
        assert all(checked.ok for checked in check(history, rng.sample(entries, 20)))


def test_a_full_disk_refuses_decisions_and_serves_reads(path: Path) -> None:
    with Record(path, max_bytes=160_000) as record:
        made = 0
        with pytest.raises(RecordFull, match="cannot grow"):
            for seed in range(10_000):
                decide(record, seed % 20 + 20 * made)
                made += 1
        assert made > 3
        with History(path) as history:
            entries = history.entries()
            assert [entry.id for entry in entries] == list(range(1, made + 1))  # all or nothing
            assert all(checked.ok for checked in check(history, entries))
            assert history.problems() == []
        assert record.prune(START_S + 1e9) == 0  # the last decision of an open session is kept
        for seed in range(made - 1):
            record.close_session(history_session(path, seed + 1), at_s=START_S)
        assert record.prune(START_S + 1e9) == made - 1
        decide(record, 19_999)  # there is room again


def history_session(path: Path, number: int) -> str:
    with History(path) as history:
        return history.entry(number).session


def test_a_file_size_limit_of_the_system_is_a_full_disk_too(path: Path, root: Path) -> None:
    source = (
        "import resource, signal, sys\nfrom pathlib import Path\n"
        "from apportion.service.record import Record, RecordFull, History\n"
        "from tests.record.deciding import decide\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "path = Path(sys.argv[1])\nrecord = Record(path)\n[decide(record, seed) for seed in range(3)]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))\n"
        "try:\n    for seed in range(3, 500): decide(record, seed)\n"
        "except RecordFull as error: print('full', error)\n"
        "print(len(History(path).entries()) >= 3, History(path).problems())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=patience(120),
    )
    assert done.stdout.startswith("full the record"), done.stderr
    assert done.stdout.endswith("True []\n")


def test_an_old_file_is_brought_to_today(tmp_path: Path) -> None:
    """The file was written by the first version; it is opened by every later one."""
    path = tmp_path / "record.sqlite3"
    shutil.copy(OLD, path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()
    with History(path) as history:
        entries = history.entries()
        assert len(entries) == 2 and all(checked.ok for checked in check(history, entries))
    with Record(path) as record:
        assert record.migrated_from == VERSION  # the reader had brought it to today
        assert decide(record, 7) == 3


def test_every_step_of_the_migration_leads_to_the_same_tables(tmp_path: Path) -> None:
    def tables(path: Path) -> list[tuple[str, ...]]:
        with sqlite3.connect(path) as connection:
            found = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
        connection.close()
        return found

    shutil.copy(OLD, tmp_path / "old.sqlite3")
    Record(tmp_path / "old.sqlite3").close()
    Record(tmp_path / "new.sqlite3").close()
    assert tables(tmp_path / "old.sqlite3") == tables(tmp_path / "new.sqlite3")
    assert len(MIGRATIONS) == VERSION


def test_what_is_no_record_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite3"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = other.read_bytes()
    (tmp_path / "text").write_text("no database at all, but long enough to be taken for one " * 40)
    later = tmp_path / "later.sqlite3"
    Record(later).close()
    with sqlite3.connect(later) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    for path, why in ((other, "no record"), (tmp_path / "text", "cannot be used"), (later, "update")):
        for opening in (Record, History):
            with pytest.raises(RecordDamaged, match=why):
                opening(path)
    assert other.read_bytes() == before
    with pytest.raises(NotOnRecord, match="there is no record"):
        History(tmp_path / "none")


def test_a_decision_that_was_edited_is_uncheckable(path: Path) -> None:
    with Record(path) as record:
        for seed in range(3):
            decide(record, seed, proof=True)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE decision SET objective = objective WHERE id = 1")
        connection.execute(
            "UPDATE state SET instance = (SELECT instance FROM state WHERE session = 's0') "
            "WHERE session = 's1'"
        )
        connection.execute("UPDATE decision SET proof = x'00' WHERE id = 3")
    connection.close()
    with History(path) as history:
        found = list(check(history, history.entries()))
    assert [checked.ok for checked in found] == [True, False, False]
    assert any("digest" in failure for failure in found[1].failures)
    assert any("proof" in failure for failure in found[2].failures)


def test_pruning_keeps_what_is_left_checkable(path: Path) -> None:
    with Record(path) as record:
        for seed in range(6):
            decide(record, seed)
            record.close_session(f"s{seed}", at_s=START_S)
        assert record.prune(START_S + 60 * 4) == 4
        assert decide(record, 9) == 7  # numbers are not used again
    with History(path) as history:
        entries = history.entries()
        assert [entry.id for entry in entries] == [5, 6, 7]
        assert [s.name for s in history.sessions(closed=True)] == ["s4", "s5", "s9"]
        assert all(checked.ok for checked in check(history, entries))
        assert history.problems() == []


def test_a_request_that_was_answered_is_not_forgotten_when_it_is_written_again(path: Path) -> None:
    """A later transaction of another caller wrote the earlier request without its decision.

    Asked again, it was decided again, under another number.
    """
    with Record(path) as record:
        number = decide(record, 1)
        record.ask("s1", "r", Asked("body", 0, None), at_s=START_S)
        record.ask("s1", "r", Asked("body", 0, number), at_s=START_S)
        record.ask("s1", "r", Asked("body", 0, None), at_s=START_S)
    with History(path) as history:
        assert history.asked("s1", "r") == Asked("body", 0, number)


def test_a_result_is_a_stored_document(path: Path) -> None:
    with Record(path) as record:
        number = decide(record, 5)
    with History(path) as history:
        document = msgspec.json.decode(history.result(number))
    assert stored.verify(instance_of(5), document).ok
