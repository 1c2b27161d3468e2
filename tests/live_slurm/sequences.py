"""Random faults on a real Slurm: ``python -m tests.live_slurm.sequences --count 1000 --seed 1``.

Every sequence starts a controller and two jobs on a cluster, lets a few faults happen at random moments, one
of them always a death of the controller, mends everything, and waits for the end: both jobs must be done with
exactly their samples, nothing may be left behind, and a witness that looks again and again must never have
seen two ranks on a node or two generations of a job. Most of a sequence is waiting: ``--side-by-side`` plays
many at once, each process with a cluster of its own.

In two of five sequences jobs last a minute, and partitions and frozen processes longer than lease, grace and
margin together; what came of that is counted at the end.

Processes die or freeze, nodes are cut off from the controller, in one direction or both, or from Slurm as
well, messages are late, connections break, and wall clocks jump by an hour, the controller's or the nodes'
(`tests.live_slurm.machines`; that needs a C compiler, and where there is none it is said and left out).
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from paper_repro.malletrain.one_machine import missing_programs

from tests.live_slurm.machines import wall_clock
from tests.live_slurm.playing import Played, play_all
from tests.live_slurm.watching import Witness

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
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # what was played is told all the same
    began, played = time.monotonic(), list[Played]()
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as base:
        witness = Witness(Path(base), depth=2)
        witness.begin()
        try:
            with suppress(KeyboardInterrupt, SystemExit):
                _play(given, Path(base), witness, played)
        finally:
            witness.end()
    broken = sum(one.broken is not None for one in played)
    counts = Counter(fault for one in played for fault in one.course.faults)
    each = sum(one.seconds for one in played) / max(len(played), 1)
    seconds = f"{time.monotonic() - began:.0f} s, {each:.0f} s each on {given.side_by_side} clusters"
    long = sum(one.course.long for one in played)
    told = f"{long} of them long, {counts.total()} faults, {broken} broken, {witness.looks} looks, {seconds}"
    print(f"{len(played)} sequences from seed {given.seed}, {told}")
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    met = sum((Counter(one.met) for one in played), Counter[str]())
    print(f"met: {', '.join(f'{name} {count}' for name, count in sorted(met.items()))}")
    return 1 if broken else 0


def _play(given: argparse.Namespace, base: Path, witness: Witness, played: list[Played]) -> None:
    """Hand out numbers to processes until all are played, or time or patience is over."""
    if (library := wall_clock(base)) is None:
        print("no cc that compiles: no clock jumps here; bash .ci/slurm installs it", file=sys.stderr)
    context = multiprocessing.get_context("spawn")
    numbers, told = context.SimpleQueue(), context.SimpleQueue()
    workers = []
    for at in range(given.side_by_side):
        (own := base / f"w{at}").mkdir()
        arguments = given.seed, given.nodes, own, given.keep, library, numbers, told
        workers.append(context.Process(target=play_all, args=arguments))
        workers[-1].start()
        numbers.put(at if at < given.count else None)
    end, handed_out, left = time.monotonic() + given.seconds, len(workers), len(workers)
    try:
        while left:
            one = told.get()
            if one is None:
                left -= 1
                continue
            if wrong := witness.wrong_at(one.site):
                one = replace(one, broken=f"{one.broken or ''}\n{wrong[:5]}")
            played.append(one)
            broken = sum(each.broken is not None for each in played)
            if one.broken is not None:
                print(f"sequence {one.number}, {one.course}: {one.broken}", file=sys.stderr, flush=True)
            more = handed_out < given.count and time.monotonic() < end and broken < given.most_broken
            numbers.put(handed_out if more else None)
            handed_out += more
            if len(played) % 10 == 0:
                print(f"{len(played)} played, {broken} broken", file=sys.stderr, flush=True)
    finally:
        for worker in workers if left else []:
            worker.terminate()
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    raise SystemExit(main())
