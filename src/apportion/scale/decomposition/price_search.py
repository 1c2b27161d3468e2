"""One solve of a sharded knapsack under way: the questions asked, the price reached, the best plan so far.

A plan from a price: settled jobs take their best option, and the open jobs share what is left, exactly.

Solve a knapsack larger than one machine: the driver moves the price, the workers answer for shards.

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

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import ApportionError, InvalidInstance, InvalidOption, Problem
from apportion.core.interruption import uninterrupted
from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Termination, relative_gap
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.scale.decomposition.answering import Question, answer
from apportion.scale.decomposition.finishing import Finished, finish_shard
from apportion.scale.decomposition.level import Level
from apportion.scale.decomposition.result import Pass, ShardedSolution, outward_bound, summed_value
from apportion.scale.decomposition.sharding import NoOption, ShardedKnapsack
from apportion.scale.decomposition.sources import write_manifest
from apportion.scale.executors import in_order

__all__ = ["Candidate", "PriceSearch", "candidate", "solve_sharded"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A plan in short: the price that decides for all jobs except some, whose choices are listed.

    Attributes
    ----------
    question
        The price, and how it is spread.
    numbers, positions
        Per shard int64 [jobs]: jobs decided apart, and their positions in the menu (-1: left out).
    value
        About the sum of the chosen values, to be maximised.
    used
        Exact.
    """

    question: Question
    numbers: tuple[NDArray[np.int64], ...]
    positions: tuple[NDArray[np.int64], ...]
    value: float
    used: tuple[int, ...]


def candidate(
    level: Level,
    question: Question,
    price: NDArray[np.float64],
    capacities: Sequence[int],
    gap: float,
    time_limit: float | None,
    seed: int,
) -> Candidate | None:
    """Return a feasible plan in which all but the open jobs take their best option, or ``None``.

    Parameters
    ----------
    level
        Answers of all jobs to `question`.
    question
        What they answer: its price decides for the settled jobs.
    price
        float64 [capacities]: the best one for the open jobs, where their plan begins.
    capacities
        How much there is of each capacity in the whole instance.
    gap
        The relative gap wanted of the whole plan; the open jobs take their share of a tenth of it, or half.
    time_limit, seed
        Seconds and random seed for the solver that shares out what is left among the open jobs.
    """
    from apportion.solvers import exact

    found = level.open
    room = [capacity - used for capacity, used in zip(capacities, level.fixed_use, strict=True)]
    if min(room) < 0:
        level.infeasible = True
        return None
    chosen = np.zeros(0, dtype=np.int64)
    if found.number.size:
        offsets = np.concatenate(([0], np.cumsum(found.counts)))
        # A room larger than all uses together is no different from one that just suffices.
        most = np.maximum.reduceat(found.use, offsets[:-1]).sum(axis=0)
        model = MultipleChoiceKnapsack.from_arrays(
            found.value, found.use, offsets, np.minimum(np.array(room, dtype=object), most).astype(np.int64)
        )
        best = float(found.value[found.best].sum())
        share = 0.1 if len(room) == 1 else 0.5
        wanted = share * gap * max(abs(level.fixed_value + best), 1e-9) / max(abs(best), 1e-9)
        options = SolveOptions(gap=min(wanted, 1e-2), time_limit=time_limit, seed=seed)
        start, _ = level.best_rows(price, question.reference)
        outcome = uninterrupted(exact.solve(model, options, Start(start)))
        level.infeasible = outcome.termination is Termination.INFEASIBLE
        if outcome.point is None or not model.check(outcome.point).feasible:
            return None
        chosen = outcome.point.astype(np.int64)
    used = [
        fixed + int(more)
        for fixed, more in zip(level.fixed_use, found.use[chosen].sum(axis=0, dtype=np.int64), strict=True)
    ]
    shards = range(len(level.answers))
    return Candidate(
        question,
        tuple(found.number[level.shard == shard] for shard in shards),
        tuple(found.position[chosen][level.shard == shard] for shard in shards),
        level.fixed_value + float(found.value[chosen].sum()),
        tuple(used),
    )


