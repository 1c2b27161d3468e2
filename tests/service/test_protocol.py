"""What happens between the service and its workers when messages, callers and processes cross each other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import apportion
from apportion.core.errors import InvalidInstance
from apportion.instances.gap_filling.generator import generate
from apportion.io import stored
from apportion.service import pool as pools
from apportion.service import worker as workers
from apportion.service.answering import Metrics
from apportion.service.applying import DecideSession
from apportion.service.messages import Busy, Conflict, Late, Limits, Made, OpenSession, WorkerLost
from apportion.service.pool import Pool
from apportion.service.record import History, Record, RecordFull
from apportion.service.record.entries import RecordInUse
from apportion.service.record.replaying import check_record as check
from apportion.service.record.writing import RecordWriter
from apportion.service.sessions import RequestDeduplicator, SessionManager
from apportion.service.tasks import Answer, Compare, Decide, Decided, Said, Stale, Task
from tests.patience import patience

TASK = Compare(b"", b"", 1.0)


class Bench:
    """A seat whose process is a promise: the test says when it answers, or that it has ended."""

    made: list[Bench]

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.is_alive = False
        self.pid = None
        self.starts = 0
        self.answers: asyncio.Queue[Answer | Exception] = asyncio.Queue()
        Bench.made.append(self)

    async def start(self) -> None:
        self.is_alive, self.answers = True, asyncio.Queue()
        self.starts += 1
        if self.starts == 2:
            raise ValueError("the first new start fails for a reason that nobody foresaw")

    async def stop(self) -> None:
        self.is_alive = False

    async def carry_out(self, task: Task, better: Callable[[Any], None]) -> Answer:
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> list[Bench]:
    Bench.made = []
    monkeypatch.setattr(pools, "Seat", Bench)
    return Bench.made


async def started(pool: Pool, count: int) -> list[asyncio.Task[Answer]]:
    tasks = [asyncio.create_task(pool.run(lambda _: TASK, 1.0, 60.0)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def test_a_seat_given_to_a_caller_who_leaves_in_the_same_moment_is_not_lost(benches: list[Bench]) -> None:
    async def run() -> None:
        pool = Pool(1, 4)
        await pool.start()
        first, second, third = await started(pool, 3)
        assert (pool.busy, pool.waiting) == (1, 2)
        benches[0].answers.put_nowait(Said(b"1"))
        while not first.done():
            await asyncio.sleep(0)
        second.cancel()  # the seat is its own by now, and it has not run since
        with pytest.raises(asyncio.CancelledError):
            await second
        benches[0].answers.put_nowait(Said(b"3"))
        assert await asyncio.wait_for(third, patience(5)) == Said(b"3")
        assert (pool.busy, pool.waiting, benches[0].starts) == (0, 0, 1)
        await pool.close()

    asyncio.run(run())


def test_who_waits_first_is_served_first_and_one_too_many_is_refused(benches: list[Bench]) -> None:
    async def run() -> None:
        pool = Pool(1, 2)
        await pool.start()
        tasks = await started(pool, 3)
        with pytest.raises(Busy):
            await pool.run(lambda _: TASK, 1.0, 60.0)
        for number, task in enumerate(tasks):
            benches[0].answers.put_nowait(Said(str(number).encode()))
            assert await asyncio.wait_for(task, patience(5)) == Said(str(number).encode())
        await pool.close()

    asyncio.run(run())


def test_a_worker_that_ended_while_idle_costs_no_request_and_is_replaced_whatever_goes_wrong(
    benches: list[Bench], caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        pool = Pool(1, 2)
        await pool.start()
        benches[0].is_alive = False
        (task,) = await started(pool, 1)
        assert pool.waiting == 1 and pool.killed["lost"] == 1
        while benches[0].starts < 3:  # the second start fails
            await asyncio.sleep(0.01)
        benches[0].answers.put_nowait(Said(b"again"))
        assert await asyncio.wait_for(task, patience(10)) == Said(b"again")
        benches[0].answers.put_nowait(WorkerLost("killed"))
        with pytest.raises(WorkerLost):
            await pool.run(lambda _: TASK, 1.0, 60.0)
        await pool.close()

    asyncio.run(run())
    assert "does not start" in caplog.text


def test_an_answer_that_comes_after_its_deadline_is_never_that_of_the_next_request(
    benches: list[Bench],
) -> None:
    async def run() -> None:
        pool = Pool(1, 2)
        await pool.start()
        with pytest.raises(Late):
            await pool.run(lambda _: TASK, 0.01, 0.01)
        benches[0].answers.put_nowait(Said(b"of the first"))  # too late: that process is not asked again
        (task,) = await started(pool, 1)
        while benches[0].starts < 3:
            await asyncio.sleep(0.01)
        benches[0].answers.put_nowait(Said(b"of the second"))
        assert await asyncio.wait_for(task, patience(10)) == Said(b"of the second")
        await pool.close()

    asyncio.run(run())


def test_who_joins_a_request_that_is_being_given_up_has_it_begun_anew() -> None:
    async def run() -> None:
        flights: RequestDeduplicator[int] = RequestDeduplicator()
        begun: list[int] = []
        leave = asyncio.Event()

        async def work() -> int:
            begun.append(len(begun))
            try:
                await asyncio.sleep(0 if len(begun) > 1 else 1e6)
            except asyncio.CancelledError:
                await leave.wait()  # as one that still has something to put on record
                raise
            return begun[-1]

        first = asyncio.create_task(flights.join(("s", "r"), "body", work))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(flights.join(("s", "r"), "body", work))
        await asyncio.sleep(0)
        with pytest.raises(Conflict):
            await flights.join(("s", "r"), "another", work)
        leave.set()
        assert await asyncio.wait_for(second, patience(5)) == 1

    asyncio.run(run())


class Services:
    """The sessions of a service in this process, with real workers and a real record."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.writer = RecordWriter(folder / "record" / "record.sqlite3")
        self.pool = Pool(workers, 32)
        self.manager = SessionManager(self.writer, self.pool, Metrics(), Limits())

    async def __aenter__(self) -> Services:
        await self.pool.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pool.close()
        self.writer.close()

    async def open(self, name: str, seed: int) -> None:
        instance = generate(seed=seed, jobs=4, nodes=20)
        await self.manager.open(OpenSession(name, msgspec.to_builtins(instance)), "me")

    async def decide(self, name: str, *deltas: dict[str, Any], request: str | None = None) -> Made:
        asked = DecideSession(deltas=list(deltas), request=request, time_limit=60.0)
        return await self.manager.decide(name, asked, "me")


