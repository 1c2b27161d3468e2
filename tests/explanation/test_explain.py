"""Explanations: conflicts are irreducible, relaxations least, worths differences of enumerated optima."""

from __future__ import annotations

import json
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import apportion
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.explanation import Conflict, Explanation, Relaxation, explain
from apportion.explanation.resolver import held_to, with_capacities
from apportion.explanation.subject import Subject
from apportion.formulations.gap_filling.by_count import GapFillingByCount
from apportion.instances import (
    GapFillingInstance,
    GapFillingJob,
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
    ScalingCurve,
    kind_of,
)
from apportion.models import MultipleChoiceKnapsack
from tests.budgets import examples
from tests.enumerating import ENUMERATION
from tests.oracles import enumerate_knapsack
from tests.strategies import gap_filling_instances, knapsack_instances, knapsacks

Any = GapFillingInstance | MultipleChoiceKnapsackInstance | MultipleChoiceKnapsack


def close(left: float | None, right: float, scale: float = 1.0) -> bool:
    return left is not None and abs(left - right) <= 1e-8 * max(1.0, abs(scale))


def feasible(demand: MultipleChoiceKnapsack, jobs: set[int], capacities: set[int]) -> bool:
    """Whether some jobs can be served from some capacities, by trying every combination."""
    menus = [range(int(demand.offsets[job]), int(demand.offsets[job + 1])) for job in sorted(jobs)]
    columns = sorted(capacities)
    for rows in product(*menus):
        used = demand.uses[list(rows)].sum(axis=0)
        if (used[columns] <= demand.capacities[columns]).all():
            return True
    return False


def members(instance: Any, conflict: Conflict) -> tuple[set[int], set[int]]:
    structure = Subject(instance).menus
    jobs, capacities = list(structure.job_names()), list(structure.model.capacity_names)
    return {jobs.index(job) for job in conflict.jobs}, {capacities.index(k) for k in conflict.capacities}


def smallest_conflict(demand: MultipleChoiceKnapsack) -> int:
    """The fewest members of any conflict, by trying every set of required jobs and capacities."""
    required = np.flatnonzero(demand.required).tolist()
    columns = range(demand.num_capacities)
    for size in range(1, len(required) + demand.num_capacities + 1):
        for number in range(max(1, size - demand.num_capacities), min(size, len(required)) + 1):
            for jobs in combinations(required, number):
                for some in combinations(columns, size - number):
                    if not feasible(demand, set(jobs), set(some)):
                        return size
    raise AssertionError("feasible")


def assert_conflicts(instance: Any, explanation: Explanation) -> None:
    demand = Subject(instance).menus.demand()
    assert explanation.conflicts
    for conflict in explanation.conflicts:
        assert conflict.irreducible
        assert not conflict.undecided
        jobs, capacities = members(instance, conflict)
        assert all(demand.required[job] for job in jobs)
        assert not feasible(demand, jobs, capacities)
        for job in jobs:
            assert feasible(demand, jobs - {job}, capacities)
        for k in capacities:
            assert feasible(demand, jobs, capacities - {k})
    sizes = [len(conflict.jobs) + len(conflict.capacities) for conflict in explanation.conflicts]
    assert explanation.conflicts[0].smallest  # small enough for the whole search
    assert sizes[0] == min(sizes) == smallest_conflict(demand)


def least_addition(demand: MultipleChoiceKnapsack) -> float:
    menus = [
        range(int(demand.offsets[job]), int(demand.offsets[job + 1]))
        for job in np.flatnonzero(demand.required)
    ]
    room = np.maximum(demand.capacities, 1)
    return min(
        float((np.maximum(demand.uses[list(rows)].sum(axis=0) - demand.capacities, 0) / room).sum())
        for rows in product(*menus)
    )


def fewest_left_out(demand: MultipleChoiceKnapsack) -> int:
    required = set(np.flatnonzero(demand.required).tolist())
    columns = set(range(demand.num_capacities))
    for number in range(len(required) + 1):
        for gone in combinations(sorted(required), number):
            if feasible(demand, required - set(gone), columns):
                return number
    raise AssertionError("unreachable")


def assert_relaxations(instance: Any, explanation: Explanation) -> None:
    demand = Subject(instance).menus.demand()
    ways: dict[str, Relaxation] = {way.kind: way for way in explanation.relaxations}
    assert ways["leave_out"].verified
    assert ways["leave_out"].minimal
    assert len(ways["leave_out"].leave_out) == ways["leave_out"].cost == fewest_left_out(demand)
    empty = (demand.required & (np.diff(demand.offsets) == 0)).any()
    assert ("add_capacity" in ways) == (not empty)
    if not empty:
        assert ways["add_capacity"].verified
        assert ways["add_capacity"].minimal
        assert close(ways["add_capacity"].cost, least_addition(demand))


