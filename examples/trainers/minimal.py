"""A whole trainer in plain Python, to show the protocol: it imports nothing of apportion.

    apportion submit --min 1 --max 1 --samples 5000 -- python examples/trainers/minimal.py

It "trains" (here: it counts), saves a checkpoint every second and at SIGTERM, reports, and goes on from its
checkpoint, a file for every start of the job. One rank does the work; others would meet it at
APPORTION_RENDEZVOUS.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

STOPPED = 75
folder = Path(os.environ["APPORTION_CHECKPOINT"])
generation = int(os.environ["APPORTION_GENERATION"])
goal = int(os.environ["APPORTION_SAMPLES"])
host, port = os.environ["APPORTION_REPORT"].rsplit(":", 1)
stop = False


def be_told_to_stop(number: int, frame: object) -> None:
    """Remember that SIGTERM came; the loop below looks between two steps."""
    global stop
    stop = True


def restore() -> int:
    """Return what the newest checkpoint holds: that of the latest start that saved any."""
    saved = sorted(folder.glob("samples-*.json"))
    return json.loads(saved[-1].read_text()) if saved else 0


def save(samples: int) -> int:
    """Write the checkpoint whole or not at all, and return what is safe; end if a later start has begun."""
    new = folder / f".samples-{generation:010d}.new"
    new.write_text(json.dumps(samples))
    if any(int(path.name.rpartition("-")[2]) > generation for path in folder.glob(".generation-*")):
        new.unlink()
        sys.exit(STOPPED)
    new.rename(folder / f"samples-{generation:010d}.json")
    for older in sorted(folder.glob("samples-*.json"))[:-2]:
        older.unlink(missing_ok=True)
    return samples


def report(samples: int, durable: int, done: bool = False) -> None:
    """Say one line to the agent on this node."""
    line = {
        "token": os.environ["APPORTION_REPORT_TOKEN"],
        "samples": samples,
        "durable": durable,
        "done": done,
    }
    with socket.create_connection((host, int(port)), timeout=1) as agent:
        agent.sendall(json.dumps(line).encode() + b"\n")


signal.signal(signal.SIGTERM, be_told_to_stop)
samples = durable = restore()
report(samples, durable)
said = time.monotonic()
while samples < goal and not stop:
    time.sleep(0.01)
    samples = min(samples + 10, goal)
    if time.monotonic() - said > 1.0:
        durable = save(samples)
        report(samples, durable)
        said = time.monotonic()
durable = save(samples)
report(samples, durable, done=samples >= goal)
sys.exit(0 if samples >= goal else STOPPED)
