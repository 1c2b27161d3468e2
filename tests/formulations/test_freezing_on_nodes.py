"""Layer freezing on nodes: plans that can be placed, the best of them, and bounds that stay valid."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.errors import InvalidInstance
from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.formulations.freezing.on_nodes import FreezingOnNodes
from apportion.instances import FreezingConfiguration, FreezingInstance, FreezingJob, FreezingRow, kind_of
from apportion.instances.freezing.check import check, exact_objective
from apportion.instances.freezing.columns import from_arrays
from apportion.instances.freezing.nodes import NodeWeights, nodes_of
from apportion.io.stored import document, verify
from apportion.models.packing import heaviest
from apportion.solvers.packing import few_moves
from apportion.solving.registry import Backend
from tests.budgets import examples
from tests.strategies import freezing_on_nodes
from tests.test_api import assert_certified, close


def _fits(room: list[int], sizes: list[int]) -> bool:
    """Whether pieces, largest first, can be packed: plain enumeration."""
    if not sizes:
        return True
    for node in range(len(room)):
        if room[node] >= sizes[0] and room[node] not in room[:node]:
            after = [left - sizes[0] * (i == node) for i, left in enumerate(room)]
            if _fits(after, sizes[1:]):
                return True
    return False


def _best(instance: FreezingInstance) -> float | None:
    """The best objective over all counts that the checker admits and enumeration can place."""
    nodes = nodes_of(instance, "g")
    assert nodes is not None
    best: float | None = None
    for told in product(*[[None, *(row.gpus for row in job.menu)] for job in instance.jobs]):
        chosen = {
            job.id: {"gpu_type": "g", "gpus": gpus, "depth": 0}
            for job, gpus in zip(instance.jobs, told, strict=True)
            if gpus is not None
        }
        report = check(instance, {"configuration": chosen})
        if any(violation.rule != "placement" for violation in report.violations):
            continue
        pieces = [min(gpus, nodes.size) for gpus in told if gpus for _ in range(max(1, gpus // nodes.size))]
        if not _fits(nodes.room(), sorted(pieces, reverse=True)):
            assert not report.feasible  # largest first never accepts what fits nowhere
            continue
        better = max if instance.power > 0 else min
        assert report.objective is not None
        best = report.objective if best is None else better(best, report.objective)
    return best


@given(freezing_on_nodes())
@settings(max_examples=examples(150))
def test_the_answer_is_the_best_that_can_be_placed_and_is_certified(instance: FreezingInstance) -> None:
    best, solution = _best(instance), apportion.solve(instance)
    if best is None:
        assert solution.termination is Termination.INFEASIBLE
        return
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective is not None and close(solution.objective, best)
    assert_certified(solution)
    told = solution.plan["configuration"].values()
    assert all("nodes" in one for one in told)


@given(freezing_on_nodes(max_jobs=4))
@settings(max_examples=examples(10))
def test_general_solvers_are_asked_again_too(instance: FreezingInstance) -> None:
    ours = apportion.solve(instance)
    for backend in ("highs", "cp-sat"):
        other = apportion.solve(instance, backend=backend, formulation="all_depths")
        assert other.termination is ours.termination
        if ours.objective is not None:
            assert other.objective is not None and close(ours.objective, other.objective)


def _round(counts: list[int], gpus: int, size: int, **fields: Any) -> FreezingInstance:
    jobs = tuple(
        FreezingJob(f"j{i}", 9, (FreezingRow("v100", count, (0,), (10.0 * count,)),), reference_progress=10.0)
        for i, count in enumerate(counts)
    )
    return FreezingInstance(
        "1",
        {"v100": gpus},
        60.0,
        jobs,
        gpus_per_node={"v100": size},
        **{"power": 1.0, "queue_penalty": 0.0, **fields},
    )


def test_counts_that_add_up_but_lie_on_no_nodes_are_cut_off_not_dropped() -> None:
    """Three 5s are 15 of 16 GPUs on two nodes of 8; two of them and the 3s can lie there."""
    instance = _round([5, 5, 5, 3, 3], 16, 8)
    solution = apportion.solve(instance)
    assert solution.objective == 16.0 and solution.termination is Termination.OPTIMAL
    assert sorted(one["gpus"] for one in solution.plan["configuration"].values()) == [3, 3, 5, 5]
    shared = Counter(node for one in solution.plan["configuration"].values() for node in one["nodes"])
    assert sorted(shared.values()) == [2, 2]
    assert_certified(solution)


def test_the_certificate_proves_the_cut_from_the_instance_alone() -> None:
    instance = _round([5] * 6, 24, 8)  # one 5 a node: 15 of 24 GPUs, not 20
    solution = apportion.solve(instance)
    assert solution.objective == 15.0 and solution.termination is Termination.OPTIMAL
    priced = solution.certificate.multipliers
    assert priced is not None
    names = [name for name in priced if name.startswith("nodes of v100 by ")]
    assert len(names) == 1 and priced[names[0]] > 0
    assert solution.certificate.verified_bound == pytest.approx(15.0)
    told = document(solution)
    assert verify(instance, told).ok
    told["certificate"]["multipliers"] = {names[0].replace("by 0", "by 9"): 1.0, "v100": 0.0}
    assert not verify(instance, told).ok


def test_nobody_moves_without_need() -> None:
    held = [("b",), ("c",), ("c",)]
    instance = _round([2, 2, 2, 4], 12, 4, nodes={"v100": ("a", "b", "c")})
    jobs = [
        msgspec.structs.replace(job, current=FreezingConfiguration("v100", 2, 0, nodes))
        for job, nodes in zip(instance.jobs, held, strict=False)
    ]
    instance = msgspec.structs.replace(instance, jobs=(*jobs, instance.jobs[3]))
    plan = apportion.solve(instance).require()["configuration"]
    assert [plan[f"j{i}"]["nodes"] for i in range(4)] == [["b"], ["c"], ["c"], ["a"]]
    crowded = msgspec.structs.replace(instance, gpus={"v100": 8}, nodes={"v100": ("b", "c")})
    plan = apportion.solve(crowded).require()["configuration"]  # 2 + 2 + 4: the two on c stay
    assert [plan[job]["nodes"] for job in sorted(plan) if plan[job]["gpus"] == 4] == [["b"]]


def test_a_choice_that_only_a_search_refutes_is_excluded_and_the_bound_stays() -> None:
    """With weights kept from the loop every cut is an exclusion, and the answer is the same."""
    instance = _round([5, 5, 5, 3, 3], 16, 8)
    structure = FreezingOnNodes(instance)
    every = structure.choice({"configuration": {f"j{i}": {"gpu_type": "v100", "gpus": 5} for i in range(3)}})
    assert every is not None
    tighter = structure.excluding("v100", every)
    assert not tighter.model.check(every).feasible
    assert tighter.model.capacities.tolist() == [16, 2]
    weighed = tighter.bounded("v100", (0, 0, 1, 1, 1, 1, 1, 2))
    assert weighed.model.capacity_names[-1] == "excluded choice 0"
    provable = weighed.provable()
    assert provable.model.capacity_names == ("v100", "nodes of v100 by 0,0,1,1,1,1,1,2")
    assert provable.provable() is provable


def test_the_search_for_exclusions_ends_with_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apportion.solvers.packing.few_moves.violated_weights", lambda _: None)
    for counts, best in (([5, 5, 5, 3, 3], 16.0), ([5] * 5, 10.0), ([3, 6, 6, 7], 13.0)):
        solution = apportion.solve(_round(counts, 16, 8))
        assert solution.objective == best and solution.termination is Termination.OPTIMAL
        assert_certified(solution)


def test_what_is_never_refuted_ends_with_a_plan_near_it_and_a_valid_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sure = few_moves.pack

    def unsure(packing: Any, seconds: float | None) -> few_moves.Placement:
        found = sure(packing, seconds)
        return found if found.nodes is not None else few_moves.Placement(None, proven=False)

    monkeypatch.setattr("apportion.solvers.packing.few_moves.pack", unsure)
    solution = apportion.solve(_round([5, 5, 5], 16, 8))
    assert solution.termination is Termination.NODE_LIMIT
    assert solution.objective == 10.0 and solution.bound is not None and solution.bound >= 15.0 - 1e-9
    assert any("cannot be placed" in note for note in solution.notes)


def test_a_backend_of_the_callers_own_is_placed_too() -> None:
    def first_fit(model: Any, options: SolveOptions, start: Any) -> Outcome:
        from apportion.solvers.exact import solve

        return solve(model, options, start)

    solution = apportion.solve(_round([5, 5, 5], 16, 8), backend=Backend("mine", "knapsack", first_fit))
    assert solution.objective == 10.0


def test_a_warm_start_that_lies_on_no_nodes_is_repaired() -> None:
    instance = _round([5, 5, 5, 3, 3], 16, 8)
    earlier = {"configuration": {f"j{i}": {"gpu_type": "v100", "gpus": 5, "depth": 0} for i in range(3)}}
    solution = apportion.solve(instance, warm_start=earlier)
    assert solution.objective == 16.0


def test_required_jobs_that_fit_nowhere_are_infeasible() -> None:
    instance = _round([5, 5, 5], 16, 8)
    jobs = tuple(msgspec.structs.replace(job, required=True) for job in instance.jobs)
    solution = apportion.solve(msgspec.structs.replace(instance, jobs=jobs))
    assert solution.termination is Termination.INFEASIBLE


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"nodes": ["a", "b"]}, "must name 1 different nodes"),
        ({"nodes": ["z"]}, "'z' is no node of v100"),
        ({"nodes": "a"}, "must name 1 different nodes"),
        ({"nodes": ["a"]}, "1 more v100 than the node has"),
        ({"nodes": ["b"]}, None),
        ({}, None),
    ],
)
def test_the_checker_checks_nodes(told: dict[str, Any], message: str | None) -> None:
    instance = _round([3, 2], 8, 4, nodes={"v100": ("a", "b")})
    first = {"gpu_type": "v100", "gpus": 3, "depth": 0, "nodes": ["a"]}
    second = {"gpu_type": "v100", "gpus": 2, "depth": 0, **told}
    report = check(instance, {"configuration": {"j0": first, "j1": second}})
    assert report.feasible is (message is None)
    assert message is None or message in str(report.violations[0])


def test_nodes_without_a_size_are_refused_and_counts_alone_are_packed() -> None:
    instance = _round([5, 5, 5], 16, 8)
    counts = {f"j{i}": {"gpu_type": "v100", "gpus": 5, "depth": 0} for i in range(3)}
    assert "placement" in {one.rule for one in check(instance, {"configuration": counts}).violations}
    free = msgspec.structs.replace(instance, gpus_per_node={})
    assert check(free, {"configuration": counts}).feasible
    counts["j0"]["nodes"] = ["0"]
    assert "no size of a node" in str(check(free, {"configuration": counts}).violations[0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": {"v100": ("a",)}}, r"\$.nodes.v100: must name 2 nodes \(16 GPUs, 8 to a node\), not 1"),
        ({"nodes": {"v100": ("a", "a")}}, r"\$.nodes.v100: node 'a' stands 2 times"),
        ({"nodes": {"k80": ("a",)}}, r"\$.nodes.k80: needs the GPU type"),
        ({"nodes": ["a"]}, r"\$.nodes: must be an object"),
    ],
)
def test_wrong_nodes_name_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        _round([1], 16, 8, **fields)
    assert _round([1], 16, 8).nodes is msgspec.UNSET


def test_current_nodes_must_exist() -> None:
    instance = _round([1], 16, 8)
    for nodes, message in ((("7",), "'7' is no node of v100"), (("0", "0"), "node '0' stands 2 times")):
        job = msgspec.structs.replace(instance.jobs[0], current=FreezingConfiguration("v100", 1, 0, nodes))
        with pytest.raises(InvalidInstance, match=message):
            msgspec.structs.replace(instance, jobs=(job,))


def test_an_instance_without_nodes_encodes_as_it_always_did() -> None:
    """Digests of solutions stored before nodes could be named still match."""
    text = msgspec.json.encode(_round([1], 16, 8))
    assert b'"nodes"' not in text
    assert msgspec.json.decode(text, type=FreezingInstance) == _round([1], 16, 8)


@given(freezing_on_nodes(), st.data())
@settings(max_examples=examples(100))
def test_any_node_weights_bound_any_plan(instance: FreezingInstance, data: st.DataObject) -> None:
    size = instance.gpus_per_node["g"]
    weights = tuple(data.draw(st.lists(st.integers(0, 6), min_size=size, max_size=size)))
    one = NodeWeights("g", weights)
    assert NodeWeights.named(instance.gpus_per_node, one.name) == one
    assert list(one.most()) == heaviest(weights)
    solution = apportion.solve(instance)
    if solution.plan is None:
        return
    held = [told["gpus"] for told in solution.plan["configuration"].values()]
    assert one.weigh(Counter(held)) <= one.capacity(instance.gpus["g"])
    bound = kind_of(instance).exact_bound(instance, {"g": 0.25, one.name: 0.5})
    assert bound is not None
    objective = exact_objective(instance, solution.plan)
    assert isinstance(bound, Fraction)
    assert bound >= objective if instance.power > 0 else bound <= objective


@pytest.mark.parametrize(
    "name", ["nodes of g by 1,2", "nodes of h by 1,2,3", "nodes of v100 by 01" + ",1" * 7, ""]
)
def test_names_that_are_no_weights_are_refused(name: str) -> None:
    instance = _round([1], 16, 8)
    assert NodeWeights.named(instance.gpus_per_node, name) is None
    with pytest.raises(InvalidInstance, match="must be a capacity"):
        kind_of(instance).exact_bound(instance, {"v100": 0.0, name: 1.0})


@pytest.mark.parametrize(("power", "seed"), [(-0.5, 0), (0.5, 1), (1.0, 2)])
def test_it_is_the_optimum_of_the_milp_with_a_count_per_node_and_size(power: float, seed: int) -> None:
    """Selection and placement in one MILP: jobs by count, pieces by node and size; one type, nodes of 8."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    rng, counts, jobs, nodes, waits = np.random.default_rng(seed), np.array([3, 5, 6, 8]), 14, 5, 0.3
    rate = rng.uniform(1.0, 5.0, (jobs, 1)) * counts ** rng.uniform(0.5, 1.0, (jobs, 1))
    places = [("v100", int(count)) for count in counts]
    ids = [f"j{index:02d}" for index in range(jobs)]
    instance = from_arrays(
        ids,
        [9] * jobs,
        places,
        [0],
        rate[:, :, None],
        {"v100": 8 * nodes},
        60.0,
        states={"reference_progress": [1.0] * jobs},
        power=power,
        queue_penalty=waits if power > 0 else 2.0,
        gpus_per_node={"v100": 8},
    )
    solution = apportion.solve(instance)
    sign = -1.0 if power > 0 else 1.0
    cost = np.concatenate(
        (sign * (rate.ravel() ** power - instance.queue_penalty), np.zeros(nodes * counts.size))
    )
    once = np.hstack((np.kron(np.eye(jobs), np.ones(counts.size)), np.zeros((jobs, nodes * counts.size))))
    room = np.hstack((np.zeros((nodes, rate.size)), np.kron(np.eye(nodes), counts)))
    pieces = np.hstack((np.tile(np.eye(counts.size), jobs), -np.tile(np.eye(counts.size), nodes)))
    found = milp(
        cost,
        integrality=np.ones(cost.size),
        bounds=Bounds(0, np.concatenate((np.ones(rate.size), np.full(nodes * counts.size, 2.0)))),
        constraints=[
            LinearConstraint(once, ub=np.ones(jobs)),
            LinearConstraint(room, ub=np.full(nodes, 8.0)),
            LinearConstraint(pieces, lb=np.zeros(counts.size), ub=np.zeros(counts.size)),
        ],
        options={"mip_rel_gap": 0.0, "time_limit": 60.0},
    )
    assert found.status == 0, found.message
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective == pytest.approx(sign * found.fun + instance.queue_penalty * jobs, rel=1e-6)
    free = apportion.solve(msgspec.structs.replace(instance, gpus_per_node={}))
    assert free.objective is not None and solution.objective is not None
    assert sign * solution.objective >= sign * free.objective - 1e-9
