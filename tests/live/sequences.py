"""Random faults on the controller's step: ``python -m tests.live.sequences --count 100000 --seed 1``.

Every sequence begins with two jobs that train, on three whole nodes or (every other sequence) on GPUs of two
nodes of unlike types with two each; it takes some thirty moves of `tests.live.model.moves`, and ends with all
faults healed: then every job must end and every pilot with it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.live.model.moves import Move, draw, fair, play
from tests.live.model.world import Broken, World

__all__ = ["begun", "main", "play_all"]

NODES = ("n0", "n1", "n2")


def begun(gpus: int = 0) -> World:
    """Return a world in which two jobs train, on whole nodes or on GPUs of two nodes of unlike types."""
    if gpus:
        world = World(NODES[:2], fair, gpus=gpus, types=("x", "y"))
        world.submit("a", samples=400, most=2)
        world.submit("b", samples=300, most=2, cpus=3, on="y")
    else:
        world = World(NODES, fair)
        world.submit("a", samples=400)
        world.submit("b", samples=300, most=2)
    for _ in range(6):
        play(world, ("turn", 0, 0))
    return world


def play_all(world: World, moves: Sequence[Move]) -> None:
    """Play a sequence to its end.

    Raises
    ------
    Broken
        If something happened that must never happen.
    """
    for move in moves:
        play(world, move)
    world.planner = fair
    world.run_to_the_end()


def shortened(moves: list[Move], gpus: int = 0) -> list[Move]:
    """Return a sequence that breaks as well, from which no move can be left out."""
    index = 0
    while index < len(moves):
        fewer = moves[:index] + moves[index + 1 :]
        try:
            play_all(begun(gpus), fewer)
        except Broken:
            moves = fewer
        else:
            index += 1
    return moves


def main(arguments: Sequence[str] | None = None) -> int:
    """Play sequences; return 1 if any broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.sequences", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=int, default=30)
    given = parser.parse_args(arguments)
    starts, counts = (begun(), begun(gpus=2)), Counter[str]()
    broken = steps = 0
    for number in range(given.count):
        moves = draw(random.Random(f"{given.seed} {number}"), given.length)
        counts.update(name for name, _, _ in moves)
        world = starts[number % 2].copy()
        try:
            play_all(world, moves)
        except Broken as error:
            broken += 1
            print(f"sequence {number}: {error}: {shortened(moves, world.gpus)}", file=sys.stderr, flush=True)
            if broken >= 5:
                break
        steps += world.steps
    print(
        f"{given.count} sequences from seed {given.seed}, {counts.total()} moves, {steps} steps, "
        f"{broken} broken, {time.process_time():.0f} CPU s"
    )
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
