"""Solve a knapsack larger than one machine: the driver moves the price, the workers answer for shards.

1.  A sample of the jobs gives a price, and a box around it that sampling error leaves likely. Larger samples
    narrow it where too many jobs would be open.
2.  In a pass over all jobs most are settled: their best option is the same everywhere in the box. The few
    open ones come back, and the driver finds the exact price among them, without another pass.
3.  The open jobs share exactly what the settled ones leave, by the solver for knapsacks of ordinary size.
4.  A last pass writes the plan, checks it against the menus and proves the bound in closed form.

Where the price lies outside the box, or too many jobs are open to be returned, the pass is repeated from
the best point known: it is a trust region, in which the dual function is not approximated but exact.
Every task is a function of its shard and its question alone, so one that is lost is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from apportion.decomposition.price_search import PriceSearch
from apportion.decomposition.result import Pass, ShardedSolution
from apportion.decomposition.sharding import ShardedKnapsack
from apportion.errors import InvalidOption

__all__ = ["solve_sharded"]


def solve_sharded(
    problem: ShardedKnapsack,
    executor: Executor | None = None,
    *,
    gap: float = 1e-6,
    folder: str | None = None,
    sample: int | None = None,
    growth: int | None = None,
    keep: int | None = None,
    core: int = 2000,
    core_time_limit: float | None = 3.0,
    passes: int = 12,
    seed: int = 0,
    on_pass: Callable[[Pass], None] | None = None,
) -> ShardedSolution:
    """Decide every job of a sharded knapsack, and prove how good that is.

    Parameters
    ----------
    problem
        The shards and the capacities.
    executor
        Where the shards are answered for (see `apportion.executors.open_executor`); ``None``: here.
    gap
        Relative gap wanted between the plan and the proven bound.
    folder
        Where the workers write the plan, one ``.npy`` of positions per shard, and the driver
        ``plan.json`` when all are there; ``None`` keeps the plan in memory.
    sample
        Jobs of the first sample; 65,536 for one capacity, 8,192 for several by default.
    growth
        How many times larger a further sample is at most, at least 2; 32 or 16 by default. There are as
        many as it takes for the open jobs to be few enough to `keep`.
    keep
        Open jobs that may come back to the driver, at least 1: by default 2^18, 2^15 for several capacities,
        or the number of jobs to the power of 2/3 if that is more (10^6 for 10^9 jobs).
    core
        Open jobs to aim at at least; as many jobs or fewer are all open, and no price is needed.
    core_time_limit
        Seconds for the open jobs after each pass; ``None``: no clock decides anything.
    passes
        Passes over all jobs, the last one aside, at least 1.
    seed
        Random seed of the solver that shares out what is left among the open jobs.
    on_pass
        Called with every `Pass`.

    Returns
    -------
    ShardedSolution
        A plan is in it only if it passed the check.

    Raises
    ------
    InvalidInstance
        If a shard's source does not return menus.
    InvalidOption
        If an argument is out of its range.
    ApportionError
        If a shard's menus change between two passes.
    """
    several = len(problem.capacities) > 1  # several prices take longer to find, so in smaller steps
    sample = sample if sample is not None else 1 << 13 if several else 1 << 16
    growth = growth if growth is not None else 16 if several else 32
    keep = keep if keep is not None else max(1 << (15 if several else 18), round(problem.num_jobs ** (2 / 3)))
    if min(sample, keep, passes) < 1 or growth < 2 or not gap >= 0.0:
        raise InvalidOption("need sample, keep and passes of at least 1, growth of at least 2, gap >= 0")
    return PriceSearch(problem, executor, gap, folder, keep, core, core_time_limit, seed, on_pass).run(
        sample, growth, passes
    )