def optimum(model: MultipleChoiceKnapsack) -> float | None:
    best = enumerate_knapsack(model)
    return None if best is None else best[0]


def assert_worths(instance: Any, explanation: Explanation) -> None:
    structure = Subject(instance).menus
    model = structure.model
    sign = 1.0 if model.sense == "maximize" else -1.0
    base = optimum(model)
    assert base is not None
    scale = float(np.abs(model.values).sum())
    for k, capacity in enumerate(explanation.capacities):
        assert capacity.used + capacity.free == capacity.capacity == model.capacities[k]
        more = optimum(Subject(instance).with_more({capacity.name: 1}).menus.model)
        assert more is not None
        assert capacity.one_more is not None
        assert close(capacity.one_more.exact, sign * (more - base), scale)
        assert capacity.price is not None
        if capacity.one_more_at_most is not None:
            assert capacity.one_more_at_most >= sign * (more - base) - 1e-8 * scale
        fewer = None
        if capacity.capacity:
            less = model.capacities.copy()
            less[k] -= 1
            fewer = optimum(with_capacities(model, less))
        if fewer is None:
            assert capacity.one_fewer is None
        else:
            assert capacity.one_fewer is not None
            assert close(capacity.one_fewer.exact, sign * (base - fewer), scale)
    assert [job.job for job in explanation.jobs] == list(structure.job_names())
    total = sum(job.chosen.value for job in explanation.jobs)
    assert close(explanation.objective, total, scale)
    names = list(structure.job_names())
    for job in explanation.jobs:
        assert job.chosen.net is not None
        rival = job.runner_up
        if rival is None:
            continue
        index = names.index(job.job)
        row = next(
            row
            for row in [-1, *range(int(model.offsets[index]), int(model.offsets[index + 1]))]
            if (None if row < 0 else structure.option_name(row)) == rival.worth.option
        )
        pinned = optimum(held_to(model, index, row))
        assert rival.possible == (pinned is not None)
        if pinned is None:
            assert rival.needed is None
            continue
        assert rival.needed is not None
        assert close(rival.needed.exact, sign * (base - pinned), scale)
        if row >= 0 and sign * (base - pinned) > 0:  # raised by that much it stands in an optimal plan
            raised = model.values.copy()
            raised[row] += base - pinned
            again = MultipleChoiceKnapsack.from_arrays(
                raised, model.uses, model.offsets, model.capacities, model.required, model.sense
            )
            assert close(optimum(again), base, scale)


def assert_explained(instance: Any, backend: str | apportion.Backend = "auto") -> None:
    explanation = explain(instance, backend=backend, time_limit=None)
    json.dumps(explanation.to_dict(), allow_nan=False)
    assert str(explanation)
    if optimum(Subject(instance).menus.model) is None:
        assert explanation.feasible is False
        assert_conflicts(instance, explanation)
        assert_relaxations(instance, explanation)
    else:
        assert explanation.feasible is True
        assert_worths(instance, explanation)


@given(gap_filling_instances(max_jobs=3, max_nodes=6, pins=True))
@settings(max_examples=examples(150))
def test_gap_filling_is_explained_as_enumeration_says(instance: GapFillingInstance) -> None:
    assert_explained(instance)


@given(knapsack_instances(max_jobs=3))
@settings(max_examples=examples(100))
def test_menus_are_explained_as_enumeration_says(instance: MultipleChoiceKnapsackInstance) -> None:
    assert_explained(instance, ENUMERATION)


@given(knapsacks(max_jobs=3, max_options=3))
@settings(max_examples=examples(100))
def test_bare_arrays_are_explained_as_enumeration_says(model: MultipleChoiceKnapsack) -> None:
    assert_explained(model, ENUMERATION)


@given(knapsacks(max_jobs=3, max_options=3, max_capacities=1))
@settings(max_examples=examples(100))
def test_one_capacity_is_explained_by_the_exact_engine(model: MultipleChoiceKnapsack) -> None:
    assert_explained(model)


@st.composite
def crowded(draw: st.DrawFn) -> MultipleChoiceKnapsack:
    """Required jobs with menus that trade one capacity against another, with little room."""
    num = draw(st.integers(2, 3))
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    use = st.lists(st.integers(0, 6), min_size=num, max_size=num)
    uses = draw(st.lists(use, min_size=sum(sizes), max_size=sum(sizes)))
    return MultipleChoiceKnapsack.from_arrays(
        np.zeros(sum(sizes)),
        np.array(uses, dtype=np.int64),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.array(draw(st.lists(st.integers(0, 12), min_size=num, max_size=num)), dtype=np.int64),
    )


