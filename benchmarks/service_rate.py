"""Decisions a second through the socket of ``apportion serve``, beside the same decisions in process.

``python -m benchmarks.service_rate [--decisions N] [--clients N] [--core K]``: 20 jobs x 200 nodes, the
capacity changed every time, one worker; one client, then several at once, then several at a hundred decisions
a second. Reported are CPU seconds of everybody (client, service, worker), because wall-clock figures of a
shared machine say little; ``--core`` keeps all of them on one core.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from apportion.instances.gap_filling.generator import generate
from apportion.service.session import Session

__all__ = ["main"]

_AMOUNTS = (200, 180, 190, 150, 170, 195, 160, 140)
_PACE = 100.0
"""Decisions a second at half load."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(os.fspath(self._path))

    def ask(self, path: str, body: Any) -> Any:
        self.request("POST", path, json.dumps(body))
        response = self.getresponse()
        content = response.read()
        if response.status >= 300:
            raise RuntimeError(content[:500].decode())
        return msgspec.json.decode(content)


@dataclass
class _Load:
    """What came of some decisions: how many, seconds by the clock, CPU seconds by part, waits of callers."""

    count: int
    wall_s: float
    client_s: float
    service_s: float
    worker_s: float
    waits_s: list[float]

    def __str__(self) -> str:
        each = 1e3 / self.count
        total = self.client_s + self.service_s + self.worker_s
        waits = sorted(self.waits_s)
        return (
            f"{each * total:.2f} ms CPU each (client {each * self.client_s:.2f}, "
            f"service {each * self.service_s:.2f}, worker {each * self.worker_s:.2f}): "
            f"{self.count / total:.0f} a CPU second; {self.count / self.wall_s:.0f} a second by the clock; "
            f"waits: median {1e3 * statistics.median(waits):.1f} ms, "
            f"p99 {1e3 * waits[int(0.99 * (len(waits) - 1))]:.1f} ms"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=400)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--core", type=int, default=None, help="keep client, service and worker on this core")
    asked = parser.parse_args()
    count = asked.decisions
    if asked.core is not None:
        os.sched_setaffinity(0, {asked.core})
    instance = generate(seed=1, jobs=20, nodes=200)
    alone_cpu, alone_s = _in_process(instance, count)
    each = 1e3 / count
    print(f"{count} decisions of 20 jobs x 200 nodes, other idle nodes every time")
    print(f"in process: {each * alone_cpu:.2f} ms CPU, {each * alone_s:.2f} ms by the clock each")
    with _service() as (pid, path):
        connections = [_Connection(path) for _ in range(asked.clients)]
        for number, connection in enumerate(connections):
            connection.ask("/sessions", {"name": f"b{number}", "instance": msgspec.to_builtins(instance)})
        _loaded(pid, connections, instance.nodes, 20 * asked.clients, 0.0)
        one = _loaded(pid, connections[:1], instance.nodes, count, 0.0)
        several = _loaded(pid, connections, instance.nodes, count, 0.0)
        paced = _loaded(pid, connections, instance.nodes, count, asked.clients / _PACE)
        for connection in connections:
            connection.close()
    print(f"one client: {one}")
    print(f"{asked.clients} clients: {several}")
    print(f"{asked.clients} clients, {_PACE:.0f} a second: {paced}")
    total = one.client_s + one.service_s + one.worker_s
    print(f"one client beside in process: {total / alone_cpu:.2f} times the CPU")


@contextmanager
def _service() -> Iterator[tuple[int, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        path = Path(folder) / "s.sock"
        words = [sys.executable, "-m", "apportion", "serve", "--socket", str(path), "--workers", "1"]
        process = subprocess.Popen(
            [*words, "--record", f"{folder}/record", "--log", "warning"], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid, path
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def _in_process(instance: Any, count: int) -> tuple[float, float]:
    session = Session(instance)
    for k in range(20):
        session.set_nodes(_idle(instance.nodes, k))
        session.decide()
    cpu, began = time.process_time(), time.perf_counter()
    for k in range(count):
        session.set_nodes(_idle(instance.nodes, k))
        session.decide()
    return time.process_time() - cpu, time.perf_counter() - began


def _loaded(
    pid: int, connections: list[_Connection], nodes: Sequence[str], count: int, pause_s: float
) -> _Load:
    """Ask for decisions, each client in a thread of its own and every `pause_s`, or as soon as answered."""
    waits: list[float] = []
    share = count // len(connections)
    threads = [
        threading.Thread(target=_asked, args=(connection, nodes, number, share, pause_s, waits))
        for number, connection in enumerate(connections)
    ]
    served, worked = _cpu(pid)
    began, mine = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, client = time.perf_counter() - began, time.process_time() - mine
    service, worker = _cpu(pid)
    return _Load(len(waits), wall, client, service - served, worker - worked, waits)


def _idle(nodes: Sequence[str], k: int) -> list[str]:
    """Return the nodes that are idle at the k-th decision."""
    return [*nodes[: _AMOUNTS[k % 8]]]


def _asked(
    connection: _Connection,
    nodes: Sequence[str],
    number: int,
    count: int,
    pause_s: float,
    waits: list[float],
) -> None:
    due = time.perf_counter() + number * pause_s / 7
    for k in range(count):
        due += pause_s
        time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        delta = {"op": "set_nodes", "nodes": _idle(nodes, k)}
        connection.ask(f"/sessions/b{number}/decisions", {"deltas": [delta]})
        waits.append(time.perf_counter() - began)


def _cpu(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a service, and of its workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return _own_cpu(pid), sum(_own_cpu(int(each)) for each in children)


def _own_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
