"""Trainers that misbehave: ``python odd_trainers.py MODE [ARGUMENTS of the NumPy trainer]``.

hang-once: the first start makes no progress and is deaf to SIGTERM; later ones train.
liar: claims a thousand times its speed, and samples that jump.
flood: reports as fast as it can, garbage among it, while it trains.
slow-stop: takes two seconds to react to SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from apportion.live.trainer_protocol import Assignment, Reporter, StopSignal
from apportion.live.trainers import numpy_mlp


class SlowStop(StopSignal):
    def _come(self, number: int, frame: object) -> None:
        time.sleep(2.0)
        super()._come(number, frame)


def _hang_once(assignment: Assignment) -> None:
    mark = assignment.checkpoint / "hung"
    if mark.exists():
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if assignment.rank == 0:
        Reporter(assignment).say(0, durable=0)
        time.sleep(1.0)
        mark.touch()
    while True:
        time.sleep(60)


def _lie(assignment: Assignment) -> None:
    """Another voice of rank 0, which tells of wonders."""
    reporter, samples = Reporter(assignment), 0
    while True:
        samples += 50_000
        reporter.say(samples, rate=1e12, durable=0)
        time.sleep(0.3)


def _flood(assignment: Assignment) -> None:
    reporter = Reporter(assignment)
    while True:
        for _ in range(50):
            reporter.say(0, rate=0.0)
        if reporter._socket is not None:
            try:
                reporter._socket.sendall(b"\x00garbage\n" * 50 + b'{"token":')
            except OSError:
                reporter.close()


def main() -> int:
    mode, arguments = sys.argv[1], sys.argv[2:]
    assignment = Assignment.from_environment()
    if mode == "hang-once":
        _hang_once(assignment)
    elif mode in ("liar", "flood") and assignment.rank == 0:
        threading.Thread(target=_lie if mode == "liar" else _flood, args=(assignment,), daemon=True).start()
    if mode == "slow-stop":
        numpy_mlp.StopSignal = SlowStop  # type: ignore[misc]
    return numpy_mlp.main(arguments)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)


HERE = Path(__file__)
