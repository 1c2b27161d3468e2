"""Write this folder's Slurm log and backlog again: ``python examples/slurm_log/make.py [FOLDER]``.

A machine of 64 nodes serves a made-up queue strictly first come, first served: when the first job does not
fit, all wait and nodes stay idle. Nothing of it was recorded anywhere.
"""

from __future__ import annotations

import heapq
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

NODES = 64
DAYS = 3
BEGIN = datetime(2026, 3, 2, 8, 0, 0)
STATES = ("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT")
NETWORKS = ("AlexNet", "ResNet18", "MnasNet1", "MobileNet", "ShuffleNet", "VGG16", "DenseNet")


def sacct(seed: int = 7) -> str:
    """Return what ``sacct -P -X --format=JobID,Start,End,NNodes,State`` would print."""
    draw = random.Random(seed)
    lines = ["JobID|Start|End|NNodes|State"]
    running: list[tuple[float, int]] = []
    free, now_s, submitted_s, number = NODES, 0.0, 0.0, 4711
    while submitted_s < DAYS * 86_400:
        submitted_s += draw.expovariate(1 / 900)
        wanted = min(NODES, 2 ** draw.choice((0, 0, 1, 2, 3, 3, 4, 4, 5)))
        lasts_s = min(draw.lognormvariate(8.3, 1.0), 12 * 3600)
        now_s = max(now_s, submitted_s)
        while running and (running[0][0] <= now_s or free < wanted):
            end_s, given_back = heapq.heappop(running)
            free += given_back
            now_s = max(now_s, end_s)
        free -= wanted
        number += draw.randint(1, 3)
        begins_s, ends_s = round(now_s), round(now_s + lasts_s)
        heapq.heappush(running, (float(ends_s), wanted))
        if begins_s >= DAYS * 86_400:
            break
        over = ends_s > DAYS * 86_400
        state = "RUNNING" if over else draw.choice(STATES)
        lines.append(f"{number}|{_clock(begins_s)}|{'Unknown' if over else _clock(ends_s)}|{wanted}|{state}")
    return "\n".join(lines) + "\n"


def backlog(jobs: int = 40) -> str:
    """Return a table of malleable training jobs that wait from the beginning."""
    lines = [",Tcup,Tcdw,Jmin,Jmax,Pmax,tsub_s"]
    for job in range(jobs):
        lines.append(f"J{job:03d}-{NETWORKS[job % len(NETWORKS)]},18,12,1,32,120000000,0")
    return "\n".join(lines) + "\n"


def _clock(seconds: int) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


FILES = {"sacct.txt": sacct, "backlog.csv": backlog}


def main() -> None:
    """Write both files into the folder given, or this one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    for name, make in FILES.items():
        (folder / name).write_text(make(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
