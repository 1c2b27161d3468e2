"""Random faults on a real Slurm: ``python -m tests.live_slurm.sequences --count 1000 --seed 1``.

Every sequence starts a controller and two jobs on a cluster, lets a few faults happen at random moments, one
of them always a death of the controller, mends everything, and waits for the end: both jobs must be done with
exactly their samples, nothing may be left behind, and a witness that looks again and again must never have
seen two ranks on a node or two generations of a job. Most of a sequence is waiting: ``--side-by-side`` plays
many at once, each process with a cluster of its own. Clocks cannot be set for a part of a machine, and no
node is cut off from its network here; `tests.live.sequences` plays that on the model.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from paper_repro.malletrain.one_machine import missing_programs

from tests.live_slurm.playing import Played, play_all

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play sequences; return 1 if any broke, 2 where there is no Slurm."""
    parser = argparse.ArgumentParser(prog="python -m tests.live_slurm.sequences", description=__doc__)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side-by-side", type=int, default=1, metavar="K", help="so many clusters at once")
    parser.add_argument("--nodes", type=int, default=8, help="of every cluster")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more after so long")
    parser.add_argument("--most-broken", type=int, default=5, help="begin no more after so many")
    parser.add_argument(
        "--keep", type=Path, default=Path("broken-sequences"), help="folder for what broken ones leave"
    )
    given = parser.parse_args(arguments)
    if missing := missing_programs():
        told = f"no Slurm on this machine ({', '.join(missing)} missing): bash .ci/slurm installs it"
        print(told, file=sys.stderr)
        return 2
    began = time.monotonic()
    played = _played(given)
    broken = sum(one.broken is not None for one in played)
    counts = Counter(fault for one in played for fault in one.faults)
    each = sum(one.seconds for one in played) / max(len(played), 1)
    seconds = f"{time.monotonic() - began:.0f} s, {each:.0f} s each on {given.side_by_side} clusters"
    told = f"{counts.total()} faults, {broken} broken, {sum(one.looks for one in played)} looks, {seconds}"
    print(f"{len(played)} sequences from seed {given.seed}, {told}")
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if broken else 0


def _played(given: argparse.Namespace) -> list[Played]:
    """Hand out numbers to processes until all are played, or time or patience is over."""
    context = multiprocessing.get_context("spawn")
    numbers, told = context.SimpleQueue(), context.SimpleQueue()
    arguments = given.seed, given.nodes, given.keep, numbers, told
    workers = [context.Process(target=play_all, args=arguments) for _ in range(given.side_by_side)]
    for worker in workers:
        worker.start()
    end, given_out, left, played, broken = time.monotonic() + given.seconds, 0, len(workers), [], 0
    for _ in workers:
        numbers.put(given_out if given_out < given.count else None)
        given_out += 1
    try:
        while left:
            one = told.get()
            if one is None:
                left -= 1
                continue
            played.append(one)
            if one.broken is not None:
                broken += 1
                print(f"sequence {one.number}, {list(one.faults)}: {one.broken}", file=sys.stderr, flush=True)
            more = given_out < given.count and time.monotonic() < end and broken < given.most_broken
            numbers.put(given_out if more else None)
            given_out += more
            _progress(played, broken)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
    return played


def _progress(played: Sequence[Played], broken: int) -> None:
    if len(played) % 10 == 0:
        print(f"{len(played)} played, {broken} broken", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
