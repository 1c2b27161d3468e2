"""What is there when the time is over before anything was searched: a plan, with as few moves as it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tests.solvers.multiknapsack.test_parts import relaxation

import apportion
from apportion.core.options import SolveOptions
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers import exact
from apportion.solvers.multiknapsack import repair, several_capacities, sparse_menus
from apportion.solvers.multiknapsack.dual import alike_prices
from apportion.solvers.multiknapsack.linear_dual import is_sifted
from apportion.solvers.multiknapsack.option_table import bound_at, build
from apportion.solvers.multiknapsack.proving import CoreAnswer
from apportion.solvers.multiknapsack.repair import by_density, cheapest, drawn_near, thinned
from apportion.solvers.strict_order import least_change


def _menus(jobs: int, capacities: int, seed: int, per_job: int = 4) -> MultipleChoiceKnapsack:
    """Optional jobs of which about every second one fits; values of few kinds, so that many options tie."""
    rng = np.random.default_rng(seed)
    return MultipleChoiceKnapsack.from_arrays(
        values=rng.integers(0, 4, jobs * per_job).astype(float),
        uses=rng.integers(1, 9, (jobs * per_job, capacities)),
        offsets=np.arange(0, jobs * per_job + 1, per_job),
        capacities=np.full(capacities, 2 * jobs),
        required=False,
    )


def _one_by_one(
    model: MultipleChoiceKnapsack, choice: np.ndarray[tuple[int], np.dtype[np.int64]], preferred: list[int]
) -> int:
    """Return how many jobs are at their preferred option after two rounds of asking each alone."""
    kept = choice.copy()
    for _ in range(2):
        for job, wanted in enumerate(preferred):
            trial = kept.copy()
            trial[job] = wanted
            if wanted >= 0 and model.objective(trial) == model.objective(kept) and model.fits(trial):
                kept = trial
    return int((kept == np.array(preferred)).sum())


@pytest.mark.parametrize("seed", range(6))
def test_least_change_against_asking_each_job_alone(seed: int) -> None:
    model = _menus(60, 2, seed)
    choice = exact.start(model)[0]
    assert choice is not None
    rng = np.random.default_rng(seed)
    preferred = np.arange(60) * 4 + rng.integers(0, 4, 60)
    preferred[rng.random(60) < 0.1] = -1
    kept = least_change(model, choice, preferred)
    assert model.fits(kept) and model.objective(kept) == model.objective(choice)
    # jobs that free something go back first, so at least as many as in the order of the jobs
    assert int((kept == preferred).sum()) >= _one_by_one(model, choice, preferred.tolist())


def test_least_change_stops_where_the_time_is_over() -> None:
    model = _menus(20_000, 2, 1).with_capacities(np.full(2, 200_000))
    # every job is left out and would rather have what is worth as little and uses most: there is room for all
    preferred = np.arange(20_000) * 4 + np.where(model.values == 0, model.uses.sum(axis=1), -1).reshape(
        -1, 4
    ).argmax(axis=1)
    choice = np.full(20_000, -1)
    asked = 0

    def late() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    some, all_ = least_change(model, choice, preferred, late), least_change(model, choice, preferred)
    assert asked == 3
    assert model.objective(some) == model.objective(all_) == model.objective(choice)
    assert (choice == preferred).sum() < (some == preferred).sum() <= (all_ == preferred).sum()


@pytest.mark.parametrize("capacities", [2, 40])
def test_a_limit_that_is_over_at_once_leaves_a_plan(capacities: int) -> None:
    # 300,000 jobs under a limit of a second ended with the empty plan: the first repair was cut
    model = _menus(2_000, capacities, 2)
    first = several_capacities.solve(model, SolveOptions(time_limit=1e-6))
    begun = exact.start(model, 0.0)[0]
    searched = exact.start(model)[0]
    assert first.point is not None and begun is not None and searched is not None
    for rows in (first.point.astype(np.int64), begun):
        assert model.fits(rows)
        assert model.objective(rows) > 0.5 * model.objective(searched)


@pytest.mark.parametrize("seed", range(4))
def test_a_thinned_choice_keeps_every_capacity(seed: int) -> None:
    menus = build(_menus(40, 3, seed))
    assert menus is not None
    least = cheapest(menus)
    found = thinned(menus, menus.best_choice(menus.values), least)
    assert found is not None and (menus.used(found) <= menus.capacities).all()
    wanted = menus.best_choice(menus.values)
    assert (((found == wanted) | (found == least)).all()) and menus.values[found].sum() > 0
    assert by_density(menus, wanted) is None  # what does not fit is no fallback


def racks(jobs: int, places: int, seed: int) -> MultipleChoiceKnapsack:
    """Return jobs of 4 to 32 GPUs, each option on one rack."""
    rng = np.random.default_rng(seed)
    room = rng.integers(16, 65, places)
    values, uses, offsets = [], [], [0]
    for _ in range(jobs):
        base = rng.random() * 10 + 1
        for size in (4, 8, 16, 32):
            worth = base * size ** rng.uniform(0.5, 0.95)
            for rack in np.flatnonzero(room >= size).tolist():
                values.append(worth * (1 + 0.05 * (rng.random() < 0.3)))
                uses.append(np.where(np.arange(places) == rack, size, 0))
        offsets.append(len(values))
    return MultipleChoiceKnapsack.from_arrays(values, np.array(uses), offsets, room, required=False)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limit", [1e-3, 0.05])
def test_no_limit_leaves_less_than_a_plain_greedy_choice(seed: int, limit: float) -> None:
    """120 jobs on 30 racks ended with 2,266 where options in the order of value by use give 5,211."""
    model = racks(60, 20, seed)
    share = (model.uses / model.capacities).sum(axis=1)
    owner, left, total = model.job_of_option(), model.capacities.copy(), 0.0
    done = np.zeros(model.num_jobs, dtype=np.bool_)
    for row in np.argsort(-model.values / share, kind="stable").tolist():
        if not done[owner[row]] and (model.uses[row] <= left).all():
            done[owner[row]], left, total = True, left - model.uses[row], total + float(model.values[row])
    objective = apportion.solve(model, time_limit=limit).objective
    assert objective is not None and objective >= total


def test_a_work_limit_counts_what_highs_does_before_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A work limit of 1,000 on 27,000 sparse options ran for 24 CPU seconds: roots have no nodes."""
    calls = []

    def at_the_root(*_: Any, **__: Any) -> CoreAnswer:
        calls.append(1)
        return CoreAnswer(None, None, False, 0, "made up", iterations=10_000)

    monkeypatch.setattr("apportion.solvers.multiknapsack.expanding_core.solve_core", at_the_root)
    monkeypatch.setattr(
        sparse_menus.SparseSearch, "_filled_anew", lambda *_, **__: False
    )  # takes it all before
    solution = apportion.solve(racks(120, 20, 1), deterministic=True, work_limit=500)
    assert (len(calls), solution.termination.value) == (1, "node_limit")