@given(crowded())
@settings(max_examples=examples(150))
def test_conflicts_of_several_capacities_are_smallest_and_relaxations_least(
    model: MultipleChoiceKnapsack,
) -> None:
    assume(enumerate_knapsack(model) is None)
    explanation = explain(model, backend=ENUMERATION, time_limit=None)
    assert_conflicts(model, explanation)
    assert_relaxations(model, explanation)


def gap_job(name: str, rates: tuple[float, ...], **more: object) -> GapFillingJob:
    curve = ScalingCurve(tuple(range(len(rates))), rates)
    return GapFillingJob(name, 1, len(rates) - 1, curve, 0.0, 0.0, **more)  # type: ignore[arg-type]


def test_pins_beyond_the_idle_nodes_conflict_in_the_instances_own_names() -> None:
    nodes = tuple(f"n{i}" for i in range(8))
    rates = tuple(float(n) for n in range(10))
    jobs = tuple(gap_job(f"j{i}", rates, pinned_count=pin) for i, pin in enumerate((1, 5, 4, 2)))
    explanation = explain(GapFillingInstance("1", 1.0, nodes, jobs, "crowded"))
    assert explanation.feasible is False
    assert explanation.conflicts[0].jobs == ("j1", "j2")
    assert explanation.conflicts[0].capacities == ("idle_nodes",)
    assert explanation.conflicts[0].smallest
    more, fewer, free = explanation.relaxations
    assert (free.kind, free.unpin) == ("unpin", ("j1",))
    assert more.add == {"idle_nodes": 4}
    assert fewer.leave_out == ("j1",)
    assert more.verified
    assert fewer.verified
    text = str(explanation)
    assert "in conflict: j1, j2 and idle_nodes" in text
    assert "add 4 idle_nodes (the least that helps; verified by re-solving)" in text


def test_a_single_job_pinned_beyond_all_nodes_is_a_conflict_of_two() -> None:
    job = gap_job("big", tuple(float(n) for n in range(6)), pinned_count=5)
    explanation = explain(GapFillingInstance("1", 1.0, ("n0", "n1"), (job,)))
    assert explanation.conflicts[0].jobs == ("big",)
    assert explanation.relaxations[0].add == {"idle_nodes": 3}
    assert explanation.relaxations[0].verified


def test_a_job_pinned_to_what_it_must_not_get_is_its_own_conflict() -> None:
    job = gap_job("torn", (0.0, 1.0), pinned_count=1, forbidden_counts=(1,))
    explanation = explain(GapFillingInstance("1", 1.0, ("n0",), (job,)))
    assert explanation.conflicts[0].jobs == ("torn",)
    assert explanation.conflicts[0].capacities == ()
    assert [(way.leave_out, way.unpin) for way in explanation.relaxations] == [
        (("torn",), ()),
        ((), ("torn",)),
    ]
    assert "no option at all" in str(explanation)


def test_nodes_that_nobody_could_add_are_not_added() -> None:
    """A pin of a thousand million nodes is explained without making up as many names."""
    job = GapFillingJob("vast", 1, 10**9, ScalingCurve((0, 10**9), (0.0, 1.0)), 0.0, 0.0, pinned_count=10**9)
    explanation = explain(GapFillingInstance("1", 1.0, ("n0",), (job,)))
    more = explanation.relaxations[0]
    assert more.add == {"idle_nodes": 10**9 - 1}
    assert not more.verified
    assert "at once" in more.note


def test_an_administrator_is_told_why_there_is_no_thirteenth_node() -> None:
    nodes = tuple(f"n{i}" for i in range(3))
    jobs = (gap_job("a", (0.0, 100.0, 110.0, 112.0)), gap_job("b", (0.0, 60.0, 61.0, 61.0)))
    explanation = explain(GapFillingInstance("1", 1.0, nodes, jobs, "small"), job="a")
    text = str(explanation)
    assert "a gets 2 nodes" in text
    assert "a 3rd would add 2 samples, but a node is worth" in text
    assert len(explanation.jobs) == 1


