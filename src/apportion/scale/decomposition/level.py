"""The answers to one question put together: a knapsack of the open jobs, and where its price should be.

The dual function of the jobs looked at is, within the box,

    L(lambda) = lambda . (C - settled uses) + settled value + sum over open jobs of max_i (v_i - lambda . u_i)

which is a knapsack of the open jobs under what the settled ones leave: its best price is the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.scale.decomposition.answering import Answer, Open
from apportion.scale.decomposition.sharding import spread

__all__ = ["Level"]

_SIGMAS = 3.0
"""How many standard deviations of the sampled uses the box of prices reaches."""
_BOX_JOBS = 1 << 12
"""Open jobs from which the box is estimated."""


class Level:
    """What is known of the jobs looked at.

    Parameters
    ----------
    answers
        The answers of the workers, one per shard.
    capacities
        How much there is of each capacity in the whole instance.
    num_jobs
        Of the whole instance; the capacities are shared out in proportion to the jobs looked at.
    sign
        1 to maximise, -1 to minimise.

    Attributes
    ----------
    jobs
        How many jobs the answers are about.
    complete
        Whether every open job of the instance is here.
    open
        The open jobs kept.
    fixed_use, fixed_value
        Sums over all other jobs at their best option.
    infeasible
        Whether the open jobs were found not to fit into what the others leave.
    used
        float64 [capacities]: what the best options of all jobs use.
    """

    def __init__(
        self, answers: Sequence[Answer], capacities: Sequence[int], num_jobs: int, sign: float
    ) -> None:
        self.answers = list(answers)
        self.sign = sign
        size = len(capacities)
        self.jobs = sum(one.jobs for one in answers)
        self.whole = self.jobs == num_jobs
        self.complete = self.whole and all(one.stride == 1 for one in answers)
        self.open = Open.joined([one.kept for one in answers])
        self.shard = np.repeat(np.arange(len(self.answers)), [one.kept.number.size for one in answers])
        self.weight = np.array([one.stride for one in answers], dtype=np.int64)[self.shard]
        self.score = sum(one.score for one in answers)
        self.least_value = sum(one.least_value for one in answers)
        self.least_use = [sum(one.least_use[k] for one in answers) for k in range(size)]
        use = [sum(one.use[k] for one in answers) for k in range(size)]
        kept = [int(amount) for amount in self.open.use[self.open.best].sum(axis=0, dtype=np.int64)]
        self.fixed_use = [u - k for u, k in zip(use, kept, strict=True)]
        kept_value = float(self.open.value[self.open.best].sum())
        self.fixed_value = sum(one.value for one in answers) - kept_value
        fixed_use = [use[k] - sum(one.open_use[k] for one in answers) for k in range(size)]
        share = [capacity * self.jobs // max(num_jobs, 1) for capacity in capacities]
        self.room = np.array([s - u for s, u in zip(share, fixed_use, strict=True)], dtype=np.float64)
        self.settled_value = sum(one.value - one.open_value for one in answers)
        self.infeasible = False
        self.used = np.array(use, dtype=np.float64)
        self.deviation = self._deviation(use, num_jobs)

    def _deviation(self, use: list[int], num_jobs: int) -> NDArray[np.float64]:
        """Return float64 [capacities]: how far sampling may have moved the sum of the uses (one sigma)."""
        jobs = max(self.jobs, 1)
        squares = np.sum([one.squares for one in self.answers], axis=0)
        mean = np.array([float(u) for u in use]) / jobs
        sampled = jobs * np.maximum(squares / jobs - mean**2, 0.0) * (1.0 - self.jobs / max(num_jobs, 1))
        if self.open.number.size:
            starts = np.cumsum(self.open.counts) - self.open.counts
            span = np.maximum.reduceat(self.open.use, starts) - np.minimum.reduceat(self.open.use, starts)
            thinned = (self.weight * (self.weight - 1))[:, None] * np.square(span.astype(np.float64))
            sampled = sampled + thinned.sum(axis=0)
        deviation: NDArray[np.float64] = np.sqrt(sampled)
        return deviation

    def best_price(
        self,
        reference: NDArray[np.float64],
        near: NDArray[np.float64] | None,
        moved: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64] | None:
        """Return the multipliers of least bound of the open jobs, or ``None`` if they cannot fit.

        Parameters
        ----------
        reference
            float64 [capacities]: the spread of single jobs' prices, as it was asked with.
        near
            float64 [capacities]: where to begin.
        moved
            float64 [capacities]: by how much to change the room.
        """
        found, room = self.open, self.room if moved is None else self.room + moved
        if not found.number.size:
            return np.zeros(room.size) if (room >= 0).all() else None
        job = np.repeat(np.arange(found.number.size), found.counts)
        xi = spread(found.number, room.size)
        value = found.value - (found.use * (reference * xi)[job]).sum(axis=1)
        offsets = np.concatenate(([0], np.cumsum(found.counts)))
        weight = self.weight[job]
        if room.size == 1:
            return _one_price(value * weight, found.use[:, 0] * weight, offsets, float(room[0]))
        least = np.minimum.reduceat(found.use, offsets[:-1])
        use = (found.use - least[job]) * weight[:, None]
        room = room - (least * self.weight[:, None]).sum(axis=0)
        gap = 1e-13 if self.whole else 1e-9
        return _several_prices(value * weight, use, offsets, job, room, near, gap)

    def box(
        self, price: NDArray[np.float64], reference: NDArray[np.float64], num_jobs: int, core: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and the highest prices that sampling leaves likely, and a bit around them.

        Wide enough that about `core` of all `num_jobs` are open: too few cannot use just what the others
        leave.
        """
        below, above = np.zeros(price.size), np.zeros(price.size)
        few = self._thinned(_BOX_JOBS)
        base = few.best_price(reference, price) if few is not self else price
        for k in np.flatnonzero(self.deviation > 0.0):
            for way in (-1.0, 1.0):
                moved = np.zeros(price.size)
                moved[k] = way * _SIGMAS * self.deviation[k]
                other = few.best_price(reference, price, moved)
                change = price + reference if other is None or base is None else other - base
                below += np.square(np.minimum(change, 0.0))
                above += np.square(np.maximum(change, 0.0))
        # What the search for the price itself leaves open; of several prices it is less exact.
        exact = (1e-12 if price.size == 1 else 1e-8) * price + 1e-4 * reference
        down, up = np.sqrt(below) + exact, np.sqrt(above) + exact
        for _ in range(40):
            if few.opened(price, down, up, reference, num_jobs) >= min(core, 0.5 * num_jobs):
                break
            down, up = 2.0 * down, 2.0 * up
        return np.maximum(price - down, 0.0), price + up

    def opened(
        self,
        price: NDArray[np.float64],
        down: NDArray[np.float64],
        up: NDArray[np.float64],
        reference: NDArray[np.float64],
        num_jobs: int,
    ) -> float:
        """Return how many of all jobs would be open in a box, as far as those looked at tell."""
        if self.open.number.size > _BOX_JOBS:
            return self._thinned(_BOX_JOBS).opened(price, down, up, reference, num_jobs)
        found = self.open
        if not found.number.size:
            return 0.0
        best, score = self.best_rows(price, reference)
        job = np.repeat(np.arange(found.number.size), found.counts)
        starts = np.cumsum(found.counts) - found.counts
        more = found.use - found.use[best][job]
        gain = score - score[best][job] + np.where(more > 0, more * down, more * -up).sum(axis=1)
        gain[best] = 1.0
        opened = int(self.weight[np.add.reduceat(gain > 0.0, starts, dtype=np.int64) > 1].sum())
        return opened * num_jobs / max(self.jobs, 1)

    def best_rows(
        self, price: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return int64 [open jobs]: their best options' rows at a price, and the scores of all rows."""
        found = self.open
        job = np.repeat(np.arange(found.number.size), found.counts)
        starts = np.cumsum(found.counts) - found.counts
        xi = spread(found.number, price.size)
        score = found.value - (found.use * (price + reference * xi)[job]).sum(axis=1)
        top = np.flatnonzero(score == np.maximum.reduceat(score, starts)[job])
        return top[np.searchsorted(job[top], np.arange(starts.size))], score

    def _thinned(self, most: int) -> Level:
        """Return a level with every n-th open job, weighing n times as much."""
        stride = -(-self.open.number.size // most)
        if stride <= 1:
            return self
        few = copy(self)
        chosen = np.arange(self.open.number.size) % stride == 0
        few.open, few.weight = self.open.some(chosen), self.weight[chosen] * stride
        return few

    def bound(self, price: NDArray[np.float64], capacities: Sequence[int]) -> float:
        """Return about what the bound at a price in the box is; exact up to rounding if complete."""
        found = self.open
        paid = float(sum(p * c for p, c in zip(price.tolist(), capacities, strict=True)))
        fixed = self.fixed_value - float(price @ np.array(self.fixed_use, dtype=np.float64))
        if not found.number.size:
            return paid + fixed
        starts = np.cumsum(found.counts) - found.counts
        return paid + fixed + float(np.maximum.reduceat(found.value - found.use @ price, starts).sum())


def _one_price(
    value: NDArray[np.float64], use: NDArray[np.int64], offsets: NDArray[np.int64], room: float
) -> NDArray[np.float64] | None:
    from apportion.solvers.knapsack.dual import multiplier

    if room < 0:
        return None
    model = MultipleChoiceKnapsack.from_arrays(value, use, offsets, [int(room)])
    try:
        return np.array([multiplier(model)[0]])
    except ValueError:  # even the least uses do not fit
        return None


def _several_prices(
    value: NDArray[np.float64],
    use: NDArray[np.int64],
    offsets: NDArray[np.int64],
    job: NDArray[np.int64],
    room: NDArray[np.float64],
    near: NDArray[np.float64] | None,
    gap: float,
) -> NDArray[np.float64] | None:
    from apportion.solvers.multiknapsack.dual import solve_dual
    from apportion.solvers.multiknapsack.option_table import OptionTable

    if (room < 0).any():
        return None
    floats = np.ascontiguousarray(use.T, dtype=np.float64)
    widths = np.unique(np.diff(offsets))
    menus = OptionTable(
        value,
        floats,
        offsets,
        job,
        np.arange(value.size),
        room,
        np.arange(room.size),
        int(widths[0]) if widths.size == 1 else None,
    )
    dual = solve_dual(menus, gap=gap, rounds=120, start=near)
    return None if dual.infeasible else dual.multipliers
