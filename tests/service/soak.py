"""A soak: clients with random deltas, workers and the service killed all the time, nothing lost or doubled.

``python -m tests.service.soak --seconds 1800 --clients 10 --kill-every 60``
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import apportion
from apportion.instances.gap_filling.generator import generate
from apportion.service.record import History, record_file
from apportion.service.record.replaying import check_record as check
from apportion.service.session import Session
from tests.service.running import Connection, Service

_COMPARED_EVERY = 20
_TOLERANCE = 1e-9
"""What "optimal" allows; equal optima may add up in another order."""


@dataclass
class Client:
    """One caller with a session of its own, and what it knows to be true of it."""

    name: str
    socket: Path
    seed: int
    pace_s: float
    stop: threading.Event
    session: Session = field(init=False)
    decided: list[int] = field(default_factory=list)
    changes: int = 0
    retries: int = 0
    late: int = 0
    compared: int = 0
    seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = Session(generate(seed=self.seed, jobs=8, nodes=40))

    def run(self) -> None:
        """Open the session, then change and decide it until told to stop."""
        try:
            instance = json.loads(msgspec.json.encode(self.session.instance))
            self._ask("/sessions", {"name": self.name, "instance": instance})
            rng = random.Random(self.seed)
            while not self.stop.is_set():
                self._step(rng)
                time.sleep(self.pace_s * rng.random())
        except Exception as error:
            self.problems.append(f"{self.name}: {error!r}")

    def _step(self, rng: random.Random) -> None:
        deltas = [_delta(rng, self.session, len(self.decided))] if rng.random() < 0.9 else []
        if deltas:
            self.session.apply(*deltas)
            self.changes += 1
        request = f"{self.name}-{len(self.decided)}"
        began = time.monotonic()
        made = self._ask(f"/sessions/{self.name}/decisions", {"deltas": deltas, "request": request})
        self.seconds.append(time.monotonic() - began)
        self.decided.append(made["decision"]["id"])
        if made["decision"]["revision"] != self.changes:
            self.problems.append(f"{request}: revision {made['decision']['revision']}, not {self.changes}")
        if made["decision"]["status"] == "late":
            self.late += 1
        elif len(self.decided) % _COMPARED_EVERY == 0:
            cold = apportion.solve(self.session.instance).objective
            self.compared += 1
            if abs(made["result"]["objective"] - cold) > _TOLERANCE * abs(cold):
                self.problems.append(f"{request}: {made['result']['objective']!r}, cold {cold!r}")

    def _ask(self, path: str, body: Any) -> Any:
        """Ask until there is an answer; the request id makes that harmless."""
        while True:
            connection = Connection(self.socket)
            try:
                connection.request("POST", path, json.dumps(body))
                response = connection.getresponse()
                told = json.loads(response.read())
                if response.status in (200, 201):
                    return told
                if response.status not in (429, 503):
                    raise RuntimeError(f"{path}: {response.status} {told}")
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                pass  # the service was killed
            finally:
                connection.close()
            self.retries += 1
            time.sleep(0.1)


def _delta(rng: random.Random, session: Session, number: int) -> dict[str, Any]:
    jobs = session.instance.jobs
    job = rng.choice(jobs)
    what = rng.randrange(5)
    if what == 0:
        return {"op": "set_nodes", "nodes": [f"n{k}" for k in range(rng.randrange(10, 60))]}
    if what == 1:
        return {"op": "update_job", "job": {"id": job.id, "weight": rng.randrange(1, 9) / 2}}
    if what == 2 and len(jobs) > 4:
        return {"op": "remove_job", "id": job.id}
    if what == 3 and len(jobs) < 14:
        plain = json.loads(msgspec.json.encode(job))
        return {"op": "add_job", "job": {**plain, "id": f"new-{number}", "current_nodes": []}}
    return {"op": "set_fields", "fields": {"horizon_s": float(rng.randrange(60, 600))}}


def _resident(pid: int) -> int:
    """Return the resident bytes of a process, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def soak(folder: Path, seconds: float, clients: int, kill_every: float, pace_s: float) -> dict[str, Any]:
    """Run clients against a service that is killed again and again, and return what came of it."""
    rng = random.Random(17)
    stop = threading.Event()
    running = Service(folder, "--workers", "2", "--log", "warning")
    callers = [Client(f"c{k}", running.socket, k, pace_s, stop) for k in range(clients)]
    threads = [threading.Thread(target=caller.run) for caller in callers]
    for thread in threads:
        thread.start()
    memory: list[tuple[int, int]] = []
    killed = {"workers": 0, "services": 0}
    died: list[str] = []
    end, next_kill = time.monotonic() + seconds, time.monotonic() + kill_every / 2
    while time.monotonic() < end:
        time.sleep(min(1.0, kill_every / 4))
        if running.process.poll() is not None:
            told = (folder / "log").read_text()[-2000:]
            died.append(f"the service ended by itself with code {running.process.returncode}: {told}")
            running = Service(folder, "--workers", "2", "--log", "warning")
        if time.monotonic() < next_kill:
            continue
        next_kill += kill_every / 2
        workers = running.workers()
        if killed["workers"] <= killed["services"] and workers:
            os.kill(rng.choice(workers), signal.SIGKILL)
            killed["workers"] += 1
        else:
            memory.append((_resident(running.process.pid), max(map(_resident, workers), default=0)))
            running.kill()
            killed["services"] += 1
            running = Service(folder, "--workers", "2", "--log", "warning")
    stop.set()
    for thread in threads:
        thread.join(120)
    running.end()
    problems = died + [problem for caller in callers for problem in caller.problems]
    return {
        **_judged(folder, callers, problems, rng),
        "killed": killed,
        "memory": memory,
        "problems": problems,
    }


