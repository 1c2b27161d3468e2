"""The Lagrangian dual: both roads against the linear relaxation, and the compiled one's arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.compiled import SWITCH, load
from apportion.solvers.multiknapsack.dual import bound_at, solve_dual
from apportion.solvers.multiknapsack.option_table import OptionTable, build


@pytest.fixture(params=["compiled", "uncompiled"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both roads; the compiled one is skipped, and says so, where it was not built."""
    monkeypatch.setenv(SWITCH, "0" if request.param == "compiled" else "1")
    if request.param == "compiled" and load("multiknapsack.dual_c") is None:
        pytest.skip("the compiled dual was not built")
    return str(request.param)


def some_menus(seed: int, *, share: float = 0.5) -> OptionTable | None:
    """Return optional menus under capacities at a share of the mean use."""
    rng = np.random.default_rng(seed)
    jobs, width, capacities = (int(rng.integers(1, top)) for top in (15, 6, 7))
    uses = rng.integers(0, 50, (jobs * width, capacities))
    values = rng.integers(1, 200, jobs * width).astype(float)
    rooms = (share * uses.reshape(jobs, width, capacities).mean(axis=1).sum(axis=0)).astype(np.int64)
    offsets = np.arange(jobs + 1) * width
    required = rng.random(jobs) < 0.3
    return build(MultipleChoiceKnapsack.from_arrays(values, uses, offsets, rooms, required=required))


def relaxed(menus: OptionTable) -> float | None:
    """Return the optimum of the linear relaxation by HiGHS, ``None`` if there is none."""
    one = (menus.job[None, :] == np.arange(menus.num_jobs)[:, None]).astype(float)
    found = linprog(-menus.values, menus.uses, menus.capacities, one, np.ones(menus.num_jobs), (0, None))
    return None if found.status == 2 else -float(found.fun)


def test_the_minimum_is_the_value_of_the_relaxation(road: str) -> None:
    priced = 0
    for seed in range(120):
        menus = some_menus(seed, share=0.5 if seed % 2 else 0.25)
        if menus is None or menus.num_capacities == 0:
            continue
        optimum = relaxed(menus)
        dual = solve_dual(menus, gap=1e-9)
        if optimum is None:
            continue
        assert not dual.infeasible, (road, seed)
        assert (dual.multipliers >= 0).all()
        assert bound_at(menus, dual.multipliers) == pytest.approx(dual.bound, rel=1e-12)
        assert dual.bound == pytest.approx(optimum, rel=1e-7), (road, seed)
        again = solve_dual(menus, gap=1e-9, start=dual.multipliers)
        assert again.bound == pytest.approx(optimum, rel=1e-7)
        assert len(dual.choices) == min(dual.evaluations, 12)
        assert all((menus.job[choice] == np.arange(menus.num_jobs)).all() for choice in dual.choices)
        priced += 1
    assert priced > 40


def test_prices_show_that_no_choice_fits(road: str) -> None:
    """Every option fits alone, and so do each capacity's smallest uses; three jobs of 2 do not into 2 + 2."""
    uses = np.array([[2, 0], [0, 2]] * 3)
    model = MultipleChoiceKnapsack.from_arrays(np.ones(6), uses, np.arange(4) * 2, [2, 2])
    menus = build(model)
    assert menus is not None
    assert relaxed(menus) is None
    assert solve_dual(menus).infeasible


def test_wrong_arrays_are_refused_not_read() -> None:
    compiled = load("multiknapsack.dual_c")
    if compiled is None:
        pytest.skip("the compiled dual was not built")
    menus = some_menus(3)
    assert menus is not None
    ring = np.zeros((12, menus.num_jobs), dtype=np.int64)
    prices = np.zeros(menus.num_capacities)
    arrays = [menus.values, menus.uses, menus.offsets, menus.capacities, prices, ring]
    for place in range(len(arrays)):
        short = [
            array.reshape(-1)[:-1].copy() if k == place else array.copy() for k, array in enumerate(arrays)
        ]
        with pytest.raises(ValueError, match="do not fit together"):
            compiled.solve(*short, 1e-9, 100, False)
    empty = menus.offsets.copy()
    empty[1] = empty[0]
    with pytest.raises(ValueError, match="is empty"):
        compiled.solve(menus.values, menus.uses, empty, menus.capacities, prices, ring, 1e-9, 100, False)