_SPREAD = 1e-6
"""How far single jobs' prices are spread, relative to the price."""


class PriceSearch:
    """A search for the price of every capacity and the best plan that the answers allow."""

    def __init__(
        self,
        problem: ShardedKnapsack,
        executor: Executor | None,
        gap: float,
        folder: str | None,
        keep: int,
        core: int,
        core_time_limit: float | None,
        seed: int,
        on_pass: Callable[[Pass], None] | None,
    ) -> None:
        self._problem, self._executor, self._gap, self._folder = problem, executor, gap, folder
        self._sign = 1.0 if problem.maximizes else -1.0
        self._most = keep
        self._keep = max(1, keep // len(problem.shards))
        self._core = min(core, problem.num_jobs)
        self._core_time_limit = core_time_limit
        self._seed, self._on_pass = seed, on_pass
        self._began = time.perf_counter()
        self._passes: list[Pass] = []
        self._seconds = {"price": 0.0, "plan": 0.0, "finish": 0.0, "workers_cpu": 0.0}
        nothing = np.zeros(len(problem.capacities))
        self._price, self._low, self._high, self._reference = nothing, nothing, nothing, nothing
        self._best: Candidate | None = None
        self._least_value: float | None = None
        self._least_use: list[int] = []
        self._lowest = (np.inf, nothing)
        self._settled_price = False

    def run(self, sample: int, growth: int, passes: int) -> ShardedSolution:
        """Search until plan and bound are as close as was asked; see `solve_sharded` for the parameters."""
        try:
            return self._solved(sample, growth, passes)
        except NoOption:
            return self._without_plan(Termination.INFEASIBLE)

    def _solved(self, sample: int, growth: int, passes: int) -> ShardedSolution:
        level, jobs = self._first_sample(sample), sample
        while (excess := 2.0 * self._expected_open(level) / self._most) > 2.0:
            # The box shrinks with the root of the sample.
            jobs = int(jobs * min(1.5 * excess**2, growth))
            if 2 * jobs > self._problem.num_jobs:
                break
            level = self._sampled(jobs)
        for _ in range(passes):
            question, level = self._whole()
            if any(least > c for least, c in zip(self._least_use, self._problem.capacities, strict=True)):
                return self._without_plan(Termination.INFEASIBLE)
            inside = self._move(level, question)
            better = self._offer(level, question)
            if level.infeasible and level.complete and not question.boxed:
                return self._without_plan(Termination.INFEASIBLE)
            if self._best is not None and level.complete and inside:
                one = len(self._problem.capacities) == 1  # price and plan are the best there are
                if one or self._close(level) or not better:
                    self._settled_price = True
                    break
        if self._best is None:
            level = self._lifted(level)
            if self._best is None:
                return self._without_plan(self._why_nothing(level))
        return self._finished()

    def _question(
        self, boxed: bool, every: int = 1, run: int | None = None, limits: bool = False
    ) -> Question:
        return Question(
            self._price,
            self._low,
            self._high,
            self._reference,
            boxed,
            self._keep,
            every,
            run,
            self._sign,
            limits,
        )

    def _ask(self, question: Question) -> Level:
        began = time.perf_counter()
        problem = self._problem
        asked = ((shard, question) for shard in problem.shards)
        answers = [_required(row) for row in in_order(self._executor, answer, asked)]
        level = Level(answers, problem.capacities, problem.num_jobs, self._sign)
        took = time.perf_counter() - began
        self._seconds["price"] += took
        self._seconds["workers_cpu"] += sum(a.cpu_s for a in answers)
        opened = sum(int(a.kept.number.size) * a.stride for a in answers)
        ended = Pass(level.jobs, opened, int(level.open.number.size), tuple(question.price.tolist()), took)
        self._passes.append(ended)
        if self._on_pass is not None:
            self._on_pass(ended)
        return level

    def _expected_open(self, level: Level) -> float:
        down, up = self._price - self._low, self._high - self._price
        return level.opened(self._price, down, up, self._reference, self._problem.num_jobs)

    def _first_sample(self, sample: int) -> Level:
        problem = self._problem
        ranges = sum(-(-shard.num_jobs // shard.step) for shard in problem.shards)
        every = max(1, ranges // 64)
        run = max(1, sample * every // max(ranges, 1))
        level = self._ask(self._question(False, every, run, limits=True))
        began = time.perf_counter()
        price = level.best_price(self._reference, None)
        if price is None:  # too little room for the sample: begin where nothing is worth its price
            price = _dearest(level)
        spread = max(level.score - level.least_value, 0.0) / max(float(sum(problem.capacities)), 1.0)
        share = max(problem.num_jobs / max(level.jobs, 1), 1.0)
        self._reference = _SPREAD * np.maximum(price, 1e-3 * spread * share / price.size)
        again = level.best_price(self._reference, price)
        self._price = price if again is None else again
        self._low, self._high = level.box(self._price, self._reference, problem.num_jobs, self._core)
        self._seconds["price"] += time.perf_counter() - began
        return level

    def _sampled(self, jobs: int) -> Level:
        question = self._question(True, max(self._problem.num_jobs // jobs, 1))
        level = self._ask(question)
        if level.jobs:
            self._move(level, question)
        return level

    def _whole(self) -> tuple[Question, Level]:
        first = self._least_value is None
        question = self._question(self._core < self._problem.num_jobs, limits=first)
        level = self._ask(question)
        bound = float(question.price @ np.array(self._problem.capacities, dtype=np.float64)) + level.score
        if bound < self._lowest[0]:
            self._lowest = (bound, question.price)
        if first:
            self._least_value, self._least_use = level.least_value, level.least_use
        return question, level

    def _move(self, level: Level, question: Question) -> bool:
        """Move price and box to where the open jobs say; return whether that is inside the box asked."""
        began = time.perf_counter()
        found = level.best_price(self._reference, question.price)
        low, high = question.low, question.high
        if not question.boxed:
            self._price = question.price if found is None else found
            self._seconds["price"] += time.perf_counter() - began
            return True
        if found is None:  # the settled jobs leave too little: every price must rise
            found = high + (high - low) + self._reference
        outside = (found > high) | ((found < low) & (low > 0.0))
        if outside.any():
            # Nothing is known beyond the box: go to its side, and look further in that direction.
            self._price = np.clip(found, low, high)
            reach = 8.0 * np.maximum(high - low, self._reference)
            self._low = np.maximum(self._price - np.where(found < low, reach, (high - low) / 2), 0.0)
            self._high = self._price + np.where(found > high, reach, (high - low) / 2)
        else:
            self._price = found
            self._low, self._high = level.box(found, self._reference, self._problem.num_jobs, self._core)
        self._seconds["price"] += time.perf_counter() - began
        return not bool(outside.any())

    def _offer(self, level: Level, question: Question) -> bool:
        """Keep the plan that the answers allow if it is the best so far; return whether it is."""
        began = time.perf_counter()
        made = candidate(
            level,
            question,
            self._price,
            self._problem.capacities,
            self._gap,
            self._core_time_limit,
            self._seed,
        )
        better = made is not None and (self._best is None or made.value > self._best.value)
        if better:
            self._best = made
        self._seconds["plan"] += time.perf_counter() - began
        return better

    def _close(self, level: Level) -> bool:
        assert self._best is not None
        bound = level.bound(self._price, self._problem.capacities)
        return relative_gap(self._best.value, bound) <= self._gap

    def _lifted(self, level: Level) -> Level:
        """Raise all prices until the plan of some pass fits, as long as a plan is not ruled out."""
        width = np.maximum(self._high - self._low, self._reference)
        for _ in range(40):
            if self._why_nothing(level) is Termination.INFEASIBLE:
                break
            self._low = self._price
            self._price = self._price + width
            self._high = self._price + width
            question, level = self._whole()
            self._offer(level, question)
            if self._best is not None:
                break
            width = 4.0 * width
        return level

    def _why_nothing(self, level: Level) -> Termination:
        """Infeasible if the bound is below what any choice is worth, beyond all rounding."""
        # No job's own price is above price + reference, so this is at least the bound that proves there.
        price = np.array(self._passes[-1].price) + self._reference
        bound = float(price @ np.array(self._problem.capacities, dtype=np.float64)) + level.score
        least = self._least_value if self._least_value is not None else -np.inf
        slack = 1e-9 * (abs(bound) + abs(least) + float(price @ level.used))
        return Termination.INFEASIBLE if bound < least - slack else Termination.NODE_LIMIT

    def _finished(self) -> ShardedSolution:
        began = time.perf_counter()
        problem, best = self._problem, self._best
        assert best is not None
        tried = (self._price,) if self._settled_price else (self._price, self._lowest[1])
        asked = (
            (shard, best.question, numbers, positions, tried, self._folder)
            for shard, numbers, positions in zip(problem.shards, best.numbers, best.positions, strict=True)
        )
        parts = [_required(row) for row in in_order(self._executor, finish_shard, asked)]
        _demand_sound(problem, parts, best.used)
        objective = summed_value(parts)
        bounds = [
            outward_bound(problem, prices, [part.bounds[index] for part in parts])
            for index, prices in enumerate(tried)
        ]
        tightest = int(np.argmin(self._sign * np.array(bounds)))
        bound, multipliers = bounds[tightest], tried[tightest]
        reached = relative_gap(objective, bound)
        termination = Termination.GAP_REACHED if reached <= self._gap else Termination.NODE_LIMIT
        self._seconds["workers_cpu"] += sum(part.cpu_s for part in parts)
        self._seconds["finish"] = time.perf_counter() - began
        solution = self._solution(
            Termination.OPTIMAL if reached <= 1e-9 else termination, objective, bound, multipliers, parts
        )
        if self._folder is not None:
            write_manifest(solution, self._folder)
        return solution

    def _without_plan(self, termination: Termination) -> ShardedSolution:
        return self._solution(termination, None, None, self._price, [])

    def _solution(
        self,
        termination: Termination,
        objective: float | None,
        bound: float | None,
        multipliers: NDArray[np.float64],
        parts: list[Finished],
    ) -> ShardedSolution:
        names = self._problem.capacity_names
        used = [sum(part.used[k] for part in parts) for k in range(len(names))]
        return ShardedSolution(
            self._problem,
            termination,
            objective,
            bound,
            dict(zip(names, multipliers.tolist(), strict=True)),
            dict(zip(names, used, strict=True)) if parts else {},
            tuple(parts),
            self._folder if parts else None,
            tuple(self._passes),
            {**self._seconds, "total": time.perf_counter() - self._began},
        )


def _required(row: Any) -> Any:
    if isinstance(row.error, InvalidInstance):
        problems = [Problem(f"$.shards[{row.index}]{p.path[1:]}", p.message) for p in row.error.problems]
        raise InvalidInstance(problems) from row.error
    return row.require()


def _dearest(level: Level) -> NDArray[np.float64]:
    """Return prices at which one unit of a capacity costs as much as separates the values of any menu."""
    found = level.open
    size = level.room.size
    if not found.number.size:
        return np.zeros(size)
    starts = np.cumsum(found.counts) - found.counts
    span = np.maximum.reduceat(found.value, starts) - np.minimum.reduceat(found.value, starts)
    return np.full(size, float(span.max()))


def _demand_sound(problem: ShardedKnapsack, parts: list[Finished], expected: tuple[int, ...]) -> None:
    """Refuse a plan that breaks a rule, or that differs from what the passes before made of it."""
    broken = [violation for part in parts for violation in part.violations]
    used = tuple(sum(part.used[k] for part in parts) for k in range(len(expected)))
    if used != expected:
        broken.append(f"the plan uses {used}, the passes before said {expected}")
    broken += [
        f"uses {u} of {c} of {name}"
        for u, c, name in zip(used, problem.capacities, problem.capacity_names, strict=True)
        if u > c
    ]
    if broken:
        first = "; ".join(broken[:3])
        raise ApportionError(
            f"the plan did not pass its check: {first} (do the menus change between two readings?)"
        )


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
        Where the shards are answered for (see `apportion.scale.executors.open_executor`); ``None``: here.
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
