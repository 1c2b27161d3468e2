"""The service: what it answers is what the library answers, and nothing is lost on the way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import apportion
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.core.files import private_folder
from apportion.instances.gap_filling.generator import generate
from apportion.io import stored
from apportion.service.record import History, record_file
from apportion.service.record.replaying import check_record as check
from apportion.service.serving import unix_socket
from apportion.service.session import Session
from tests.service.running import Service, service, until


def instance_of(seed: int, jobs: int = 5, nodes: int = 20) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(msgspec.json.encode(generate(seed=seed, jobs=jobs, nodes=nodes)))
    return made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("service"), "--workers", "2") as started:
        yield started


def test_a_decision_is_that_of_the_library_and_on_record(running: Service) -> None:
    instance = instance_of(1)
    opened = running.ok("POST", "/sessions", {"name": "first", "instance": instance})
    assert (opened["revision"], opened["jobs"], opened["capacities"]) == (0, 5, {"idle_nodes": 20})
    session = Session(apportion.read(instance))
    job = instance["jobs"][0]["id"]
    steps = [
        [],
        [{"op": "set_capacity", "name": "idle_nodes", "amount": 11}],
        [{"op": "remove_job", "id": job}, {"op": "set_fields", "fields": {"horizon_s": 77.0}}],
        [{"op": "add_job", "job": {**instance["jobs"][0], "current_nodes": []}}],
    ]
    for revision, deltas in enumerate(steps):
        session.apply(*deltas)
        made = running.ok("POST", "/sessions/first/decisions", {"deltas": deltas, "request": f"r{revision}"})
        assert made["decision"]["revision"] == revision and made["decision"]["status"] == "decided"
        assert stored.verify(session.instance, made["result"]).ok
        assert made["result"]["objective"] == apportion.solve(session.instance).objective
        assert running.ok("GET", f"/decisions/{made['decision']['id']}") == made
    assert running.ok("GET", "/sessions/first/instance") == json.loads(msgspec.json.encode(session.instance))
    rounds = running.ok("GET", "/sessions/first/rounds")
    assert [each["decision"]["revision"] for each in rounds] == [0, 1, 2, 3]
    assert all(each["prices"] and each["shares"] for each in rounds)
    with History(record_file(running.folder / "record")) as history:
        entries = history.entries(session="first")
        assert len(entries) == 4 and all(checked.ok for checked in check(history, entries))
        assert history.instance("first", 3) == session.instance


def test_the_same_request_is_carried_out_once(running: Service) -> None:
    running.ok("POST", "/sessions", {"name": "once", "instance": instance_of(2)})
    ask = {"deltas": [{"op": "set_capacity", "name": "idle_nodes", "amount": 9}], "request": "a"}
    first = running.ok("POST", "/sessions/once/decisions", ask)
    assert running.ok("POST", "/sessions/once/decisions", ask) == first
    status, told = running.ask("POST", "/sessions/once/decisions", {**ask, "gap": 0.1})
    assert status == 409 and told["error"]["type"] == "Conflict"
    change = {"deltas": [{"op": "set_capacity", "name": "idle_nodes", "amount": 8}], "request": "b"}
    assert running.ok("POST", "/sessions/once/deltas", change)["revision"] == 2
    assert running.ok("POST", "/sessions/once/deltas", change)["revision"] == 2
    assert running.ok("GET", "/sessions/once")["revision"] == 2
    assert running.ok("POST", "/sessions", {"name": "other", "instance": instance_of(3)})["revision"] == 0
    assert running.ok("POST", "/sessions", {"name": "other", "instance": instance_of(3)})["revision"] == 0
    assert running.ask("POST", "/sessions", {"name": "other", "instance": instance_of(4)})[0] == 409


def test_opening_by_an_id_and_closing_happen_once_however_often_they_are_asked(running: Service) -> None:
    ask = {"name": "door", "instance": instance_of(14), "request": "open-1"}
    assert running.ok("POST", "/sessions", ask)["revision"] == 0
    change = {"deltas": [{"op": "set_capacity", "name": "idle_nodes", "amount": 9}]}
    running.ok("POST", "/sessions/door/deltas", change)
    again = running.ok("POST", "/sessions", ask)
    assert (again["revision"], again["capacities"]) == (1, {"idle_nodes": 9}), (
        "the same session, as it is now"
    )
    status, told = running.ask("POST", "/sessions", {**ask, "instance": instance_of(15)})
    assert status == 409 and "another body" in told["error"]["message"]
    for _ in range(3):
        assert running.ok("DELETE", "/sessions/door") == {"closed": "door"}
    status, told = running.ask("POST", "/sessions", ask)
    assert status == 409 and "closed since" in told["error"]["message"]
    assert running.ok("POST", "/sessions", {**ask, "request": "open-2"})["revision"] == 2
    assert running.ask("DELETE", "/sessions/never")[0] == 404


def test_one_session_is_opened_by_many_who_ask_at_once(running: Service) -> None:
    ask = {"name": "crowd", "instance": instance_of(16), "request": "together"}
    told: list[Any] = []
    threads = [
        threading.Thread(target=lambda: told.append(running.ask("POST", "/sessions", ask))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(told) == 6 and all(answer == told[0] for answer in told)
    with History(record_file(running.folder / "record")) as history:
        assert history.deltas("crowd", 0) == [] and not history.entries(session="crowd")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/sessions", b"{", 400, "InvalidRequest"),
        ("POST", "/sessions", b"[]", 400, "InvalidRequest"),
        ("POST", "/sessions", {"name": "../x", "instance": {}}, 400, "InvalidRequest"),
        ("POST", "/sessions", {"name": "x", "instance": {"kind": "nonsense"}}, 422, "InvalidInstance"),
        ("POST", "/sessions", b'{"name": "x", "name": "y", "instance": {}}', 422, "InvalidInstance"),
        ("POST", "/sessions/bad/decisions", {"deltas": [{"op": "fly"}]}, 422, "InvalidInstance"),
        (
            "POST",
            "/sessions/bad/decisions",
            {"deltas": [{"op": "remove_job", "id": "?"}]},
            422,
            "InvalidInstance",
        ),
        ("POST", "/sessions/bad/decisions", {"time_limit": -1}, 400, "InvalidRequest"),
        ("POST", "/sessions/bad/decisions", {"time_limit": 5000}, 422, "InvalidInstance"),
        ("POST", "/sessions/bad/decisions", {"policy": "nonsense"}, 422, "InvalidOption"),
        ("POST", "/sessions/bad/decisions", {"surprise": 1}, 400, "InvalidRequest"),
        ("POST", "/sessions/bad/decisions", b"[" * 100_000, 400, "InvalidRequest"),
        ("POST", "/sessions/nobody/decisions", {}, 404, "NotOnRecord"),
        ("GET", "/decisions/99999999", None, 404, "NotOnRecord"),
        ("GET", "/decisions/x", None, 404, "InvalidRequest"),
        ("GET", "/nowhere", None, 404, "InvalidRequest"),
        ("GET", "/assets/..%2fapp.py", None, 404, "InvalidRequest"),
        ("PUT", "/sessions", {}, 405, "InvalidRequest"),
    ],
)
def test_bad_input_is_a_4xx_with_the_error_object_of_the_command(
    running: Service, method: str, path: str, body: Any, status: int, kind: str
) -> None:
    running.ask("POST", "/sessions", {"name": "bad", "instance": instance_of(5)})
    answered, told = running.ask(method, path, body)
    assert (answered, told["error"]["type"]) == (status, kind)
    assert set(told["error"]) == {"type", "message", "exit_code", "problems"}
    assert running.ok("GET", "/sessions/bad")["revision"] == 0


def test_a_worker_that_is_killed_loses_nothing(running: Service) -> None:
    running.ok("POST", "/sessions", {"name": "killed", "instance": instance_of(6)})
    for amount in (14, 12, 13):
        for pid in running.workers():
            os.kill(pid, signal.SIGKILL)
        made = running.ok(
            "POST",
            "/sessions/killed/decisions",
            {"deltas": [{"op": "set_nodes", "nodes": [f"n{k}" for k in range(amount)]}], "time_limit": 60},
        )
        instance = apportion.read(running.ok("GET", "/sessions/killed/instance"))
        assert made["decision"]["status"] == "decided"
        assert made["result"]["objective"] == apportion.solve(instance).objective
        assert len(instance.nodes) == amount
    assert until(lambda: running.ok("GET", "/health")["busy"] == 0)


def test_a_policy_decides_by_its_name(running: Service) -> None:
    running.ok("POST", "/sessions", {"name": "policy", "instance": instance_of(13)})
    made = running.ok("POST", "/sessions/policy/decisions", {"policy": "equal-share"})
    instance = apportion.read(instance_of(13))
    assert made["decision"]["policy"] == "equal-share"
    assert made["result"]["plan"] == Session(instance).decide("equal-share").plan
    assert stored.verify(instance, made["result"]).ok
    best = running.ok("POST", "/sessions/policy/decisions", {})["result"]
    assert best["objective"] >= made["result"]["objective"]


def test_explanations_and_what_if_of_a_decision(running: Service) -> None:
    running.ok("POST", "/sessions", {"name": "why", "instance": instance_of(7, nodes=9)})
    made = running.ok("POST", "/sessions/why/decisions", {})
    number = made["decision"]["id"]
    job = running.ok("GET", f"/decisions/{number}/instance")["jobs"][0]["id"]
    told = running.ok("GET", f"/decisions/{number}/explanation?job={job}")
    assert told["feasible"] is True and [one["job"] for one in told["jobs"]] == [job]
    deltas = [{"op": "set_capacity", "name": "idle_nodes", "amount": 15}]
    compared = running.ok("POST", f"/decisions/{number}/what-if", {"deltas": deltas})
    bigger = running.ok("GET", f"/decisions/{number}/instance")
    after = Session(apportion.read(bigger), hypothetical=True)
    after.apply(*deltas)
    assert compared["objective_before"] == made["result"]["objective"]
    assert compared["objective_after"] == apportion.solve(after.instance).objective
    assert running.ok("GET", "/sessions/why")["revision"] == 0
    assert running.ask("POST", f"/decisions/{number}/what-if", {"deltas": [{"op": "pin"}]})[0] == 422


def test_events_end_with_the_decision(running: Service) -> None:
    running.ok("POST", "/sessions", {"name": "events", "instance": instance_of(8)})
    status, headers, content = running.raw(
        "POST", "/sessions/events/decisions", {"request": "e"}, {"Accept": "text/event-stream"}
    )
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    (event,) = content.decode().strip().split("\r\n\r\n")
    name, data = event.split("\r\n")[:2]
    assert name == "event: decision"
    assert json.loads(data.removeprefix("data: ")) == running.ok(
        "POST", "/sessions/events/decisions", {"request": "e"}
    )


def test_what_it_counts_and_what_it_speaks(running: Service) -> None:
    running.ok("POST", "/sessions", {"name": "counted", "instance": instance_of(12)})
    running.ok("POST", "/sessions/counted/decisions", {})
    metrics = running.raw("GET", "/metrics")[2].decode()
    assert 'apportion_decisions_total{policy="optimal",status="decided",termination="optimal"}' in metrics
    assert 'apportion_workers_killed{why="late"}' in metrics
    document = running.ok("GET", "/openapi.json")
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    assert "AddJob" in schemas and "op" in schemas["AddJob"]["properties"]
    assert "/sessions/{name}/decisions" in document["paths"]
    log = [json.loads(line) for line in (running.folder / "log").read_text().splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in log)
    assert not [line for line in log if line["level"] == "error"]


def test_another_user_can_neither_read_nor_command_it(running: Service) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    running.folder.parent.chmod(0o755)
    source = (
        "import os, socket, sys\nos.setgid(65534); os.setuid(65534)\n"
        "for path in sys.argv[2:]:\n"
        "    try: open(path, 'rb').read(); print('read', path)\n"
        "    except PermissionError: print('denied')\n"
        "try: socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')\n"
        "except PermissionError: print('denied')\n"
    )
    running.ok("POST", "/sessions", {"name": "mine", "instance": instance_of(2)})
    record = record_file(running.folder / "record")
    words = [str(running.socket), str(record), str(record.with_name("record.sqlite3-wal"))]
    done = subprocess.run([sys.executable, "-c", source, *words], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["denied"] * 3, done.stderr
    assert running.ok("GET", "/sessions")[0]["asked_by"] == "root"


def test_a_service_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Service(tmp_path, "--workers", "1")
    first.ok("POST", "/sessions", {"name": "s", "instance": instance_of(9)})
    ask = {"deltas": [{"op": "set_capacity", "name": "idle_nodes", "amount": 7}], "request": "a"}
    made = first.ok("POST", "/sessions/s/decisions", ask)
    first.ok("POST", "/sessions/s/deltas", {"deltas": [{"op": "set_fields", "fields": {"horizon_s": 5.0}}]})
    instance = first.ok("GET", "/sessions/s/instance")
    workers = first.workers()
    first.kill()
    assert until(
        lambda: (
            not any(
                Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
                for pid in workers
            )
        )
    )
    with service(tmp_path, "--workers", "1") as second:
        assert second.ok("GET", "/sessions/s")["revision"] == 2
        assert second.ok("GET", "/sessions/s/instance") == instance
        assert second.ok("POST", "/sessions/s/decisions", ask) == made
        assert second.ok("POST", "/sessions/s/decisions", {})["decision"]["revision"] == 2
        with pytest.raises(AssertionError, match="another service"):
            (tmp_path / "other").mkdir(mode=0o700)
            Service(tmp_path / "other", "--record", str(tmp_path / "record"))
        second.ok("DELETE", "/sessions/s")
        assert second.ok("GET", "/sessions") == []
        assert second.ok("POST", "/sessions", {"name": "s", "instance": instance_of(9)})["revision"] == 3


def test_deadlines_back_pressure_and_callers_that_go_away(tmp_path: Path) -> None:
    """The one worker is stopped, as a solver would be that never comes back."""
    with service(tmp_path, "--workers", "1", "--waiting", "1", "--grace", "0.5") as running:
        running.ok("POST", "/sessions", {"name": "s", "instance": instance_of(10)})
        made = running.ok("POST", "/sessions/s/decisions", {})
        (pid,) = running.workers()
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        late = running.ok("POST", "/sessions/s/decisions", {"time_limit": 0.5})
        assert time.monotonic() - began >= 1.0
        assert late["decision"]["status"] == "late" and late["result"]["termination"] == "time_limit"
        assert late["result"]["plan"] == made["result"]["plan"]
        assert stored.verify(apportion.read(instance_of(10)), late["result"]).ok
        assert until(lambda: running.ok("GET", "/health")["busy"] == 0)
        (other,) = running.workers()
        assert other != pid

        os.kill(other, signal.SIGSTOP)
        answers: list[int] = []

        def ask() -> None:
            answers.append(running.ask("POST", "/sessions/s/decisions", {"time_limit": 30})[0])

        gone = running.connection()
        gone.request("POST", "/sessions/s/decisions", json.dumps({"time_limit": 500}))
        assert until(lambda: running.ok("GET", "/health")["busy"] == 1)
        waiting = threading.Thread(target=ask)
        waiting.start()
        assert until(lambda: running.ok("GET", "/health")["waiting"] == 1)
        status, headers, content = running.raw("POST", "/sessions/s/decisions", {})
        assert status == 429 and int(headers["retry-after"]) >= 1
        assert json.loads(content)["error"]["type"] == "Busy"
        gone.close()  # its worker is killed, and the one that waits gets the next
        waiting.join(120)
        assert answers == [200]
        metrics = running.raw("GET", "/metrics")[2].decode()
        assert 'apportion_workers_killed{why="gone"} 1.0' in metrics
        assert 'apportion_workers_killed{why="late"} 1.0' in metrics
        assert "apportion_late_total 1.0" in metrics


def test_a_port_needs_the_token(tmp_path: Path) -> None:
    with service(tmp_path, "--workers", "1", "--port", "0") as running:
        import http.client

        port, token = running.port, running.token
        assert (tmp_path / "record" / "token").stat().st_mode & 0o777 == 0o600
        seen = []
        for path, shown in (
            ("/sessions", ""),
            ("/sessions", "Bearer no"),
            ("/sessions", f"Bearer {token}"),
            ("/health", ""),
            ("/metrics", ""),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path, headers={"Authorization": shown} if shown else {})
            response = connection.getresponse()
            seen.append(response.status)
            response.read()
            connection.close()
        assert seen == [401, 401, 200, 200, 401]


@pytest.mark.slow
def test_a_full_record_refuses_decisions_and_serves_reads(tmp_path: Path) -> None:
    with service(tmp_path, "--workers", "1", "--max-record", "1") as running:
        running.ok("POST", "/sessions", {"name": "s", "instance": instance_of(11, jobs=30, nodes=300)})
        last, revision = 0, 0
        for amount in range(10_000):
            deltas = [{"op": "set_nodes", "nodes": [f"n{amount}-{k}" for k in range(300)]}]
            status, told = running.ask("POST", "/sessions/s/decisions", {"deltas": deltas})
            if status != 200:
                break
            last, revision = told["decision"]["id"], told["decision"]["revision"]
        assert status == 507 and "history prune" in told["error"]["message"]
        assert running.ok("GET", f"/decisions/{last}")["decision"]["id"] == last
        assert running.ok("GET", "/sessions/s")["revision"] == revision, "refused, so nothing was changed"
        assert running.ok("GET", "/health")["status"] == "ok"


def test_an_empty_body_and_one_that_is_too_large_say_so(running: Service) -> None:
    """An empty body was "$.data: 'data'", and a large one was told no limit."""
    running.ok("POST", "/sessions", {"name": "empty", "instance": instance_of(14)})
    status, told = running.ask("POST", "/sessions", {"name": "x", "instance": []})
    assert status == 400 and told["error"]["problems"][0]["path"] == "$.instance"
    with contextlib.closing(running.connection()) as connection:
        for path in ("/sessions", "/sessions/empty/decisions"):
            connection.request("POST", path, "")
            answer = connection.getresponse()
            told = json.loads(answer.read())["error"]
            assert (answer.status, told["message"][:21]) == (400, "$: the body is empty:")
        connection.putrequest("POST", "/sessions")
        connection.putheader("Content-Length", str(2**30))
        connection.endheaders()
        answer = connection.getresponse()
        told = json.loads(answer.read())["error"]
    assert answer.status == 413 and "67,108,864 bytes" in told["message"] and "--max-body" in told["message"]


def test_the_policy_that_an_answer_names_can_be_asked_for(running: Service) -> None:
    """`optimal` and `policy:greedy` stood in answers and were refused in requests."""
    running.ok("POST", "/sessions", {"name": "named", "instance": instance_of(15)})
    best = running.ok("POST", "/sessions/named/decisions", {})
    again = running.ok("POST", "/sessions/named/decisions", {"policy": best["decision"]["policy"]})
    assert again["decision"]["policy"] == best["decision"]["policy"] == "optimal"
    assert again["result"]["plan"] == best["result"]["plan"]
    greedy = running.ok("POST", "/sessions/named/decisions", {"policy": "greedy"})
    again = running.ok("POST", "/sessions/named/decisions", {"policy": greedy["result"]["backend"]})
    assert again["decision"]["policy"] == "greedy" and again["result"]["plan"] == greedy["result"]["plan"]
    assert running.ask("POST", "/sessions/named/decisions", {"policy": "graedy"})[0] == 422


@pytest.mark.parametrize(("before", "fits"), [(0o1777, True), (0o755, True), (0o700, True), (0o777, False)])
def test_the_folder_of_a_socket_stays_as_it_is(tmp_path: Path, before: int, fits: bool) -> None:
    """A socket in /tmp, asked for by root, took /tmp from everybody else."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(before)
    if fits:
        unix_socket(folder / "s.sock").close()
        assert (folder / "s.sock").stat().st_mode & 0o777 == 0o600
    else:
        with pytest.raises(InvalidOption, match="lets others replace the socket"):
            unix_socket(folder / "s.sock")
    assert folder.stat().st_mode & 0o7777 == before


def test_a_state_folder_is_none_that_everybody_shares(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(InvalidInstance, match="is shared with other users; name a folder of your own"):
        private_folder(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777
