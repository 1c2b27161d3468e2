"""What a worker does with a price: the best option of every job, in sums, and the jobs that might change.

At a price, every job takes its best option, and the sums over a shard are all the driver needs of it. A job
whose best option stays best everywhere in a box of prices is *settled* there; the others are *open*, and
their options that are best somewhere in the box come back with the sums. Within the box the dual function is
then known exactly to the driver, which can move the price without asking again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.scale.decomposition.sharding import Block, Shard, blocks, read, spread

__all__ = ["Answer", "Open", "Question", "answer"]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A price, a box around it, and how much to look at.

    Attributes
    ----------
    price, low, high
        float64 [capacities]; ``low <= price <= high``.
    reference
        float64 [capacities]: how far single jobs' prices are spread, see `blocks.spread`.
    boxed
        Whether there is a box; without one every job is open.
    keep
        Open jobs returned at most; of more, every 2nd, 4th, ... is.
    every, run
        Look at each `every`-th range of jobs, of it at the first `run` (``None``: all).
    sign
        1 to maximise, -1 to minimise.
    limits
        Whether to sum up the least values and uses too.
    """

    price: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    reference: NDArray[np.float64]
    boxed: bool
    keep: int
    every: int
    run: int | None
    sign: float
    limits: bool


@dataclass(frozen=True, slots=True, eq=False)
class Open:
    """Open jobs and those of their options that are best somewhere in the box.

    Attributes
    ----------
    number
        int64 [jobs]: in the whole instance.
    counts
        int64 [jobs]: options of each.
    value
        float64 [options], to be maximised.
    use
        int64 [options, capacities].
    position
        int64 [options]: in the job's menu, -1 for left out.
    best
        bool [options]: whether it is the job's best at the price.
    """

    number: NDArray[np.int64]
    counts: NDArray[np.int64]
    value: NDArray[np.float64]
    use: NDArray[np.int64]
    position: NDArray[np.int64]
    best: NDArray[np.bool_]

    def some(self, chosen: NDArray[np.bool_]) -> Open:
        """Return the open jobs that a mask, bool [open jobs], selects."""
        rows = np.repeat(chosen, self.counts)
        return Open(
            self.number[chosen],
            self.counts[chosen],
            self.value[rows],
            self.use[rows],
            self.position[rows],
            self.best[rows],
        )

    @staticmethod
    def joined(parts: list[Open]) -> Open:
        """Return the open jobs of several answers, at least one, one behind the other."""
        return Open(
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.value for part in parts]),
            np.concatenate([part.use for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.best for part in parts]),
        )


@dataclass(slots=True, eq=False)
class Answer:
    """The sums over a shard at a price, uses as exact integers, and the open jobs kept.

    Attributes
    ----------
    jobs
        How many jobs of the shard the sums are taken over.
    score
        Sum of the best scores: the shard's share of the dual function, the capacities' part aside.
    value, use
        Sums of the values and uses of the options that are best at the price, over these jobs.
    squares
        float [capacities]: sum of the squares of these uses.
    open_value, open_use
        The same of the open jobs alone.
    least_value, least_use
        Sums of the smallest value and of the smallest uses of each job: no choice is below them. 0 unless
        asked for.
    stride
        Every how many-th open job is returned: 1 if all of them are.
    kept
        The open jobs kept.
    cpu_s
        Processor time it took, seconds.
    """

    jobs: int
    score: float
    value: float
    use: list[int]
    squares: NDArray[np.float64]
    open_value: float
    open_use: list[int]
    least_value: float
    least_use: list[int]
    stride: int
    kept: Open
    cpu_s: float = 0.0