@pytest.mark.parametrize("seed", range(3))
def test_alike_racks_have_one_price_and_a_plan_is_drawn_near_it(seed: int) -> None:
    """The best options of all jobs are on one rack then: a plan of these alone leaves the others idle."""
    jobs, places, sizes = 400, 40, 2 ** np.arange(4)
    rng = np.random.default_rng(seed)
    worth = rng.random((jobs, 1, 1)) * sizes[:, None] ** 0.8 * np.ones(places)
    count = worth.size
    uses = scipy.sparse.csr_array(
        (np.tile(np.repeat(sizes, places), jobs), (np.arange(count), np.tile(np.arange(places), jobs * 4))),
        shape=(count, places),
    )
    room = np.full(places, 16)
    model = MultipleChoiceKnapsack.from_arrays(
        worth.ravel(), uses, np.arange(0, count + 1, 4 * places), room, required=False
    )
    menus = build(model)
    assert menus is not None and menus.is_sparse and is_sifted(menus)
    prices = alike_prices(menus)
    assert np.ptp(prices) == 0.0
    bound = bound_at(menus, prices)
    assert bound == pytest.approx(relaxation(model), rel=1e-3)
    known = np.where(np.arange(places) == 0, 10.0, prices)
    assert np.array_equal(alike_prices(menus, known), prices)
    assert np.array_equal(alike_prices(menus, prices), prices)
    scores, least = menus.scores(0.75 * prices), cheapest(menus)
    best = thinned(menus, menus.best_choice(scores), least)
    drawn = thinned(menus, drawn_near(menus, scores), least, 1.0)
    assert best is not None and drawn is not None and (menus.used(drawn) <= menus.capacities).all()
    assert menus.values[best].sum() < 0.1 * bound < 0.8 * bound < menus.values[drawn].sum()


@pytest.mark.parametrize("per_job", [0.0, 1.0])
def test_options_taken_one_by_one_are_those_taken_together(
    per_job: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        jobs, options, capacities = 200, 3, 1_200
        rows, uses = np.repeat(np.arange(jobs * options), 3), rng.integers(1, 6, 3 * jobs * options)
        table = scipy.sparse.csr_array((uses, (rows, rng.integers(0, capacities, rows.size))))
        table.resize(jobs * options, capacities)
        model = MultipleChoiceKnapsack.from_arrays(
            rng.integers(1, 100, jobs * options).astype(float),
            table,
            np.arange(0, jobs * options + 1, options),
            np.full(capacities, 6),
            required=False,
        )
        menus = build(model)
        assert menus is not None and menus.is_sparse
        monkeypatch.setattr(repair, "_LARGEST", 64)  # several portions
        one_by_one = by_density(menus, cheapest(menus), per_job)
        monkeypatch.undo()
        monkeypatch.setattr(repair, "_SEVERAL", 10**9)
        together = by_density(menus, cheapest(menus), per_job)
        monkeypatch.undo()
        assert one_by_one is not None and together is not None and (one_by_one == together).all()


def test_rows_that_hold_options_together_leave_somebody_something_after_no_time() -> None:
    """What uses least was no choice there, so that a call ended with nobody: here jobs wait by options."""
    nodes = [{"names": "n[0-15]", "at": {"rack": "r[0-3]"}, "capacity": {"gpu": 8}}]
    jobs = [
        {
            "id": f"j{k}",
            "options": [{"id": "x", "value": 1.0, "pods": [{"count": k % 6 + 1, "needs": {"gpu": 1}}]}],
        }
        for k in range(30)
    ]
    head = {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": nodes}
    rule = {"rule": "spread", "level": "node", "by": "job", "max": 1}
    given = apportion.read({**head, "jobs": jobs, "rules": [rule]})
    assert (apportion.solve(given, time_limit=0.001).objective or 0.0) >= 5.0
