"""Seeded matchings: unrelated machines and generalised assignment as in the literature, pools of GPUs."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import one_of
from apportion.instances.matching.schema import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

__all__ = ["generate_assignment", "generate_cluster", "generate_unrelated"]


def generate_unrelated(
    seed: int,
    jobs: int,
    machines: int,
    low: int = 1,
    high: int = 100,
    correlated: Literal["no", "jobs", "machines"] = "no",
) -> MatchingInstance:
    """Generate R||Cmax after Fanjul-Peyro and Ruiz (EJOR 207, 2010).

    Times are whole and uniform in `low` to `high`; correlated, a base in that range per job (or machine)
    plus a uniform 0 to 20.
    """
    rng = np.random.default_rng(seed)
    shapes = {"no": (jobs, machines), "jobs": (jobs, 1), "machines": (1, machines)}
    one_of("correlated", correlated, shapes)
    times = np.broadcast_to(rng.integers(low, high + 1, shapes[correlated]), (jobs, machines)).copy()
    if correlated != "no":
        times += rng.integers(0, 21, (jobs, machines))
    return _instance("makespan", times, None, None, f"unrelated_{jobs}x{machines}_{seed}")


def generate_assignment(
    seed: int, jobs: int, machines: int, law: Literal["a", "b", "c", "d", "e"] = "c"
) -> MatchingInstance:
    """Generate generalised assignment after Chu and Beasley (Computers & Operations Research 24, 1997).

    Uses are in 5 to 25 and costs in 10 to 50 (laws a to c); law d has uses in 1 to 100 and costs of
    111 - use + (-10 to 10), law e (Yagiura, Ibaraki, Glover, INFORMS Journal on Computing 16, 2004) uses of
    1 - 10 ln u and costs of 1000 / use - 10 u. A capacity is 0.8 of the mean load (c, d, e), 0.7 of a looser
    one (b), or 0.6 of the mean load plus 0.4 of the largest under cheapest placement (a).
    """
    rng = np.random.default_rng(seed)
    if law == "d":
        uses = rng.integers(1, 101, (jobs, machines))
        costs = 111 - uses + rng.integers(-10, 11, (jobs, machines))
    elif law == "e":
        uses = np.rint(1 - 10 * np.log(1 - rng.random((jobs, machines)))).astype(np.int64)
        costs = np.rint(1000 / uses - 10 * rng.random((jobs, machines))).astype(np.int64)
    else:
        one_of("law", law, ("a", "b", "c", "d", "e"))
        uses = rng.integers(5, 26, (jobs, machines))
        costs = rng.integers(10, 51, (jobs, machines))
    room = 0.8 * uses.sum(axis=0) / machines
    if law in ("a", "b"):
        cheapest = np.argmin(costs, axis=1)
        load = np.bincount(cheapest, weights=uses[np.arange(jobs), cheapest], minlength=machines)
        room = 0.6 * 15.0 * jobs / machines + 0.4 * load.max()
        room = np.full(machines, room if law == "a" else 0.7 * room)
    name = f"assignment_{law}_{jobs}x{machines}_{seed}"
    return _instance("cost", costs, uses, room.astype(np.int64), name)


def generate_cluster(
    seed: int, jobs: int, pools: dict[str, int], wide: float = 0.3, divisible: bool = False
) -> MatchingInstance:
    """Generate training jobs on pools: lognormal work, speeds per pool, a share of gangs of 2 to 8 GPUs."""
    rng = np.random.default_rng(seed)
    general = np.cumprod(rng.uniform(1.2, 2.0, len(pools)))
    made = []
    for job in range(jobs):
        gpus = int(2 ** rng.integers(1, 4)) if rng.random() < wide else 1
        work = float(rng.lognormal(7.5, 1.0))
        speeds = general * rng.lognormal(0.0, 0.3, len(pools))
        on = {
            pool: MatchingEntry(time_s=round(work / float(speed), 1) + 0.1, gpus=gpus)
            for (pool, count), speed in zip(pools.items(), speeds, strict=True)
            if gpus <= count
        }
        made.append(MatchingJob(id=f"j{job}", on=on))
    machines = tuple(MatchingMachine(id=pool, count=count) for pool, count in pools.items())
    name = f"cluster_{jobs}_{seed}"
    return MatchingInstance("1", "makespan", machines, tuple(made), divisible=divisible, name=name)


def _instance(
    objective: Literal["makespan", "cost"],
    amounts: NDArray[np.int64],
    uses: NDArray[np.int64] | None,
    rooms: NDArray[np.int64] | None,
    name: str,
) -> MatchingInstance:
    names = [f"m{i}" for i in range(amounts.shape[1])]
    made = []
    for job, row in enumerate(amounts.tolist()):
        on = {}
        for i, machine in enumerate(names):
            use = 1 if uses is None else int(uses[job, i])
            amount = float(row[i])
            on[machine] = (
                MatchingEntry(time_s=amount)
                if objective == "makespan"
                else MatchingEntry(cost=amount, uses=use)
            )
        made.append(MatchingJob(id=f"j{job}", on=on))
    machines = tuple(
        MatchingMachine(id=machine, capacity=None if rooms is None else int(rooms[i]))
        for i, machine in enumerate(names)
    )
    return MatchingInstance("1", objective, machines, tuple(made), name=name)
