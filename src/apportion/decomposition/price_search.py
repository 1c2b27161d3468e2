"""One solve of a sharded knapsack under way: the questions asked, the price reached, the best plan so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.decomposition.answering import Question, answer
from apportion.decomposition.blocks import NoOption
from apportion.decomposition.core import Candidate, candidate
from apportion.decomposition.finishing import Finished, finish_shard
from apportion.decomposition.level import Level
from apportion.decomposition.manifest import write_manifest
from apportion.decomposition.result import Pass, ShardedSolution, outward_bound, summed_value
from apportion.decomposition.sharding import ShardedKnapsack
from apportion.errors import ApportionError, InvalidInstance, Problem
from apportion.executors import in_order
from apportion.gap import relative_gap
from apportion.outcome import Termination

__all__ = ["PriceSearch"]

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
