"""The decomposition against enumeration, the engine for one machine and HiGHS; shards, ties, kills, files."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.errors import ApportionError, InvalidInstance, InvalidOption
from apportion.core.outcome import Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lagrangian import exact_lagrangian_bound, lagrangian_bound
from apportion.scale.decomposition import (
    ArrayMenus,
    GeneratedMenus,
    Part,
    Shard,
    ShardedKnapsack,
    ShardedSolution,
    StoredMenus,
    check_sharded,
    solve_sharded,
    store,
)
from apportion.scale.decomposition.answering import Question, answer
from apportion.scale.decomposition.finishing import share_of_bound
from apportion.scale.decomposition.sharding import blocks, spread
from apportion.scale.executors import open_executor
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.strategies import knapsacks


def sharded(model: MultipleChoiceKnapsack, shards: int = 3, step: int = 2) -> ShardedKnapsack:
    capacities = model.capacities.tolist()
    return ShardedKnapsack.split(ArrayMenus(model), model.num_jobs, capacities, shards, model.sense, step)


def generated(jobs: int, seed: int = 0, shards: int = 5, **given: Any) -> ShardedKnapsack:
    menus = GeneratedMenus(seed, **given)
    return ShardedKnapsack.split(menus, jobs, menus.room(jobs), shards)


def whole(problem: ShardedKnapsack) -> MultipleChoiceKnapsack:
    part = problem.shards[0].menus(0, problem.num_jobs)
    required = np.broadcast_to(np.asarray(part.required), (problem.num_jobs,))
    return MultipleChoiceKnapsack.from_arrays(
        part.values, part.uses, part.offsets, problem.capacities, required, problem.sense
    )


def rows(model: MultipleChoiceKnapsack, solution: ShardedSolution) -> np.ndarray:
    positions = solution.positions()
    return np.where(positions < 0, -1, model.offsets[:-1] + positions)


def assert_sound(model: MultipleChoiceKnapsack, solution: ShardedSolution) -> None:
    """The plan passes the model's own check, and the bound is that of the multipliers, rounded outward."""
    report = model.check(rows(model, solution))
    assert report.feasible
    assert solution.objective == pytest.approx(report.objective, rel=1e-12, abs=1e-12)
    assert list(solution.used.values()) == model.used(rows(model, solution)).tolist()
    multipliers = np.array(list(solution.multipliers.values()))
    if model.num_jobs > 5000:  # rational arithmetic takes a while
        quick = lagrangian_bound(model, multipliers)
        assert quick is not None and solution.bound == pytest.approx(quick, rel=1e-12)
        return
    exact = exact_lagrangian_bound(model, multipliers)
    assert exact is not None and solution.bound is not None
    sign = 1 if model.sense == "maximize" else -1
    assert sign * solution.bound >= sign * exact
    assert abs(solution.bound - float(exact)) <= 1e-9 * max(
        1.0, float(np.abs(model.values).sum()), abs(exact)
    )


@given(
    knapsacks(),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 8),
    st.sampled_from([0, 2, 2000]),
    st.sampled_from([1, 100]),
)
@settings(max_examples=examples(150))
def test_any_small_knapsack_gets_a_feasible_plan_and_a_valid_bound(
    model: MultipleChoiceKnapsack, shards: int, step: int, sample: int, core: int, keep: int
) -> None:
    best = enumerate_knapsack(model)
    solution = solve_sharded(
        sharded(model, shards, step), gap=0.0, sample=sample, growth=2, core=core, keep=keep
    )
    if best is None:
        assert solution.objective is None and not solution.parts
        assert solution.termination in (Termination.INFEASIBLE, Termination.NODE_LIMIT)
        assert core < 2000 or keep < 100 or solution.termination is Termination.INFEASIBLE
        return
    assert solution.termination is not Termination.INFEASIBLE
    if solution.objective is None:  # only where the price alone had to decide
        assert core < 2000 or keep < 100
        return
    assert_sound(model, solution)
    sign = 1.0 if model.sense == "maximize" else -1.0
    assert solution.bound is not None
    assert sign * solution.bound >= sign * best[0] - 1e-9
    if core >= model.num_jobs and keep >= 100:
        assert solution.objective == pytest.approx(best[0], abs=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("capacities", "law", "tolerance"),
    [(1, "uncorrelated", 3e-6), (1, "alike", 5e-5), (3, "uncorrelated", 2e-5), (2, "alike", 1e-4)],
)
def test_it_agrees_with_the_engine_for_one_machine(capacities: int, law: Any, tolerance: float) -> None:
    problem = generated(30_000, capacities=capacities, law=law)
    model = whole(problem)
    ours = solve_sharded(problem, gap=1e-6, sample=3000, growth=4, core_time_limit=0.5)
    theirs = apportion.solve(model, gap=1e-6, time_limit=1.0)
    assert_sound(model, ours)
    assert ours.gap is not None and ours.gap <= tolerance
    assert theirs.objective is not None and theirs.bound is not None
    assert ours.bound is not None and ours.objective is not None
    assert ours.bound == pytest.approx(theirs.bound, rel=2e-6)
    assert theirs.objective <= ours.bound
    assert ours.objective >= theirs.objective * (1 - tolerance)


