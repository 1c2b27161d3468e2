"""A whole trainer in plain Python, to show the protocol: it imports nothing of apportion.

    apportion submit --min 1 --max 1 --samples 5000 -- python examples/trainers/minimal.py

It "trains" (here: it counts), saves a checkpoint every second and at SIGTERM, reports, and goes on from its
checkpoint. One rank does the work; others would meet it at APPORTION_RENDEZVOUS.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

STOPPED = 75
checkpoint = Path(os.environ["APPORTION_CHECKPOINT"]) / "samples.json"
goal = int(os.environ["APPORTION_SAMPLES"])
host, port = os.environ["APPORTION_REPORT"].rsplit(":", 1)
stop = False


def be_told_to_stop(number: int, frame: object) -> None:
    """Remember that SIGTERM came; the loop below looks between two steps."""
    global stop
    stop = True


def save(samples: int) -> int:
    """Write the checkpoint whole or not at all, and return what is safe now."""
    new = checkpoint.with_suffix(".new")
    new.write_text(json.dumps(samples))
    new.rename(checkpoint)
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
samples = durable = json.loads(checkpoint.read_text()) if checkpoint.exists() else 0
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
