"""Gang jobs on pools: how many least makespans are proven, beside PyJobShop's model on CP-SAT alone.

    python -m benchmarks.gang_schedules [--jobs N] [--seeds N] [--seconds S]

Instances are those of `generate_cluster`: two pools of 8, or three of 8, 8 and 4, a share of 0.3 or of 0.6 of
the jobs gangs of 2, 4 and 8 GPUs. Every solver has the same seconds on one thread, building included.
"""

from __future__ import annotations

import argparse
import itertools

import apportion
from apportion.core.outcome import Termination
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.generator import generate_cluster
from benchmarks.peers.pyjobshop_peer import solve as alone
from benchmarks.peers.task import Limits, Task
from benchmarks.timing import provenance

POOLS = ({"a": 8, "b": 8}, {"k80": 8, "p100": 8, "v100": 4})
WIDE = (0.3, 0.6)


def ours(instance: MatchingInstance, seconds: float) -> tuple[Termination, float | None, float | None]:
    """Return how our own call ended, its makespan and its bound."""
    found = apportion.solve(instance, time_limit=seconds)
    return found.termination, found.objective, found.bound


def peer(instance: MatchingInstance, seconds: float) -> tuple[Termination, float | None, float | None]:
    """Return the same of the peer."""
    found = alone(Task(instance), Limits(seconds, 0.0, 1, 0))
    return found.termination, found.objective, found.bound


def main() -> None:
    """Print a line an instance, and how many were proven."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    print(provenance("ortools", "pyjobshop"), f"{given.seconds} s each")
    warm = generate_cluster(99, 4, POOLS[0])
    solvers = {"ours": ours, "CP-SAT alone": peer}
    proven = dict.fromkeys(solvers, 0)
    best = dict.fromkeys(solvers, 0)
    for solver in solvers.values():
        solver(warm, given.seconds)
    drawn = list(itertools.product(POOLS, WIDE, range(given.seeds)))
    for pools, wide, seed in drawn:
        instance = generate_cluster(seed, given.jobs, pools, wide=wide)
        told = {name: solver(instance, given.seconds) for name, solver in solvers.items()}
        least = min(value for _, value, _ in told.values() if value is not None)
        row = f"{len(pools)} pools, gangs {wide}, seed {seed}:"
        for name, (ended, value, bound) in told.items():
            proven[name] += ended is Termination.OPTIMAL
            best[name] += value is not None and value <= least * (1 + 1e-9)
            row += f"  {name} {value or 0:.1f} >= {bound or 0:.1f} {ended}"
        print(row, flush=True)
    for name in solvers:
        print(f"{name}: {proven[name]} of {len(drawn)} proven, none better on {best[name]}")


if __name__ == "__main__":
    main()
