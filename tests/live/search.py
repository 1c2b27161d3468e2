"""Every order of faults on two nodes and one job, to a depth: ``python -m tests.live.search --depth 6``.

The search begins where the job's first generation trains on one of two nodes and goes through every sequence
of moves on that node, level by level; a world that was met before, but for the time of day, the samples and
the numbers of what has ended, is not gone through again. What lies beyond a second generation is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from apportion.live.controller.core import Core, Limits
from tests.live.model.agents import Agent
from tests.live.model.moves import MOVES, fair, play
from tests.live.model.world import Broken, World

__all__ = ["Found", "begun", "main", "search"]

LIMITS = Limits(
    interval_s=1.0,
    gap_s=0.0,
    grace_s=2.0,
    overdue_s=1.0,
    lease_s=2.0,
    connect_s=4.0,
    pending_s=4.0,
    linger_s=3.0,
    hang_s=12.0,
    finish_s=4.0,
    failures=1_000_000,
)
"""Short times, so that a lease is over within the depth."""

FAULTS = (
    *("turn", "step", "listen", "to_agents", "to_controller", "lose", "flap", "cut", "heal", "mark_down"),
    *("main_takes", "main_returns", "forget", "remember", "block", "unblock", "freeze", "thaw", "kill_agent"),
)
STEPS = (
    *((name, 0) for name in FAULTS),
    *(("wait", 0), ("wait", 2), ("die", 1), ("die", 2)),
    *(("reboot", 3), ("slurm_answers", 0), ("slurm_answers", 1), ("slurm_answers", 2)),
)
"""What may happen next: waiting for one and three seconds, a death before and after the first action, a clock
an hour ahead, and Slurm that answers, is away, or whose answers are lost."""
_FAR_S = 20.0


class Found(Exception):
    """A sequence that breaks something."""


def begun() -> World:
    """Return a world in which a job of one rank trains on the first of two nodes."""
    world = World(("n0", "n1"), fair, LIMITS)
    world.submit("a", samples=1_000_000)
    for _ in range(4):
        play(world, ("turn", 0, 0))
    assert [agent.node for agent in world.agents.values() if agent.rank is not None] == ["n0"]
    return world


def key(world: World) -> bytes:
    """Return what tells a world from those that go on differently; times and samples count from now."""
    now_s, clock_s = world.now_s, world.clock_s
    saved = world.folders["a"].saved

    def ago(at_s: float | None, clock: float = clock_s) -> float | None:
        return None if at_s is None else min(max(at_s - clock, -_FAR_S), _FAR_S)

    def told(message: Any) -> object:
        samples = getattr(message, "samples", None)
        made = None if samples is None else samples - saved
        durable = getattr(message, "durable", None)
        parts = [getattr(message, name, None) for name in ("generation", "code", "asked", "done")]
        last = getattr(message, "last", None)
        kind = type(message).__name__
        return kind, made, durable and durable - saved, *parts, last and told(last)

    def agent(held: Agent) -> object:
        rank = held.rank and (held.rank.name, ago(held.rank.stop_s, now_s), held.rank.whole)
        ways = [told(message) for message in held.arriving], [told(m) for m in held.leaving_messages]
        books = sorted(held.exits), sorted(held.unconfirmed), sorted(held.never)
        lease = ago(held.leased_s, now_s), held.frozen, held.leaving, held.connection
        return held.pilot, rank, ways, books, lease

    state = world.disk
    jobs = [
        (
            *(job.state, job.generation, job.samples - saved, job.durable - saved, job.hung, job.failures),
            *(ago(job.heard_s), ago(job.changed_s), ago(job.not_before_s), job.done_rank, sorted(job.said)),
        )
        for job in state.jobs.values()
    ]
    pilots = [
        (
            *(held.pilot, held.node, held.hold, ago(held.since_s), held.handle, held.job),
            *(ago(held.free_s), ago(held.lost_s)),
        )
        for held in state.pilots.values()
        if held.live
    ]
    ranks = [
        (rank.generation, rank.pilot, rank.live, rank.code, rank.departed, ago(rank.ended_s))
        for rank in state.ranks.values()
    ]
    begun_ = world.begun and (
        [(pilot, told(message)) for pilot, message in world.begun.heard],
        sorted((pilot, seen.connection) for pilot, seen in world.begun.agents.items()),
        ago(world.begun.now_s),
    )
    slurm = [(listed.pilot, listed.node, listed.state, listed.forgotten) for listed in world.listed.values()]
    sets = [sorted(held) for held in (world.cut, world.down, world.main, world.blocked)]
    folder = world.folders["a"]
    found = (
        *(jobs, pilots, ranks, begun_, slurm, sets, world.away, sorted(world.expected)),
        *(folder.claimed, folder.made - saved, [agent(held) for held in world.agents.values() if held.alive]),
        sorted((pilot, seen.connection) for pilot, seen in world.seen.items()),
        [(pilot, told(message)) for pilot, message in world.inbox],
        [(came.action, came.handle) for came in world.outcomes],
        world.core and _remembered(world.core, ago),
    )
    return blake2b(repr(found).encode(), digest_size=16).digest()


def _remembered(core: Core, ago: Callable[[float | None], float | None]) -> object:
    memory = core.memory
    return (
        sorted(memory.connections.items()),
        sorted((pilot, said[:4], ago(said[4])) for pilot, said in memory.said.items()),
        sorted((handle, ago(at_s)) for handle, at_s in memory.released.items()),
        sorted((pilot, ago(at_s)) for pilot, at_s in memory.unheard.items()),
        *(ago(memory.decided_s), ago(memory.wake_s), memory.basis),
    )


def search(depth: int, moves: Sequence[tuple[str, int]] = STEPS) -> list[int]:
    """Go through every sequence of moves; return how many different worlds were met first at every depth.

    Raises
    ------
    Found
        With the first sequence that breaks something.
    """
    start = begun()
    met = {key(start)}
    level: list[tuple[World, tuple[tuple[str, int], ...]]] = [(start, ())]
    counts = [1]
    for at in range(depth):
        next_level = []
        for world, path in level:
            for name, number in moves:
                after = world.copy()
                try:
                    MOVES[name](after, after.nodes[0], number)
                    after.check()
                except Broken as error:
                    raise Found(f"{error}: {[*path, (name, number)]}") from None
                mark = key(after)
                if mark in met:
                    continue
                met.add(mark)
                if at + 1 < depth and after.disk.jobs[1].generation <= 2:
                    next_level.append((after, (*path, (name, number))))
        counts.append(len(met))
        level = next_level
    return [counts[0], *(later - earlier for earlier, later in pairwise(counts))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Search and print the counts; return 1 if anything broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.search", description=__doc__)
    parser.add_argument("--depth", type=int, default=4)
    given = parser.parse_args(arguments)
    try:
        counts = search(given.depth)
    except Found as error:
        print(f"broken: {error}")
        return 1
    print(f"depth {given.depth}, {len(STEPS)} moves, {sum(counts)} states: {counts} by depth")
    print(f"nothing broken; {time.process_time():.0f} CPU s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
