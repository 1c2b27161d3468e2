"""Places that are emptied and filled again: what comes of it fits and is never worse."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack import several_capacities
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, build
from apportion.solvers.multiknapsack.ruin_recreate import Places, RuinRecreate

COUNTED = SolveOptions(deterministic=True)


def packing(seed: int, nodes: int, shapes: int, each: int, required: bool = False) -> MultipleChoiceKnapsack:
    """Return jobs of some shapes on nodes of two resources, each worth more on earlier nodes."""
    random = np.random.default_rng(seed)
    needs = np.repeat(random.integers([1, 10], [60, 400], (shapes, 2)), each, axis=0)
    worth = (needs / [64.0, 450.0]).sum(axis=1)
    values = np.rint(1e4 * worth[:, None] * (1.0 - np.arange(nodes) / (2 * nodes))).ravel()
    options = np.arange(values.size)
    columns = 2 * (options % nodes)
    uses = np.repeat(needs, nodes, axis=0)
    matrix = csr_array(
        (uses.ravel(), (np.repeat(options, 2), np.stack((columns, columns + 1), axis=1).ravel())),
        shape=(options.size, 2 * nodes),
    )
    offsets = nodes * np.arange(needs.shape[0] + 1)
    capacities = np.tile([64, 450], nodes)
    return MultipleChoiceKnapsack.from_arrays(values, matrix, offsets, capacities, required=required)


def search(
    model: MultipleChoiceKnapsack, start: Any, seed: int = 0, solve: Any = several_capacities.solve
) -> tuple[RuinRecreate | None, ChoiceIncumbent]:
    """Return a search from a choice of rows, and its incumbent; none where there are no places."""
    menus, clock = build(model), Clock(COUNTED)
    assert menus is not None
    best = ChoiceIncumbent(model, COUNTED, clock)
    assert best.take(np.asarray(start, dtype=np.int64))
    places = Places.among(menus)
    return None if places is None else RuinRecreate(menus, places, best, clock, seed, solve), best


def test_nodes_are_filled_to_the_brim() -> None:
    model = packing(1, nodes=12, shapes=40, each=2)
    places, best = search(model, np.full(model.num_jobs, -1))
    assert places is not None
    prices = several_capacities.solve(model, SolveOptions(work_limit=1.0))
    assert prices.multipliers is not None and prices.bound is not None
    bound = prices.bound
    places.sweep(prices.multipliers, 10.0)
    swept = best.value
    assert swept is not None and swept >= 0.97 * bound
    places.run(prices.multipliers, 0.5)
    assert best.value is not None and swept < best.value <= bound


def test_the_same_seed_takes_the_same_turns() -> None:
    model = packing(4, nodes=8, shapes=12, each=2)
    found = []
    for _ in range(2):
        places, best = search(model, np.full(model.num_jobs, -1), seed=7)
        assert places is not None
        places.run(np.zeros(16), 0.3)
        found.append(best.point)
    assert found[0] is not None and found[1] is not None and (found[0] == found[1]).all()


@pytest.mark.parametrize("seed", range(40))
def test_what_is_found_fits_and_is_never_worse(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes, jobs = int(random.integers(2, 5)), int(random.integers(2, 5))
    rows: list[tuple[int, int, int]] = []
    values, offsets = [], [0]
    for _ in range(jobs):
        for _ in range(int(random.integers(1, 4))):
            node = int(random.integers(-1, nodes))  # no node: the option uses nothing
            if node >= 0:
                rows += [(len(values), 2 * node + k, int(random.integers(0, 4))) for k in range(2)]
            values.append(float(random.integers(-5, 20)))
        offsets.append(len(values))
    option, capacity, use = np.array(rows or [(0, 0, 0)]).T
    matrix = csr_array((use, (option, capacity)), shape=(len(values), 2 * nodes), dtype=np.int64)
    required = random.random(jobs) < 0.4
    model = MultipleChoiceKnapsack.from_arrays(
        np.array(values), matrix, np.array(offsets), random.integers(1, 6, 2 * nodes), required=required
    )
    menus = [
        [*range(a, b), *([] if need else [-1])]
        for a, b, need in zip(offsets, offsets[1:], required, strict=False)
    ]
    fitting = [np.array(choice) for choice in product(*menus) if model.fits(np.array(choice))]
    if not fitting:
        return
    worst = min(fitting, key=model.objective)
    most = max(map(model.objective, fitting))
    menus_built = build(model)
    if menus_built is None or menus_built.num_capacities == 0 or not (menus_built.locate(worst) >= 0).all():
        return
    places, best = search(model, worst, seed)
    if places is not None:
        prices = random.uniform(0.0, 3.0, menus_built.num_capacities)
        places.sweep(prices, 1.0)
        places.run(prices, 0.2)
    assert best.objective is not None and model.objective(worst) <= best.objective <= most
    assert best.point is not None and model.fits(best.point)


def test_jobs_that_must_run_keep_a_place() -> None:
    model = packing(5, nodes=6, shapes=6, each=1, required=True)
    first = several_capacities.solve(model, SolveOptions(work_limit=1e5, deterministic=True))
    assert first.point is not None
    places, best = search(model, first.point)
    assert places is not None
    places.run(np.full(12, 0.1), 0.5)
    assert best.point is not None and (best.point >= 0).all()


def test_an_interruption_of_one_place_ends_the_search() -> None:
    model = packing(6, nodes=4, shapes=6, each=1)

    def interrupted(part: MultipleChoiceKnapsack, options: SolveOptions) -> Outcome:
        return Outcome(termination=Termination.INTERRUPTED, raw_status="interrupted")

    places, _ = search(model, np.full(model.num_jobs, -1), solve=interrupted)
    assert places is not None
    with pytest.raises(KeyboardInterrupt):
        places.run(np.zeros(8), 1.0)


def test_capacities_that_one_option_links_are_no_places() -> None:
    uses = csr_array(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]]))
    model = MultipleChoiceKnapsack.from_arrays(
        np.array([3.0, 2.0, 1.0]), uses, np.array([0, 1, 2, 3]), np.array([1, 1, 1]), required=False
    )
    places, _ = search(model, [-1, -1, -1])
    assert places is None


def test_a_deterministic_call_ends_at_its_limit_while_a_core_is_solved() -> None:
    model = packing(7, nodes=20, shapes=60, each=2)
    outcome = several_capacities.solve(model, SolveOptions(deterministic=True, time_limit=3.0))
    assert outcome.termination is Termination.TIME_LIMIT and outcome.point is not None
