"""Decisions a second through the socket of ``apportion serve``, beside the same decisions in process.

``python -m benchmarks.service_rate [--decisions N]``: 20 jobs x 200 nodes, the capacity changed every time,
one client, one worker. Reported are CPU seconds of everybody (client, service, worker), because wall-clock
figures of a shared machine say little; at half the rate that was reached, how long callers wait.
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
import time
from pathlib import Path
from typing import Any

import msgspec

from apportion.instances.gap_filling.generator import generate
from apportion.session.session import Session

__all__ = ["main"]

_AMOUNTS = (200, 180, 190, 150, 170, 195, 160, 140)


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=400)
    count = parser.parse_args().decisions
    instance = generate(seed=1, jobs=20, nodes=200)
    alone_cpu, alone_s = _in_process(instance, count)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        path = Path(folder) / "s.sock"
        words = [sys.executable, "-m", "apportion", "serve", "--socket", str(path), "--workers", "1"]
        process = subprocess.Popen(
            [*words, "--record", f"{folder}/record", "--log", "warning"], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        connection = _Connection(path)
        connection.ask("/sessions", {"name": "b", "instance": msgspec.to_builtins(instance)})
        _asked(connection, 20, 0.0)
        before = _cpu(process.pid)
        began, mine = time.perf_counter(), time.process_time()
        waits = _asked(connection, count, 0.0)
        wall, client = time.perf_counter() - began, time.process_time() - mine
        served = _cpu(process.pid) - before
        pause = 2 * wall / count
        paced = _asked(connection, count // 2, pause)
        connection.close()
        process.terminate()
        process.wait()
        process.stdout.close()
    total, each = served + client, 1e3 / count
    rows = [
        f"{count} decisions of 20 jobs x 200 nodes, another capacity every time, one client",
        f"in process      {each * alone_cpu:7.2f} ms CPU {each * alone_s:7.2f} ms wall each",
        f"through socket  {each * total:7.2f} ms CPU {each * wall:7.2f} ms wall each",
        f"of which client {each * client:7.2f} ms CPU",
        f"ratio {total / alone_cpu:.2f} in CPU; {count / total:.0f} decisions a second of one core",
        f"by the clock {count / wall:.0f} a second; {_spread('full load', waits)}",
        _spread("half load", paced),
    ]
    print("\n".join(rows))


def _spread(name: str, waits: list[float]) -> str:
    last = sorted(waits)[int(0.99 * (len(waits) - 1))]
    return f"{name}: median {1e3 * statistics.median(waits):.1f} ms, p99 {1e3 * last:.1f} ms"


def _in_process(instance: Any, count: int) -> tuple[float, float]:
    session = Session(instance)
    for k in range(20):
        session.set_capacity("idle_nodes", _AMOUNTS[k % 8])
        session.decide()
    cpu, began = time.process_time(), time.perf_counter()
    for k in range(count):
        session.set_capacity("idle_nodes", _AMOUNTS[k % 8])
        session.decide()
    return time.process_time() - cpu, time.perf_counter() - began


def _asked(connection: _Connection, count: int, pause_s: float) -> list[float]:
    waits = []
    due = time.perf_counter()
    for k in range(count):
        due += pause_s
        time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        delta = {"op": "set_capacity", "name": "idle_nodes", "amount": _AMOUNTS[k % 8]}
        connection.ask("/sessions/b/decisions", {"deltas": [delta]})
        waits.append(time.perf_counter() - began)
    return waits


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a service and its workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(_own_cpu(int(each)) for each in (pid, *children))


def _own_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