def idle(amount: int) -> dict[str, Any]:
    return {"op": "set_nodes", "nodes": [f"n{k}" for k in range(amount)]}


def test_requests_given_up_and_workers_killed_at_any_moment_leave_every_answer_its_own(
    tmp_path: Path,
) -> None:
    rng = random.Random(5)

    async def run() -> None:
        async with Services(tmp_path, workers=2) as services:
            names = ["a", "b", "c"]
            for seed, name in enumerate(names):
                await services.open(name, seed)
            given_up, answered, count = 0, 0, 24
            seen = dict.fromkeys(names, 0)
            for number in range(count):
                amounts = {name: rng.randrange(5, 30) for name in names}
                tasks = {
                    name: asyncio.create_task(services.decide(name, idle(amount), request=f"{number}"))
                    for name, amount in amounts.items()
                }
                await asyncio.sleep(0.0 if number % 8 == 1 else rng.random() * 0.006)
                if number % 4 == 1:
                    tasks["a"].cancel()
                if number % 8 == 6 and services.pool.pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(rng.choice(services.pool.pids), signal.SIGKILL)
                for name, task in tasks.items():
                    try:
                        made = await task
                    except asyncio.CancelledError:
                        given_up += 1
                        continue
                    answered += 1
                    assert made.decision.session == name and made.decision.revision > seen[name]
                    seen[name] = made.decision.revision
                    instance = await services.manager.past.instance(made.decision.id)
                    result = msgspec.json.decode(made.result)
                    assert stored.verify(instance, result).ok and len(instance.nodes) == amounts[name]
                    if number % 4 == 3:
                        assert result["objective"] == pytest.approx(
                            apportion.solve(instance).objective, rel=1e-9
                        )
            assert given_up >= 2 and answered >= 60
            with History(services.writer.path) as history:
                entries = history.entries()
                assert all(checked.ok for checked in check(history, entries[::10]))
                asked = [history.asked(name, str(number)) for name in names for number in range(40)]
                numbers = [one.decision for one in asked if one is not None and one.decision is not None]
                assert sorted(numbers) == [entry.id for entry in entries], (
                    "every decision answers one request"
                )

    asyncio.run(run())