def _judged(folder: Path, callers: list[Client], problems: list[str], rng: random.Random) -> dict[str, Any]:
    with History(record_file(folder / "record")) as history:
        problems += history.problems()
        for caller in callers:
            entries = history.entries(session=caller.name)
            recorded = [entry.id for entry in entries]
            if recorded != caller.decided:
                lost, more = set(caller.decided) - set(recorded), set(recorded) - set(caller.decided)
                problems.append(f"{caller.name}: lost {sorted(lost)}, doubled or untold {sorted(more)}")
            if history.instance(caller.name, caller.changes) != caller.session.instance:
                problems.append(f"{caller.name}: the instance on record is another one")
            sample = rng.sample(entries, min(50, len(entries)))
            problems += [f"{bad.entry.id}: {bad.failures}" for bad in check(history, sample) if not bad.ok]
    waits = sorted(second for caller in callers for second in caller.seconds)
    return {
        "decisions": sum(len(caller.decided) for caller in callers),
        "changes": sum(caller.changes for caller in callers),
        "compared_with_cold": sum(caller.compared for caller in callers),
        "late": sum(caller.late for caller in callers),
        "retries": sum(caller.retries for caller in callers),
        "median_s": round(statistics.median(waits), 4),
        "p99_s": round(waits[int(0.99 * (len(waits) - 1))], 4),
        "record_bytes": record_file(folder / "record").stat().st_size,
    }


def grown(memory: list[tuple[int, int]]) -> float:
    """Return by what factor the service is larger in the last third of its lives than in the first."""
    third = max(1, len(memory) // 3)
    first = statistics.median(service for service, _ in memory[:third])
    return statistics.median(service for service, _ in memory[-third:]) / first


def main() -> int:
    """Soak as the options say, print what came of it, and return 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--kill-every", type=float, default=60.0)
    parser.add_argument(
        "--pace", type=float, default=0.5, help="longest pause of a client between requests, s"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        told = soak(Path(folder), asked.seconds, asked.clients, asked.kill_every, asked.pace)
    memory = told.pop("memory")
    told["service_mib"] = [round(service / 2**20) for service, _ in memory]
    told["worker_mib"] = [round(worker / 2**20) for _, worker in memory]
    told["memory_grown"] = round(grown(memory), 3) if memory else None
    print(json.dumps(told, indent=1))
    return 1 if told["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
