"""A scheduler's loop in Python: tell the service what changed, get a plan, carry it out, again.

``python examples/callers/loop.py SOCKET INSTANCE [ROUNDS]``, with ``apportion serve --socket SOCKET``
running. Only the standard library is used, as a caller in another project would.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import sys
import time
from pathlib import Path
from typing import Any


class Service(http.client.HTTPConnection):
    """HTTP over the service's Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=120)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def ask(self, path: str, body: Any) -> Any:
        """Return the answer to a request; its id makes it harmless to ask again.

        Ends the program where nothing answers for half a minute: the socket is wrong, or the service is gone.
        """
        end = time.monotonic() + 30
        while True:
            try:
                self.request("POST", path, json.dumps(body))
                response = self.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:  # the service is being started again
                self.close()
                if time.monotonic() > end:
                    raise SystemExit(f"{self._path}: {error}") from None
                time.sleep(0.5)
                continue
            if response.status == 429:
                time.sleep(float(response.headers["Retry-After"]))
                continue
            if response.status >= 300:
                raise SystemExit(f"{path}: {answer['error']['message']}")
            return answer


def main() -> None:
    """Run some rounds in which nodes come and go, and print what every round changes."""
    path, file, rounds = sys.argv[1], Path(sys.argv[2]), int([*sys.argv, "5"][3])
    service, rng = Service(path), random.Random(1)
    instance = json.loads(file.read_text())
    name = f"loop-{time.time_ns()}"
    service.ask("/sessions", {"name": name, "instance": instance})
    nodes = instance["nodes"]
    for number in range(rounds):
        idle = rng.sample(nodes, rng.randint(len(nodes) // 2, len(nodes)))  # what the cluster says now
        deltas = [{"op": "set_nodes", "nodes": idle}]
        body = {"request": f"round-{number}", "deltas": deltas, "time_limit": 5}
        made = service.ask(f"/sessions/{name}/decisions", body)
        plan = made["result"]["plan"]
        held = {job: len(got) for job, got in plan["allocation"].items() if got}
        print(f"round {number}: {len(idle)} nodes, {made['result']['termination']}, {held}")
        carried_out = {"request": f"done-{number}", "deltas": [{"op": "adopt", "plan": plan}]}
        service.ask(f"/sessions/{name}/deltas", carried_out)


if __name__ == "__main__":
    main()