def test_what_is_asked_while_the_service_ends_is_refused_and_nothing_waits_for_ever(tmp_path: Path) -> None:
    async def run() -> None:
        async with Services(tmp_path, workers=1) as services:
            await services.open("s", 1)
            made = await services.decide("s", idle(12))
            pid = services.pool.pids[0]
            os.kill(pid, signal.SIGSTOP)
            stuck = asyncio.create_task(services.decide("s", idle(9)))
            while services.pool.busy == 0:
                await asyncio.sleep(0)
        for late in (services.decide("s", idle(8)), services.manager.change("s", [idle(7)], None, "", "me")):
            waiting = asyncio.ensure_future(late)
            await asyncio.sleep(0)
            waiting.cancel()  # as the end of the service does
            with pytest.raises((RecordInUse, asyncio.CancelledError)):
                await asyncio.wait_for(waiting, patience(10))
        stuck.cancel()
        with pytest.raises((RecordInUse, asyncio.CancelledError)):
            await asyncio.wait_for(stuck, patience(10))
        with History(services.writer.path) as history:
            assert [entry.id for entry in history.entries()] == [made.decision.id]

    asyncio.run(run())


def test_what_waits_at_the_same_time_is_written_in_one_transaction(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = RecordWriter(tmp_path / "record" / "record.sqlite3")
        begun, go = threading.Event(), threading.Event()
        statements: list[str] = []
        told: list[str] = []

        def first(record: Record) -> None:
            record._connection.set_trace_callback(statements.append)
            begun.set()
            go.wait(patience(10))

        def broken(_: Record) -> None:
            raise RecordFull("not this one")

        try:
            waiting = [ledger.write(first)]
            begun.wait(patience(10))
            for number in range(20):
                waiting.append(
                    ledger.write(
                        lambda record, number=number: record.open_session(
                            f"s{number}", {}, at_s=0.0, asked_by="me"
                        )
                    )
                )
            go.set()
            await asyncio.gather(*waiting)
            assert statements.count("COMMIT") == 2, "the first one's, and one of all that waited meanwhile"
            refused = [ledger.write(broken, lambda: told.append("failed")) for _ in range(3)]
            kept = ledger.write(lambda record: record.open_session("kept", {}, at_s=0.0, asked_by="me"))
            assert await kept == 0
            for future in refused:
                with pytest.raises(RecordFull):
                    await future
            assert told == ["failed"] * 3
            assert len(ledger.read_now(lambda history: history.sessions())) == 21
        finally:
            ledger.close()

    asyncio.run(run())


def test_a_worker_keeps_the_sessions_that_were_asked_about_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_KEPT_JOBS", 10)
    told: list[Answer] = []
    worker = workers.Worker(told.append)

    def decide(name: str, jobs: int, since: int | None) -> Answer:
        instance = None if since is not None else msgspec.json.encode(generate(seed=1, jobs=jobs, nodes=8))
        return worker.answer(Decide(name, 0, since, instance, b"[]", None, 10.0, 0.0, 0, False))

    for name, jobs in (("a", 4), ("b", 4), ("a", 4), ("c", 4)):
        assert isinstance(decide(name, jobs, None), Decided)
    assert isinstance(decide("b", 4, 0), Stale), "b was asked about longest ago"
    assert isinstance(decide("a", 4, 0), Decided)
    assert isinstance(decide("large", 30, None), Decided)
    assert isinstance(decide("a", 4, 0), Stale)
    assert isinstance(decide("large", 30, 0), Decided), "the one just decided is kept, however large"


def test_a_change_that_cannot_be_written_is_taken_back_with_all_that_followed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with Services(tmp_path, workers=1) as services:
            await services.open("s", 1)
            made = await services.decide("s", idle(12), request="before")
            write = Record.change
            full = True

            def change(self: Record, *words: Any, **named: Any) -> int:
                if full:
                    raise RecordFull("no room")
                return write(self, *words, **named)

            monkeypatch.setattr(Record, "change", change)
            asks = [
                services.decide("s", idle(7), request="first"),
                services.decide("s", idle(8), request="second"),
                services.manager.change("s", [idle(9)], "third", "body", "me"),
            ]
            for told in await asyncio.gather(*asks, return_exceptions=True):
                assert isinstance(told, RecordFull), told
            summary = await services.manager.session("s")
            assert (summary.revision, summary.capacities) == (1, {"idle_nodes": 12})
            with pytest.raises(InvalidInstance):
                await services.decide("s", {"op": "set_capacity", "name": "idle_nodes", "amount": -1})
            full = False
            for request, amount in (("second", 8), ("first", 7)):
                made = await services.decide("s", idle(amount), request=request)
                instance = await services.manager.past.instance(made.decision.id)
                assert (
                    len(instance.nodes) == amount
                    and stored.verify(instance, msgspec.json.decode(made.result)).ok
                )
            assert made.decision.revision == 3
            assert await services.decide("s", idle(7), request="first") == made
            with History(services.writer.path) as history:
                assert [entry.revision for entry in history.entries()] == [1, 2, 3]
                assert all(checked.ok for checked in check(history, history.entries()))

    asyncio.run(run())
