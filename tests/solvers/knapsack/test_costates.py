"""Costates against closed forms and exact dynamic programming, compiled and uncompiled alike."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.budgets import examples

from apportion.solvers.compiled import SWITCH, load
from apportion.solvers.knapsack.costates import costates


def one_type(
    rates: NDArray[np.float64],
    remaining: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    last: float = 0.0,
) -> NDArray[np.float64]:
    """Return float64 [jobs]: the costates of one capacity, of which there is as much as there are options."""
    uses = np.arange(1, rates.shape[1] + 1)
    size = np.array([uses.size])
    return costates(rates, remaining, uses, np.zeros_like(uses), size, weights, last)[:, 0]


def test_equal_power_laws_get_the_shares_of_hesrpt() -> None:
    """theta_i = (i / n)^(1 / (1 - p)) - ((i - 1) / n)^(1 / (1 - p)), the longest job first."""
    power, total, jobs = 0.5, 600, 4
    rates = np.tile(np.arange(1.0, total + 1) ** power, (jobs, 1))
    remaining = np.array([[4.0], [3.0], [2.0], [1.0]])
    price = one_type(rates, remaining)
    share = price ** (1 / (1 - power))  # the largest of sum p k^power has k in proportion to this
    exact = np.diff((np.arange(jobs + 1) / jobs) ** (1 / (1 - power)))
    assert share / share.sum() == pytest.approx(exact, rel=0.02)


def test_the_greatest_worth_of_all_counts_is_the_number_of_jobs() -> None:
    for seed in range(examples(50)):
        rng = np.random.default_rng(seed)
        jobs, total = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        rates = np.cumsum(np.sort(rng.random((jobs, total)))[:, ::-1], axis=1)
        price = one_type(rates, rng.random((jobs, 1)) + 0.1)
        worth = np.concatenate((np.zeros((jobs, 1)), price[:, None] * rates), axis=1)
        most = max(
            sum(worth[job, k] for job, k in enumerate(pick))
            for pick in product(range(total + 1), repeat=jobs)
            if sum(pick) <= total
        )
        assert most == pytest.approx(jobs, rel=1e-9), seed


def best_sum(rates: NDArray[np.float64], work: tuple[int, ...], total: int) -> int:
    """Return the least sum of completion rounds, by dynamic programming over rounds; rates are whole."""
    picks = [pick for pick in product(range(total + 1), repeat=len(work)) if sum(pick) <= total]
    step = [tuple(int(rates[job, k - 1]) if k else 0 for job, k in enumerate(pick)) for pick in picks]

    @cache
    def least(left: tuple[int, ...]) -> int:
        waiting = sum(one > 0 for one in left)
        if not waiting:
            return 0
        after = {tuple(max(0, one - done) for one, done in zip(left, steps, strict=True)) for steps in step}
        return waiting + min(least(then) for then in after if then != left)

    return least(work)


def costate_sum(rates: NDArray[np.float64], work: tuple[int, ...], total: int) -> int:
    """Return the sum of completion rounds under prices of work and the best counts at them."""
    left, spent = np.array(work, dtype=np.float64), 0
    picks = np.array([pick for pick in product(range(total + 1), repeat=len(work)) if sum(pick) <= total])
    while (left > 0).any():
        here = np.flatnonzero(left > 0)
        spent += here.size
        price = one_type(rates[here], left[here, None])
        worth = np.zeros((here.size, total + 1))
        worth[:, 1:] = price[:, None] * np.minimum(rates[here], left[here, None])
        pick = picks[worth[np.arange(here.size), picks[:, here]].sum(axis=1).argmax()]
        for job in here.tolist():
            left[job] -= rates[job, pick[job] - 1] if pick[job] else 0.0
    return spent


@pytest.mark.parametrize("systems", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_tiny_systems_are_near_the_optimum_of_dynamic_programming(systems: int) -> None:
    over = []
    for seed in range(systems):
        rng = np.random.default_rng(seed)
        jobs = int(rng.integers(2, 4))
        total, longest = (4, 90) if jobs == 2 else (2, 36)
        gains = np.sort(rng.integers(0, 3, (jobs, total)), axis=1)[:, ::-1].copy()
        gains[:, 0] += 1
        rates = np.cumsum(gains, axis=1).astype(np.float64)
        work = tuple(int(one) for one in rng.integers(longest // 3, longest, jobs))
        best = best_sum(rates, work, total)
        found = costate_sum(rates, work, total)
        assert found >= best, seed
        over.append(found / best - 1.0)
    assert np.median(over) <= 0.02 and np.mean(over) <= 0.08


def test_whoever_ends_last_gets_more_the_more_the_makespan_counts() -> None:
    rates = np.tile(np.arange(1.0, 9.0) ** 0.5, (3, 1))
    remaining = np.array([[9.0], [2.0], [1.0]])
    shares = []
    for last in (0.0, 1.0, 100.0):
        price = one_type(rates, remaining, last=last)
        worth = np.concatenate((np.zeros((3, 1)), price[:, None] * rates), axis=1)
        picks = np.array([pick for pick in product(range(9), repeat=3) if sum(pick) <= 8])
        totals = worth[np.arange(3), picks].sum(axis=1)
        assert totals.max() == pytest.approx(3.0 + last)  # what all who are left count
        shares.append(int(picks[totals.argmax()][0]))
    assert shares == sorted(shares) and shares[0] < shares[-1]


def test_weights_order_jobs_by_work_over_weight() -> None:
    """One GPU: the costate of a job is its own weight and those of all that end after it (Smith's rule)."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        work, weight = rng.uniform(1.0, 9.0, (6, 1)), rng.uniform(0.5, 2.0, 6)
        order = np.argsort(-work[:, 0] / weight)
        found = one_type(np.ones((6, 1)), work, weight)
        assert np.allclose(found[order], np.cumsum(weight[order]))
    alike = one_type(np.ones((6, 1)), work, np.ones(6))
    assert (alike == one_type(np.ones((6, 1)), work)).all()


@pytest.mark.parametrize("systems", [200, pytest.param(3000, marks=pytest.mark.slow)])
def test_both_twins_return_the_same_prices_to_the_last_bit(
    systems: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if load("knapsack.costates_c") is None:
        pytest.skip("the compiled recursion was not built")
    for seed in range(systems):
        rng = np.random.default_rng(seed)
        jobs, draws, pools = rng.integers(1, (40, 5, 4))
        options = int(rng.integers(1, 12))
        sizes, pool = rng.integers(0, 20, pools), rng.integers(0, pools, options)
        uses = rng.integers(1, 9, options)
        some = np.where(rng.random((6, options)) < 0.3, 0.0, rng.random((6, options)) * uses)
        rates = some[rng.integers(0, 6, jobs)]
        alike, own = rng.choice([1.0, 2.0, 3.5], (jobs, draws)), rng.random((jobs, draws)) + 0.01
        remaining = alike if seed % 2 else own
        weights = None if seed % 3 else rng.random(jobs) + 0.1
        last = float(rng.choice([0.0, 7.5]))
        found = []
        for switch in ("0", "1"):
            monkeypatch.setenv(SWITCH, switch)
            found.append(costates(rates, remaining, uses, pool, sizes, weights, last))
        assert found[0].shape == (jobs, draws) and (found[0] == found[1]).all(), seed


def test_wrong_arrays_are_refused_not_read() -> None:
    compiled = load("knapsack.costates_c")
    if compiled is None:
        pytest.skip("the compiled recursion was not built")
    one, none = np.ones(2, np.int64), np.zeros(2, np.int64)
    arrays = [np.ones((2, 2)), none, np.ones(2), one, none, one, np.ones((3, 2)), np.zeros((3, 2))]
    assert compiled.run(*arrays[:6], 1.0, 0.0, *arrays[6:]) is None
    wrong = {0: np.ones(3), 1: one * 2, 2: np.ones(3), 3: none, 4: one * 2, 5: -one, 7: np.zeros((2, 2))}
    for place, bad in wrong.items():
        parts = [bad if at == place else part for at, part in enumerate(arrays)]
        with pytest.raises(ValueError, match="do not fit together"):
            compiled.run(*parts[:6], 1.0, 0.0, *parts[6:])