def test_one_option_can_be_asked_about() -> None:
    model = MultipleChoiceKnapsackInstance(
        "1",
        "maximize",
        {"gpu": 4},
        (
            KnapsackJob("a", (KnapsackOption("s", 3.0, {"gpu": 2}), KnapsackOption("l", 4.0, {"gpu": 4}))),
            KnapsackJob("b", (KnapsackOption("s", 2.0, {"gpu": 2}),), required=False),
        ),
    )
    asked = explain(model, job="a", option="l").jobs[0].asked
    assert asked is not None
    assert asked.needed is not None
    assert asked.needed.exact == 1.0
    out = explain(model, job="b", option="-").jobs[0].asked
    assert out is not None
    assert out.worth.option is None
    assert out.needed is not None
    assert out.needed.exact == 1.0
    with pytest.raises(InvalidOption, match="cannot get 'm'; it can get s, l"):
        explain(model, job="a", option="m")
    with pytest.raises(InvalidInstance, match="no job 'z'"):
        explain(model, job="z")
    with pytest.raises(InvalidOption, match="needs a job"):
        explain(model, option="s")


def test_a_job_left_out_is_told_at_which_price_it_enters() -> None:
    model = MultipleChoiceKnapsack.from_arrays([8.0, 3.0], [4, 4], [0, 1, 2], [4], required=False)
    loser = explain(model).jobs[1]
    assert loser.idle
    assert loser.chosen.option is None
    assert loser.enters_at_price == 0.75


def test_nothing_to_explain_is_explained() -> None:
    empty = MultipleChoiceKnapsack.from_arrays([], np.zeros((0, 1), dtype=np.int64), [0], [0])
    explanation = explain(empty)
    assert explanation.feasible is True
    assert explanation.jobs == ()
    assert explanation.capacities[0].one_fewer is None
    free = MultipleChoiceKnapsack.from_arrays(
        [1.0, 2.0], np.zeros((2, 0), dtype=np.int64), [0, 2], np.zeros(0, dtype=np.int64)
    )
    unbounded = explain(free)
    assert unbounded.capacities == ()
    assert unbounded.jobs[0].chosen.value == 2.0
    assert unbounded.jobs[0].runner_up is not None


def test_a_given_solution_is_explained_without_solving_it_again() -> None:
    model = MultipleChoiceKnapsack.from_arrays([3.0, 4.0, 2.0], [2, 4, 2], [0, 2, 3], [4])
    solution = apportion.solve(model)
    assert explain(model, solution).solution is solution
    other = MultipleChoiceKnapsack.from_arrays([3.0, 4.0, 2.0], [2, 4, 2], [0, 2, 3], [3])
    with pytest.raises(InvalidOption, match="not one of this instance"):
        explain(other, solution)


def test_a_backend_that_proves_nothing_yields_bounds_not_figures() -> None:
    def first_fit(model: MultipleChoiceKnapsack, options: SolveOptions, start: object) -> Outcome:
        choice = np.where(model.required, model.offsets[:-1], -1)
        return Outcome(termination=Termination.TIME_LIMIT, raw_status="tired", point=choice)

    model = MultipleChoiceKnapsack.from_arrays([3.0, 4.0, 2.0], [2, 4, 2], [0, 2, 3], [5])
    explanation = explain(model, backend=apportion.Backend("tired", "knapsack", first_fit))
    worth = explanation.capacities[0].one_more
    assert worth is not None
    assert worth.exact is None
    assert "not proven optimal" in explanation.notes[0]
    best, wider = enumerate_knapsack(model), enumerate_knapsack(with_capacities(model, np.array([6])))
    assert best is not None
    assert wider is not None
    assert worth.low is not None
    assert worth.low <= wider[0] - best[0] <= (np.inf if worth.high is None else worth.high)


def test_undecided_members_are_kept_and_said() -> None:
    """Two jobs fit each capacity alone, not both at once; a backend that never answers decides nothing."""

    def silent(model: MultipleChoiceKnapsack, options: SolveOptions, start: object) -> Outcome:
        ended = Termination.INFEASIBLE if model.num_jobs == 2 and model.num_capacities == 2 else None
        return Outcome(termination=ended or Termination.TIME_LIMIT, raw_status="silent")

    model = MultipleChoiceKnapsack.from_arrays(
        np.zeros(4), np.array([[2, 0], [0, 2], [2, 0], [0, 2]]), [0, 2, 4], [2, 1]
    )
    explanation = explain(model, backend=apportion.Backend("silent", "knapsack", silent))
    assert explanation.feasible is False
    conflict = explanation.conflicts[0]
    assert conflict.undecided
    assert not conflict.irreducible
    assert not conflict.smallest
    assert "for want of time" in str(explanation)