class _Collector:
    """Keeps every n-th open job, with n doubled whenever there are too many."""

    def __init__(self, keep: int, num_capacities: int) -> None:
        self._keep = keep
        self._parts: list[Open] = []
        self._ordinals: list[NDArray[np.int64]] = []
        self._held, self._seen, self.stride = 0, 0, 1
        none = np.zeros(0, dtype=np.int64)
        use = np.zeros((0, num_capacities), dtype=np.int64)
        self._empty = Open(none, none, np.zeros(0), use, none, np.zeros(0, dtype=np.bool_))

    def add(self, found: Open) -> None:
        ordinals = self._seen + np.arange(found.number.size)
        self._seen += found.number.size
        chosen = ordinals % self.stride == 0
        self._parts.append(found.some(chosen) if self.stride > 1 else found)
        self._ordinals.append(ordinals[chosen])
        self._held += self._ordinals[-1].size
        while self._held > self._keep:
            self.stride *= 2
            all_of = np.concatenate(self._ordinals)
            chosen = all_of % self.stride == 0
            self._parts, self._ordinals = [Open.joined(self._parts).some(chosen)], [all_of[chosen]]
            self._held = self._ordinals[0].size

    def kept(self) -> Open:
        return Open.joined(self._parts) if self._parts else self._empty


def answer(shard: Shard, question: Question) -> Answer:
    """Answer a question for one shard; memory is that of one range of jobs and of what is kept.

    Raises
    ------
    InvalidInstance
        If the source of the menus returns something else than menus.
    NoOption
        If a required job has no option.
    """
    size = question.price.size
    zero = [0] * size
    sums = Answer(0, 0.0, 0.0, list(zero), np.zeros(size), 0.0, list(zero), 0.0, list(zero), 1, None)  # type: ignore[arg-type]
    collector = _Collector(question.keep, size)
    began = time.process_time()
    for first, last in shard.ranges(question.every, question.run):
        part = read(shard, first, last, size)
        sums.jobs += last - first
        for block in blocks(part, first, question.sign):
            _add(sums, collector, block, question)
    sums.stride, sums.kept = collector.stride, collector.kept()
    sums.cpu_s = time.process_time() - began
    return sums


def _add(sums: Answer, collector: _Collector, block: Block, question: Question) -> None:
    xi = spread(block.number, question.price.size)
    scores = block.scores(question.price, xi, question.reference)
    best = scores.argmax(axis=1)
    rows = np.arange(best.size)
    score, value, use = scores[rows, best], block.value[rows, best], block.use[rows, best]
    sums.score += float(score.sum())
    sums.value += float(value.sum())
    _increase(sums.use, use)
    sums.squares += np.square(use.astype(np.float64)).sum(axis=0)
    if question.limits:
        absent = np.isneginf(block.value)
        sums.least_value += float(np.where(absent, np.inf, block.value).min(axis=1).sum())
        large = np.iinfo(np.int64).max
        _increase(sums.least_use, np.where(absent[:, :, None], large, block.use).min(axis=1))
    if question.boxed:
        # Sure to find all: an option's best score in the box against the worst of the job's best option.
        floor = value - _cost(use, question.high + question.reference * xi)
        ceiling = block.scores(question.low, xi, question.reference)
        jobs = np.flatnonzero(np.count_nonzero(ceiling >= floor[:, None], axis=1) > 1)
        if not jobs.size:
            return
        more = block.use[jobs] - use[jobs, None, :]
        gain = scores[jobs] - score[jobs, None]
        for k in range(question.price.size):
            up, down = question.high[k] - question.price[k], question.price[k] - question.low[k]
            gain += np.where(more[:, :, k] > 0, more[:, :, k] * down, more[:, :, k] * -up)
        candidate = gain > 0.0
    else:
        jobs, candidate = rows, block.value > -np.inf
    candidate[np.arange(jobs.size), best[jobs]] = True
    still = np.count_nonzero(candidate, axis=1) > 1
    jobs, candidate = jobs[still], candidate[still]
    sums.open_value += float(value[jobs].sum())
    _increase(sums.open_use, use[jobs])
    which, column = np.nonzero(candidate)
    collector.add(
        Open(
            block.number[jobs],
            np.count_nonzero(candidate, axis=1),
            block.value[jobs[which], column],
            block.use[jobs[which], column],
            block.positions(column),
            column == best[jobs[which]],
        )
    )


def _cost(use: NDArray[np.int64], price: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.zeros(use.shape[0])
    for k in range(use.shape[1]):
        total += use[:, k] * price[:, k]
    return total


def _increase(total: list[int], use: NDArray[np.int64]) -> None:
    """Add in Python integers, which never overflow."""
    for k, amount in enumerate(use.sum(axis=0, dtype=np.int64).tolist()):
        total[k] += amount
