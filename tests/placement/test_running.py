"""Jobs that run, where nodes are taken together: they stay where they are as far as that costs no value."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import apportion
from apportion.core.errors import InvalidInstance
from apportion.formulations.placement import PlacementByShape
from apportion.instances.placement.bundles import bundled_site, leaves_shapes, takes_bundles
from apportion.instances.placement.generator import generate_menus
from apportion.instances.placement.goals import JobsStoppedGoal, ValueGoal
from apportion.instances.placement.kind import PLACEMENT
from apportion.instances.placement.rules import DrainRule, LimitRule, MaxMovesRule, MaxStopsRule
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
    PlacementRunning,
)
from apportion.io.stored import document, verify
from apportion.models.pods import PodPacking, best_fit
from tests.placement.rounds import gangs, site


def running(given: PlacementInstance, share: float, seed: int = 0) -> PlacementInstance:
    """Return an instance in which a share of the jobs of a plan run where that has them."""
    plan, rng = apportion.solve(given, time_limit=10.0).plan["placement"], Random(seed)
    jobs = [
        replace(job, current=PlacementRunning(plan[job.id]["option"], plan[job.id]["on"]))
        if job.id in plan and rng.random() < share
        else job
        for job in given.jobs
    ]
    return replace(given, jobs=tuple(jobs))


def test_what_runs_stays_where_nodes_are_taken_together() -> None:
    """Of 40 jobs nothing is stopped or moved where others of the same worth go, and who waits finds room."""
    given = running(generate_menus(1, 40, 400, fragmented=True), 0.95)
    found = bundled_site(given)
    assert found is not None and len(found.nodes) == 1 and takes_bundles(given)
    solution = apportion.solve(given)
    assert solution.termination == "optimal"
    assert [(goal.value, goal.proven) for goal in solution.goals] == [(0, True), (0, True)]
    assert verify(given, document(solution)).ok


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(12))
def test_bundles_and_shapes_agree_where_jobs_run(seed: int) -> None:
    before = running(gangs(seed), 0.8, seed)
    rng = Random(seed)
    given = replace(
        before,
        jobs=tuple(
            replace(job, options=tuple(replace(one, value=float(rng.randint(1, 12))) for one in job.options))
            for job in before.jobs
        ),
    )
    found = bundled_site(given)
    assert found is not None and len(found.nodes) == 1
    by_bundle, by_shape = (apportion.solve(given, formulation=name) for name in ("by_bundle", "by_shape"))
    assert by_bundle.termination == by_shape.termination == "optimal"
    assert by_bundle.objective == by_shape.objective and verify(given, document(by_bundle)).ok
    for here, there in zip(by_bundle.goals, by_shape.goals, strict=True):
        assert here.bound is None or here.bound <= there.value
        if here.value != there.value:
            assert not here.proven
            break


def test_when_nodes_of_jobs_that_run_are_taken_together() -> None:
    given = gangs(3)
    on = {given.jobs[0].options[0].pods[0].name: {"n1": 1}}
    current = PlacementRunning(given.jobs[0].options[0].id, on)
    for fixed in (False, True):
        first = replace(given.jobs[0], current=current, fixed=fixed)
        found = bundled_site(replace(given, jobs=(first, *given.jobs[1:])))
        assert found is not None and found.across and [job.id for job in found.kept] == ["j0"] * fixed
    stopped_first = replace(
        given,
        jobs=(replace(given.jobs[0], current=current), *given.jobs[1:]),
        goals=(JobsStoppedGoal(), ValueGoal()),
    )
    found = bundled_site(stopped_first)
    assert found is not None and not found.across


def test_best_fit_leaves_pods_where_they_are() -> None:
    """The pod of 2 stays on the node of 3, though it leaves less on that of 2, unless another needs it."""
    rooms, pods = ((3,), (2,)), (((2,),), ((1,),))
    assert best_fit(PodPacking(rooms, (0, 1), pods)) == ((1,), (0,))
    assert best_fit(PodPacking(rooms, (0, 1), pods, now=((0,), (-1,)))) == ((0,), (0,))
    both = PodPacking(((3,), (2,)), (0, 1), (((3,),), ((2,),)), now=((-1,), (0,)))
    assert best_fit(both) == ((0,), (1,))


def test_few_may_move_or_stop_and_nodes_are_drained_where_nodes_are_taken_together() -> None:
    """Limits on change and nodes to be left keep the patterns: the plan keeps them, the bound holds."""
    before = running(generate_menus(2, 60, 64, fragmented=True), 1.0)
    on = {
        node for job in before.jobs if job.current is not None for node in next(iter(job.current.on.values()))
    }
    worth = apportion.solve(before, formulation="by_bundle", gap=0.01, time_limit=5.0)
    assert worth.objective is not None
    for rules in (
        (DrainRule(nodes=tuple(sorted(on)[:2])),),
        (MaxStopsRule(limit=0), DrainRule(nodes=(min(on),))),
        (MaxMovesRule(limit=3),),
    ):
        given = replace(before, rules=rules)
        found = bundled_site(given)
        assert found is not None and found.has_patterns and len(found.nodes) == 1
        solution = apportion.solve(given, formulation="by_bundle", gap=0.01, time_limit=5.0)
        assert (
            solution.report is not None and solution.report.feasible and verify(given, document(solution)).ok
        )
        assert solution.objective is not None and solution.objective >= 0.97 * worth.objective
    assert not bundled_site(replace(before, rules=(MaxMovesRule(limit=3, by="job"),))).has_patterns


def test_nodes_of_no_place_are_solved_by_what_fits_on_one() -> None:
    given = generate_menus(3, 40, 60, fragmented=True)
    flat = replace(
        given,
        levels=("node",),
        nodes=tuple(replace(one, at={}) for one in given.nodes),
        jobs=tuple(
            replace(job, options=tuple(one for one in job.options if one.pods[0].required is UNSET))
            for job in given.jobs
        ),
    )
    found = bundled_site(flat)
    assert found is not None and found.has_patterns and not found.across and takes_bundles(flat)
    solution = apportion.solve(flat, time_limit=20.0)
    assert solution.termination == "optimal" and verify(flat, document(solution)).ok


def test_what_runs_is_where_a_search_begins() -> None:
    """A job of many shapes, on the last node there is, is where it runs; a pod whose node is gone is not."""
    pods = PlacementPods({"gpu": 1}, 1, value=1.0)
    job = PlacementJob(
        "j", (PlacementOption("o", (pods,)),), current=PlacementRunning("o", {"pods": {"n5": 1, "gone": 1}})
    )
    given = site([job], 6, 3)
    shape = PlacementByShape(given, 1)
    stays, nothing = PLACEMENT.option_set.running(given)
    choice = shape.choice(stays)
    assert choice is not None and shape.plan(choice)["placement"]["j"]["on"] == {"pods": {"n5": 1}}
    assert nothing == {"placement": {}}


def test_no_search_over_many_options_ends_without_a_plan() -> None:
    """Gangs split into their pods, under a limit that what runs does not keep: nobody placed is one, too."""
    limit = LimitRule(level="rack", resource="gpu", limits={f"r{rack}": 100 for rack in range(6)})
    given = replace(generate_menus(0, 120, 96, running=0.6), rules=(limit,))
    solution = apportion.solve(given, formulation="by_shape", time_limit=1.0)
    assert solution.report is not None and solution.report.feasible


@pytest.mark.parametrize("seed", range(8))
def test_jobs_that_must_stay_count_as_used_by_others(seed: int) -> None:
    """With half of the jobs fixed bundles and shapes agree; what is proven passes the check once stored."""
    before, rng = running(gangs(seed), 0.8, seed), Random(seed)
    fixed = tuple(replace(job, fixed=job.current is not None and rng.random() < 0.5) for job in before.jobs)
    given = replace(before, jobs=fixed)
    found = bundled_site(given)
    kept = [job.id for job in fixed if job.fixed]
    assert found is not None and found.across and [job.id for job in found.kept] == kept
    uses = sum(
        option.pods[0].needs["gpu"] * option.pods[0].count
        for job in found.kept
        for option in job.options
        if job.current is not None and option.id == job.current.option
    )
    assert found.free("gpu").tolist() == [48 - uses]
    by_bundle, by_shape = (apportion.solve(given, formulation=name) for name in ("by_bundle", "by_shape"))
    assert by_bundle.termination == by_shape.termination == "optimal"
    assert by_bundle.objective == by_shape.objective and verify(given, document(by_bundle)).ok
    plan = by_bundle.plan["placement"]
    assert [*plan] == [job.id for job in given.jobs if job.id in plan]
    assert all(plan[job.id]["on"] == job.current.on for job in found.kept)


def test_jobs_that_cannot_stay_have_no_bundles_across_places() -> None:
    """Two that must stay where only one fits, or one on a node that all leave: no plan, as shapes say too."""
    needs = {"gpu": 5, "cpu": 1, "mem": 1}
    jobs = [
        PlacementJob(
            name,
            (PlacementOption("o", (PlacementPods(needs),), 1.0, required="rack"),),
            current=PlacementRunning("o", {"pods": {"n0": 1}}),
            fixed=True,
        )
        for name in "ab"
    ]
    drained = replace(site(jobs[:1], 6, 3), rules=(DrainRule(nodes=("n0",)),))
    for given in (site(jobs, 6, 3), drained):
        found = bundled_site(given)
        assert found is not None and not found.across
        ways = [apportion.solve(given, formulation=name) for name in ("by_bundle", "by_shape")]
        assert [one.termination for one in ways] == ["infeasible"] * 2


def test_who_runs_on_unlike_nodes_or_may_not_move_is_looked_at_node_by_node() -> None:
    """Shapes end at 1,500 pairs of an option and a node, at 10,000 where bundles leave open who moves."""
    alike, unlike = (generate_menus(0, 40, 32, fragmented=way, running=0.5) for way in (False, True))
    assert takes_bundles(alike) and takes_bundles(unlike)
    assert leaves_shapes(unlike) and not leaves_shapes(alike)
    waiting = tuple(replace(job, current=None) for job in unlike.jobs)
    assert not leaves_shapes(replace(unlike, jobs=waiting))
    assert leaves_shapes(replace(alike, rules=(MaxMovesRule(limit=5),)))
    assert not leaves_shapes(replace(alike, rules=(MaxStopsRule(limit=5),)))
    many = replace(generate_menus(0, 140, 96, running=0.5), rules=(MaxMovesRule(limit=5),))
    assert takes_bundles(many) and not leaves_shapes(many)
    for rule in (MaxMovesRule(limit=5, resource="gpu"), MaxMovesRule(limit=5, of={"j0": 1})):
        assert not bundled_site(replace(alike, rules=(rule,))).across


@pytest.mark.parametrize(("per_move", "moves"), [(0.0, 1), (2.5, 1), (3.0, 0), (4.0, 0)])
def test_nobody_moves_for_less_than_a_move_costs(per_move: float, moves: int) -> None:
    """A job of two GPUs that is worth 3 waits; one pod on each of two nodes of two GPUs runs."""
    pod = {"id": "run", "value": 5, "pods": [{"needs": {"gpu": 1}}]}
    lies = [{"option": "run", "on": {"pods": {f"n{k}": 1}}} for k in (0, 1)]
    given = {
        "kind": "placement",
        "schema_version": "1",
        "levels": ["node"],
        "nodes": [{"names": "n[0-1]", "capacity": {"gpu": 2}}],
        "jobs": [
            *({"id": f"small{k}", "options": [pod], "current": lies[k]} for k in (0, 1)),
            {"id": "large", "options": [{"id": "run", "value": 3, "pods": [{"needs": {"gpu": 2}}]}]},
        ],
        "goals": [{"goal": "value", "per_move": per_move, "per_stop": 1}, {"goal": "pods_moved"}],
    }
    solution = apportion.solve(apportion.read(given))
    assert solution.termination == "optimal" and solution.objective == 10.0 + moves * (3.0 - per_move)
    assert next(goal.value for goal in solution.goals if goal.name == "pods_moved") == moves


def test_whole_nodes_are_left_to_pods_that_need_them() -> None:
    given = {
        "kind": "placement",
        "schema_version": "1",
        "levels": ["node"],
        "nodes": [{"names": "n[0-3]", "capacity": {"gpu": 4, "cpu": 8}}],
        "jobs": [
            {"id": f"j{k}", "options": [{"id": "run", "value": 1, "pods": [{"needs": {"gpu": 1, "cpu": 2}}]}]}
            for k in range(5)
        ],
        "goals": [{"goal": "value"}, {"goal": "stranded", "level": "node", "needs": {"gpu": 4, "cpu": 4}}],
    }
    solution = apportion.solve(apportion.read(given))
    stranded = solution.goals[-1]
    assert (solution.objective, stranded.value, stranded.proven) == (5.0, 2, True)
    given["goals"][1]["needs"] = {"gpu": 0}
    with pytest.raises(InvalidInstance, match="needs: must need something"):
        apportion.read(given)


def test_priorities_of_tenants_come_in_strict_order() -> None:
    """A job of little worth comes first, as its tenant does; another has a priority of its own."""
    given = {
        "kind": "placement",
        "schema_version": "1",
        "levels": ["node"],
        "nodes": [{"names": "n[0-1]", "capacity": {"gpu": 2}}],
        "tenants": [{"id": "prod", "priority": 10}, {"id": "lab"}],
        "jobs": [
            {
                "id": f"{tenant}{number}",
                "tenant": tenant,
                "options": [{"id": "run", "value": value, "pods": [{"needs": {"gpu": gpus}}]}],
                **({} if priority is None else {"priority": priority}),
            }
            for tenant, number, gpus, value, priority in (
                ("prod", 0, 1, 1, None),
                ("prod", 1, 2, 50, -1),
                ("lab", 0, 2, 9, None),
                ("lab", 1, 2, 1, 12),
            )
        ],
        "goals": [{"goal": "value", "least_priority": 10}, {"goal": "value"}],
    }
    solution = apportion.solve(apportion.read(given))
    assert set(solution.require()["placement"]) == {"prod0", "lab1"}
    assert solution.objective == 2.0 and solution.termination == "optimal"
    assert verify(apportion.read(given), document(solution)).ok