def test_many_jobs_are_listed_up_to_a_thousand_and_estimated() -> None:
    count = 1200
    random = np.random.default_rng(0)
    model = MultipleChoiceKnapsack.from_arrays(
        random.integers(1, 100, 3 * count).astype(float),
        random.integers(1, 9, 3 * count),
        np.arange(0, 3 * count + 1, 3),
        [2 * count],
        required=False,
    )
    explanation = explain(model)
    assert len(explanation.jobs) == 1000
    assert any("200 of 1200 jobs are not listed" in note for note in explanation.notes)
    assert all(job.runner_up is None or job.runner_up.needed is None for job in explanation.jobs)
    assert len(explain(model, job="job 1199").jobs) == 1


def test_demand_is_feasible_where_the_menus_are() -> None:
    job = GapFillingJob("j", 2, 9, ScalingCurve((0, 9), (0.0, 9.0)), 0.0, 0.0, forbidden_counts=(0, 2, 3))
    structure = GapFillingByCount(GapFillingInstance("1", 1.0, ("n0",), (job,)))
    assert structure.demand().uses.tolist() == [[4]]


def test_a_freezing_round_on_nodes_is_explained_with_the_cut_of_its_nodes() -> None:
    """Six jobs of 5 GPUs on three nodes of 8: the GPUs left over are worth nothing to anybody."""
    row = {"gpu_type": "v100", "gpus": 5, "depths": [0, 5], "effective_progress": [4.0, 5.0]}
    made = {
        "kind": "freezing",
        "schema_version": "1",
        "round_s": 60.0,
        "power": 1.0,
        "queue_penalty": 0.0,
        "gpus": {"v100": 24},
        "gpus_per_node": {"v100": 8},
        "jobs": [{"id": f"j{k}", "layers": 10, "reference_progress": 1.0, "menu": [row]} for k in range(6)],
    }
    instance = apportion.read(made)
    running = sorted(apportion.solve(instance).plan["configuration"])
    told = explain(instance, job=running[0])
    assert any(capacity.name.startswith("nodes of v100 by ") for capacity in told.capacities)
    (worth,) = told.jobs
    assert worth.unfrozen is not None and worth.unfrozen.needed is not None
    assert worth.unfrozen.needed.exact == 1.0


def test_a_pin_is_named_as_the_cause_and_lifting_it_as_a_way_out() -> None:
    """`what-if --unpin` solved it, and nothing said so."""
    menu = (KnapsackOption("8", 1.0, {"gpu": 8}), KnapsackOption("1", 1.0, {"gpu": 1}))
    jobs = (KnapsackJob("a", menu, pinned="8"), KnapsackJob("b", menu[1:]), KnapsackJob("c", menu, False))
    told = explain(MultipleChoiceKnapsackInstance("1", "maximize", {"gpu": 8}, jobs))
    assert told.conflicts[0].reason.endswith("; a is pinned")
    way = told.relaxations[-1]
    assert (way.kind, way.unpin, way.minimal, way.verified) == ("unpin", ("a",), True, True)
    assert "unpin a (the least that helps; verified by re-solving)" in str(told)
    assert json.loads(json.dumps(told.to_dict()))["relaxations"][-1]["unpin"] == ["a"]


def test_a_few_of_many_sparse_options_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """All uses were made an array for every option that a sentence names."""
    rng = np.random.default_rng(1)
    racks = {f"r{at}": 40 for at in range(700)}

    def option(at: int) -> apportion.KnapsackOption:
        first, second = rng.choice(700, 2, replace=False).tolist()
        uses = {f"r{first}": int(rng.integers(4, 17)), f"r{second}": int(rng.integers(1, 9))}
        return apportion.KnapsackOption(f"o{at}", float(rng.integers(1, 100)), uses)

    menus = [tuple(map(option, range(4))) for _ in range(1500)]
    jobs = [apportion.KnapsackJob(f"j{at}", menu, required=False) for at, menu in enumerate(menus)]
    instance = apportion.MultipleChoiceKnapsackInstance("1", "maximize", racks, tuple(jobs))
    solution = apportion.solve(instance, gap=0.1, time_limit=20.0)
    read: list[int] = []

    def dense(uses: csr_array) -> np.ndarray:
        read.append(uses.shape[0])
        return uses.toarray()

    monkeypatch.setattr("apportion.models.multiple_choice.dense", dense)
    why = apportion.explain(instance, solution, "j5", time_limit=0.01)
    assert "j5" in str(why) and max(read, default=0) <= 4
    prices = solution.certificate.multipliers
    assert prices is not None
    sparse = kind_of(instance).exact_bound(instance, prices)
    monkeypatch.setattr("apportion.instances.options._CELLS", 10**9)
    assert sparse == kind_of(instance).exact_bound(instance, prices)
