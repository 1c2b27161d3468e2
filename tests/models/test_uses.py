"""Uses kept sparse say the same as uses in an array."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

import apportion
from apportion import InvalidInstance
from apportion.formulations.multiple_choice import MenuFormulation
from apportion.instances import options as options_module
from apportion.instances.draft import with_jobs
from apportion.models import MultipleChoiceKnapsack
from apportion.models import uses as uses_module
from apportion.models.lagrangian import exact_lagrangian_bound, lagrangian_bound
from apportion.models.lowering import lower
from apportion.models.splice import difference
from apportion.proofs.certificate import instance_digest
from apportion.solving import evidence
from apportion.solving.evidence import with_proof
from tests.budgets import examples
from tests.strategies import knapsacks

FORMATS = (sparse.csr_array, sparse.coo_array, sparse.csc_array, sparse.csr_matrix)


def kept_sparse(model: MultipleChoiceKnapsack, form: Any = sparse.csr_array) -> MultipleChoiceKnapsack:
    """Return the same menus with their uses kept sparse."""
    return model.under(form(model.uses), model.capacities, model.capacity_names)


@settings(max_examples=examples(60))
@given(model=knapsacks(min_capacities=2))
def test_every_question_has_the_same_answer(model: MultipleChoiceKnapsack) -> None:
    rng = np.random.default_rng(model.num_options)
    for form in FORMATS:
        other = kept_sparse(model, form)
        assert not isinstance(other.matrix, np.ndarray)
        assert np.array_equal(other.uses, model.uses)
        assert instance_digest(other) == instance_digest(model)
    prices = rng.random(model.num_capacities)
    assert np.allclose(other.paid(prices), model.paid(prices), rtol=1e-14)
    assert exact_lagrangian_bound(other, prices) == exact_lagrangian_bound(model, prices)
    shown, known = lagrangian_bound(other, prices), lagrangian_bound(model, prices)
    assert shown == known if known is None else shown == pytest.approx(known, rel=1e-12)
    sizes = np.diff(model.offsets)
    for _ in range(5):
        choice = np.where(sizes > 0, model.offsets[:-1] + rng.integers(0, np.maximum(sizes, 1)), -1)
        choice[rng.random(sizes.size) < 0.3] = -1
        assert np.array_equal(other.used(choice), model.used(choice))
        assert other.check(choice) == model.check(choice)
    one, two = lower(other).model, lower(model).model
    assert np.array_equal(one.matrix().toarray(), two.matrix().toarray())
    assert np.array_equal(one.row_upper, two.row_upper)


@settings(max_examples=examples(40))
@given(model=knapsacks(min_capacities=2))
@pytest.mark.parametrize("backend", ["auto", "highs"])
def test_both_are_solved_alike(model: MultipleChoiceKnapsack, backend: str) -> None:
    one = apportion.solve(kept_sparse(model), backend=backend)
    two = apportion.solve(model, backend=backend)
    assert one.termination == two.termination
    assert one.objective == (two.objective if two.objective is None else pytest.approx(two.objective))


@settings(max_examples=examples(40))
@given(model=knapsacks(min_capacities=2), fresh=knapsacks(min_capacities=2))
def test_menus_are_put_together_alike(model: MultipleChoiceKnapsack, fresh: MultipleChoiceKnapsack) -> None:
    if fresh.num_capacities != model.num_capacities or fresh.sense != model.sense:
        return
    earlier = [object() for _ in range(model.num_jobs)]
    now = [*earlier[1:], *(object() for _ in range(fresh.num_jobs))]
    splice = difference(earlier, now)
    other = kept_sparse(model).spliced(splice, kept_sparse(fresh), model.capacities)
    dense = model.spliced(splice, fresh, model.capacities)
    assert not isinstance(other.matrix, np.ndarray)
    assert np.array_equal(other.uses, dense.uses) and np.array_equal(other.values, dense.values)


@pytest.mark.parametrize(
    ("uses", "said"),
    [
        (sparse.csr_array(np.array([[0.5, 1.0]])), "must be integers"),
        (sparse.csr_array(np.array([[-1, 1]])), "at least 0"),
        (sparse.csr_array(np.array([[1, 2, 3]])), "shape is"),
        (sparse.coo_array(([2**62 - 1] * 5, ([0] * 5, [1] * 5)), shape=(1, 2)), "twice"),
        (sparse.csr_array(np.array([[2**61, 1]])), None),
    ],
)
def test_what_is_wrong_with_them_is_an_error(uses: Any, said: str | None) -> None:
    make = MultipleChoiceKnapsack.from_arrays
    if said is None:
        assert make([1.0], uses, [0, 1], [2**61, 1]).used(np.array([0])).tolist() == [2**61, 1]
        return
    with pytest.raises(InvalidInstance, match=said):
        make([1.0], uses, [0, 1], [3, 3])


def test_a_million_options_of_three_uses_are_small_and_never_an_array_by_accident() -> None:
    jobs, each, capacities = 100_000, 10, 3_000
    rng = np.random.default_rng(0)
    options = jobs * each
    column = rng.integers(0, capacities // 3, (options, 3)) * 3 + np.arange(3)
    begins = np.arange(options + 1) * 3
    given_uses = sparse.csr_array(
        (rng.integers(1, 9, column.size), column.ravel(), begins), shape=(options, capacities)
    )
    values, offsets = rng.random(options), np.arange(jobs + 1) * each
    tracemalloc.start()
    model = MultipleChoiceKnapsack.from_arrays(
        values, given_uses, offsets, np.full(capacities, 50), required=False
    )
    choice = np.where(np.arange(jobs) % 9, -1, offsets[:-1])
    used, paid = model.used(choice), model.paid(np.ones(capacities))
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used.sum() == paid[choice[choice >= 0]].sum()
    assert largest < 150 * 2**20
    with pytest.raises(InvalidInstance, match="22 GiB"):
        _ = model.uses


def test_what_reads_them_as_an_array_says_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MultipleChoiceKnapsack.from_arrays(
        [2.0, 1.0], sparse.csr_array([[1, 0], [0, 1]]), [0, 1, 2], [1, 1]
    )
    solution = apportion.solve(model)
    for module, name in ((evidence, "LARGEST_LOSSES"), (uses_module, "_MOST_CELLS")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, 3)
            unproved = with_proof(solution, None)
        assert unproved.plan.tolist() == [0, 1] and unproved.proof is None
        assert any("no proof was found" in note and "as an array" in note for note in unproved.notes)
    monkeypatch.setattr(uses_module, "_MOST_CELLS", 3)
    with pytest.raises(InvalidInstance, match="as an array"):
        apportion.explain(model)


def test_wide_instances_are_compiled_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    options = tuple(
        apportion.KnapsackOption(f"o{rack}", float(7 * rack % 11), {f"rack {rack}": 1 + rack % 3})
        for rack in range(30)
    )
    instance = apportion.MultipleChoiceKnapsackInstance(
        "1",
        "maximize",
        {f"rack {rack}": 3 for rack in range(30)},
        tuple(apportion.KnapsackJob(f"j{job}", options[job:], required=False) for job in range(20)),
    )
    dense = MenuFormulation(instance)
    known = apportion.solve(instance)
    monkeypatch.setattr(options_module, "_CELLS", 0)
    kept = MenuFormulation(instance)
    assert isinstance(dense.model.matrix, np.ndarray) and not isinstance(kept.model.matrix, np.ndarray)
    assert np.array_equal(dense.model.uses, kept.model.uses)
    fewer = with_jobs(instance, instance.jobs[3:])
    changed = kept.patched(fewer)
    assert changed is not None and np.array_equal(changed.model.uses, MenuFormulation(fewer).model.uses)
    assert apportion.solve(instance).objective == known.objective