def test_it_agrees_with_highs() -> None:
    problem = generated(400, shards=3)
    ours = solve_sharded(problem, gap=1e-9, sample=100, core=80)
    theirs = apportion.solve(whole(problem), backend="highs", gap=1e-6, time_limit=20.0)
    assert theirs.objective is not None and ours.objective is not None and ours.bound is not None
    assert theirs.objective <= ours.bound * (1 + 1e-12)
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-4)


def test_how_the_jobs_are_cut_into_shards_changes_nothing_that_is_proven() -> None:
    bounds, objectives = [], []
    for shards, step in ((1, 1 << 14), (4, 1 << 12), (13, 700)):
        menus = GeneratedMenus(5)
        problem = ShardedKnapsack.split(menus, 40_000, menus.room(40_000), shards, step=step)
        solution = solve_sharded(problem, gap=1e-9, sample=5000)
        assert solution.bound is not None and solution.objective is not None
        bounds.append(solution.bound)
        objectives.append(solution.objective)
    assert max(bounds) == pytest.approx(min(bounds), rel=1e-12)
    assert max(objectives) == pytest.approx(min(objectives), rel=1e-6)


def test_a_sample_that_misleads_costs_passes_and_nothing_else() -> None:
    """Jobs in order of size: a sample of the first of every range says little about the rest."""
    rng = np.random.default_rng(2)
    jobs = 20_000
    size = np.sort(rng.lognormal(0.0, 1.0, jobs))[:, None]
    uses = np.maximum(1, (100 * size * rng.random((jobs, 4))).astype(np.int64))
    values = size * rng.random((jobs, 4)) * 50
    model = MultipleChoiceKnapsack.from_arrays(
        values.reshape(-1), uses.reshape(-1), np.arange(0, 4 * jobs + 1, 4), [int(uses.sum()) // 5], False
    )
    problem = sharded(model, 4, 5000)
    solution = solve_sharded(problem, gap=1e-6, sample=40)
    assert_sound(model, solution)
    assert solution.gap is not None and solution.gap <= 1e-6
    assert len(solution.passes) <= 9


def test_few_open_jobs_may_come_back_at_a_time() -> None:
    problem = generated(50_000)
    tight = solve_sharded(problem, sample=2000, keep=500, core=100)
    loose = solve_sharded(problem, sample=2000)
    assert max(one.kept_jobs for one in tight.passes) <= 500
    assert tight.gap is not None and tight.gap <= 1e-5
    assert tight.bound == pytest.approx(loose.bound, rel=1e-6)


def test_too_little_for_the_required_jobs_is_infeasible_and_said_at_once() -> None:
    problem = replace(generated(3000), capacities=(3000,))
    solution = solve_sharded(problem, sample=500)
    assert solution.termination is Termination.INFEASIBLE
    assert solution.objective is None and not solution.parts


def test_just_enough_for_the_required_jobs_leaves_one_plan() -> None:
    model = whole(generated(3000, options=3))
    least = int(np.minimum.reduceat(model.uses[:, 0], model.offsets[:-1]).sum())
    solution = solve_sharded(replace(generated(3000, options=3), capacities=(least,)), sample=500, core=100)
    assert solution.objective is not None
    assert list(solution.used.values()) == [least]


def test_more_than_enough_costs_nothing() -> None:
    problem = replace(generated(3000), capacities=(10**12,))
    solution = solve_sharded(problem, sample=500, core=100, gap=0.0)
    model = whole(problem)
    assert solution.objective == pytest.approx(np.maximum.reduceat(model.values, model.offsets[:-1]).sum())
    assert solution.termination is Termination.OPTIMAL


@given(knapsacks(max_jobs=8), st.lists(st.floats(0.0, 50.0), min_size=3, max_size=3))
@settings(max_examples=examples(60))
def test_shares_of_the_bound_add_up_to_the_models_bound(
    model: MultipleChoiceKnapsack, prices: list[float]
) -> None:
    multipliers = np.array(prices[: model.num_capacities])
    exact = exact_lagrangian_bound(model, multipliers)
    if exact is None:
        return
    sign = 1.0 if model.sense == "maximize" else -1.0
    half = model.num_jobs // 2
    menus = ArrayMenus(model)
    total, rounding = 0.0, 0.0
    for first, last in ((0, half), (half, model.num_jobs)):
        part = menus(first, last)
        nothing = np.zeros(model.num_capacities, dtype=np.int64)
        piece = MultipleChoiceKnapsack.from_arrays(
            part.values, part.uses, part.offsets, nothing, part.required
        )
        share, margin = share_of_bound(piece, multipliers, sign)
        total, rounding = total + share, rounding + margin
    paid = float(multipliers @ model.capacities)
    assert abs(sign * (paid + total) - float(exact)) <= rounding + 1e-12 * (1.0 + paid)
    quick = lagrangian_bound(model, multipliers)
    assert quick is None or quick == pytest.approx(sign * (paid + total), rel=1e-9, abs=1e-9)


@given(knapsacks(max_jobs=8, max_options=4), st.lists(st.floats(0.0, 5.0), min_size=6, max_size=6))
@settings(max_examples=examples(80))
def test_a_settled_job_keeps_its_option_everywhere_in_the_box(
    model: MultipleChoiceKnapsack, drawn: list[float]
) -> None:
    if (model.required & (np.diff(model.offsets) == 0)).any() or not model.num_jobs:
        return
    size = model.num_capacities
    low, width = np.array(drawn[:size]), np.array(drawn[3 : 3 + size])
    question = Question(low + width / 3, low, low + width, np.zeros(size), True, 100, 1, None, 1.0, True)
    told = answer(Shard(0, model.num_jobs, ArrayMenus(model), 3), question)
    opened = set(told.kept.number.tolist())
    nothing = np.zeros(size, dtype=np.int64)
    part = MultipleChoiceKnapsack.from_arrays(
        model.values, model.uses, model.offsets, nothing, model.required
    )
    for block in blocks(part, 0, 1.0):
        zero = np.zeros((block.number.size, size))
        here = block.scores(question.price, zero, nothing.astype(float))
        best = here.argmax(axis=1)
        for corner in np.ndindex(*(2,) * size):
            there = block.scores(low + width * np.array(corner), zero, nothing.astype(float))
            lost = there.max(axis=1) - there[np.arange(best.size), best]
            scale = 1.0 + np.abs(block.value[block.value > -np.inf]).max(initial=0.0)
            assert set(block.number[lost > 1e-9 * scale].tolist()) <= opened


def test_spread_is_even_and_depends_on_the_number_alone() -> None:
    for size in (1, 2, 5):
        xi = spread(np.arange(10**12, 10**12 + 4096), size)
        assert xi.shape == (4096, size)
        assert (xi >= 0).all() and (xi <= 1).all()
        assert (np.abs(np.sort(xi, axis=0) - np.linspace(0, 1, 4096)[:, None]) < 0.01).all()
        np.testing.assert_array_equal(xi[7:9], spread(np.array([10**12 + 7, 10**12 + 8]), size))


def test_generated_menus_are_the_same_from_wherever_they_are_read() -> None:
    menus = GeneratedMenus(3, options=2, capacities=2)
    all_of = menus(0, 40_000)
    part = menus(16_000, 33_000)
    np.testing.assert_array_equal(part.values, all_of.values[32_000:66_000])
    np.testing.assert_array_equal(part.uses, all_of.uses[32_000:66_000])


class DeadlyOnce:
    """Menus whose first reading of one job in the second half kills the process that reads it."""

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.menus = GeneratedMenus(7)

    def __call__(self, first: int, last: int) -> Part:
        if first >= 20_000 and not Path(self.marker).exists():
            Path(self.marker).write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.menus(first, last)


def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    menus = DeadlyOnce(str(tmp_path / "marker"))
    jobs, room = 40_000, menus.menus.room(40_000)
    calm = solve_sharded(ShardedKnapsack.split(menus.menus, jobs, room, 6), sample=4000)
    with open_executor("process:2") as executor:
        struck = solve_sharded(
            ShardedKnapsack.split(menus, jobs, room, 6), executor, sample=4000, folder=str(tmp_path)
        )
    assert Path(menus.marker).exists()
    assert struck.objective == calm.objective
    assert struck.bound == calm.bound
    np.testing.assert_array_equal(struck.positions(), calm.positions())


def test_a_plan_in_files_is_checked_from_the_files_and_edits_show(tmp_path: Path) -> None:
    menus = GeneratedMenus(9)
    parts = (menus(first, first + 1000) for first in range(0, 5000, 1000))
    assert store(parts, tmp_path / "menus") == 5000
    stored = StoredMenus(str(tmp_path / "menus"))
    problem = ShardedKnapsack.split(stored, 5000, menus.room(5000), 3, step=500)
    folder = tmp_path / "plan"
    folder.mkdir()
    solution = solve_sharded(problem, folder=str(folder), sample=1000)
    assert_sound(whole(problem), solution)
    assert all(part.positions is None for part in solution.parts)
    report = check_sharded(problem, str(folder), exact_jobs=50)
    assert report.feasible and report.objective == solution.objective
    recut = ShardedKnapsack.split(stored, 5000, menus.room(5000), 2, step=300)
    assert check_sharded(recut, str(folder)).feasible

    smaller = replace(problem, capacities=(problem.capacities[0] // 2,))
    assert "capacity" in {one.rule for one in check_sharded(smaller, str(folder)).violations}
    manifest = (folder / "plan.json").read_text()
    assert solution.bound is not None
    (folder / "plan.json").write_text(manifest.replace(str(solution.bound), str(solution.bound * 0.999)))
    assert [one.rule for one in check_sharded(problem, str(folder)).violations] == ["verified_bound"]
    (folder / "plan.json").write_text(manifest)
    first = folder / str(solution.parts[0].file)
    edited = np.load(first)
    edited[5] = (edited[5] + 1) % 8
    np.save(first, edited)
    assert "not the one that was written" in str(check_sharded(problem, str(folder)).violations[0])
    (folder / "plan.json").write_text("{}")
    with pytest.raises(InvalidInstance, match=r"plan\.json"):
        check_sharded(problem, str(folder))


def test_positions_outside_a_menu_are_violations(tmp_path: Path) -> None:
    from apportion.scale.decomposition.finishing import check_shard

    shard = generated(100).shards[0]
    positions = np.zeros(shard.num_jobs, dtype=np.int8)
    positions[[1, 2]] = 8, -1
    told = check_shard(shard, positions, (np.zeros(1),), 1.0).violations
    assert told == ("job 1 is given option 8, which it has not", "job 2 is left out")
    assert (
        "must be whole numbers [20]" in check_shard(shard, positions[:3], (np.zeros(1),), 1.0).violations[0]
    )


class Fickle:
    """Menus that are others at every reading."""

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self, first: int, last: int) -> Part:
        self.readings += 1
        return GeneratedMenus(self.readings)(first, last)


def broken(first: int, last: int) -> Part:
    return Part(np.array([np.nan]), np.ones((1, 1), dtype=np.int64), np.array([0, 1]), True)


def test_menus_that_change_or_are_none_are_refused() -> None:
    with pytest.raises(ApportionError, match="do the menus change"):
        solve_sharded(ShardedKnapsack((Shard(0, 5000, Fickle()),), (10**6,)), sample=100, core=10)
    with pytest.raises(InvalidInstance, match=r"\$\.shards\[1\]\.values"):
        solve_sharded(ShardedKnapsack((Shard(0, 5, GeneratedMenus(1)), Shard(5, 6, broken)), (10**6,)))


def test_wrong_arguments_are_named() -> None:
    menus = GeneratedMenus(1)
    with pytest.raises(InvalidInstance, match=r"shards\[1\].*begin at job 5"):
        ShardedKnapsack((Shard(0, 5, menus), Shard(6, 9, menus)), (3,))
    with pytest.raises(InvalidInstance, match="capacities"):
        ShardedKnapsack((Shard(0, 5, menus),), ())
    with pytest.raises(InvalidInstance, match="sense"):
        ShardedKnapsack((Shard(0, 5, menus),), (1,), "most")  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="shards"):
        ShardedKnapsack((), (1,))
    with pytest.raises(InvalidOption, match="growth"):
        solve_sharded(generated(10), growth=1)


def test_a_folder_of_menus_says_what_it_does_not_hold(tmp_path: Path) -> None:
    store([GeneratedMenus(1)(0, 10)], tmp_path / "menus")
    stored = StoredMenus(str(tmp_path / "menus"), first=100)
    assert stored(103, 105).values.size == 16
    for first, last in ((0, 5), (105, 111)):
        with pytest.raises(InvalidOption, match=f"does not hold jobs {first} to {last - 1}"):
            stored(first, last)
    with pytest.raises(FileExistsError):
        store([], tmp_path / "menus")


def test_no_jobs_are_no_trouble() -> None:
    solution = solve_sharded(generated(0, shards=2))
    assert solution.objective == 0.0
    assert solution.positions().size == 0


def test_the_programs_of_the_page_print_what_it_says(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (root / "docs" / "beyond_one_machine.md").read_text()
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL)
    assert len(pairs) == 2
    for program, printed in pairs:
        exec(compile(program, "beyond_one_machine.md", "exec"), {})
        assert capsys.readouterr().out.strip() == printed.strip()
