"""Nodes taken together: what lies in a bundle is asked first, on which of its nodes after."""

from __future__ import annotations

import time
from collections import Counter
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

import apportion
from apportion.core.errors import InvalidInstance
from apportion.formulations.placement_bundles import PlacementByBundle
from apportion.instances.placement import bundles
from apportion.instances.placement.bundles import (
    MOST_WEIGHT,
    bundled_program,
    bundled_site,
    is_huge,
    leaves_shapes,
    shared_level,
    sharing_rows,
    takes_bundles,
    weights_in,
    weights_row,
)
from apportion.instances.placement.generator import generate, generate_menus
from apportion.instances.placement.goals import LeftGoal, PodsMovedGoal, UsedGoal, ValueGoal
from apportion.instances.placement.rules import LimitRule, MaxMovesRule, SpreadRule, StayRule
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
    PlacementRunning,
)
from apportion.instances.placement.site import site_of
from apportion.io.stored import document, verify
from apportion.models.pods import NodeContents, PodPacking, best_fit, keeps_rooms
from apportion.proofs.statement import statement_of
from apportion.solvers.packing import patterns
from apportion.solvers.packing.pods import pack_pods
from tests.hunt import draw_placement
from tests.hunt import truth_placement as truth
from tests.placement.rounds import gangs, site


def test_named_nodes_stay_by_themselves() -> None:
    jobs = [
        PlacementJob(
            "a",
            (PlacementOption("x", (PlacementPods({"gpu": 1}, value_at={"n3": 1.0}),), 1.0),),
            current=PlacementRunning("x", {"pods": {"n0": 1}}),
        )
    ]
    given = site(jobs, 8, 2)
    found = bundled_site(replace(given, goals=(PodsMovedGoal(), ValueGoal())))
    assert found is not None
    assert sorted(map(len, found.members)) == [1, 1, 2, 4]
    assert [found.nodes[at] for at in (found.number["n0"], found.number["n3"])] == ["n0", "n3"]
    assert found.free("gpu").sum() == 64
    limit = LimitRule(level="rack", resource="gpu", limits={"r0": 3})
    for rules, fixed, sizes in (
        ((limit,), False, [1, 3, 4]),  # value comes first: who moves is asked afterwards
        ((limit,), True, [1, 1, 2, 4]),
        ((StayRule(pods=("a",)),), False, [1, 1, 2, 4]),
        ((MaxMovesRule(limit=1, resource="gpu"),), False, [1, 1, 2, 4]),
        ((MaxMovesRule(limit=1), limit), False, [1, 3, 4]),
    ):
        found = bundled_site(replace(given, rules=rules, jobs=(replace(jobs[0], fixed=fixed),)))
        assert found is not None and sorted(map(len, found.members)) == sizes


def test_nodes_are_together_that_every_pod_is_worth_the_same_at() -> None:
    """Two of four racks are nearer to the data of a job, by the same; two nodes of one are nearer still."""
    near = dict.fromkeys([f"n{at}" for at in (*range(4), *range(8, 12))], 0.5) | {"n0": 0.75, "n1": 0.75}
    jobs = [
        PlacementJob(
            f"j{k}",
            (PlacementOption("x", (PlacementPods({"gpu": 5}, value=0.25, value_at=near),), 1.0 + k),),
        )
        for k in range(9)
    ]
    given = site(jobs, 16, 4)
    found = bundled_site(given)
    assert found is not None
    assert sorted(map(len, found.members)) == [2, 2, 4, 4, 4]
    by_bundle, by_shape = (apportion.solve(given, formulation=name) for name in ("by_bundle", "by_shape"))
    assert by_bundle.objective == by_shape.objective == sum(1.25 + k for k in range(9)) + 2 * 0.75 + 6 * 0.5
    assert by_bundle.bound == by_bundle.objective and verify(given, document(by_bundle)).ok


def test_who_speaks_of_single_nodes_has_no_bundles() -> None:
    pods = PlacementPods({"gpu": 1}, 2, required="node")
    assert bundled_site(site([PlacementJob("a", (PlacementOption("x", (pods,), 1.0),))], 8, 2)) is None


def test_pods_that_need_half_and_more_are_counted_node_by_node() -> None:
    """Five pods of 5 of 8 GPUs each: the sum of four nodes has room for six, its nodes for four."""
    jobs = [
        PlacementJob(f"j{k}", (PlacementOption("x", (PlacementPods({"gpu": 5}),), 1.0 + k),))
        for k in range(5)
    ]
    solution = apportion.solve(site(jobs, 4, 1), formulation="by_bundle")
    assert solution.termination == "optimal" and solution.objective == 14.0
    assert solution.bound == 14.0
    assert verify(solution.instance, document(solution)).ok


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(6))
def test_bundles_and_shapes_agree(seed: int) -> None:
    given = generate_menus(seed, 14, 4)
    by_bundle, by_shape = (
        apportion.solve(given, formulation=name, time_limit=60.0) for name in ("by_bundle", "by_shape")
    )
    assert by_bundle.termination == by_shape.termination == "optimal"
    assert by_bundle.objective == pytest.approx(by_shape.objective, rel=1e-9)


@pytest.mark.slow
def test_a_thousand_nodes_are_taken_together() -> None:
    """300 jobs on 480 nodes: no plan is a per cent better; the plan passes the check, node by node."""
    given = generate_menus(1, 300, 480)
    assert takes_bundles(given)
    solution = apportion.solve(given, gap=0.03, time_limit=4.0)
    assert solution.plan is not None and solution.gap is not None and solution.gap <= 0.03
    assert verify(given, document(solution)).ok


def test_few_nodes_are_not_taken_together() -> None:
    assert not takes_bundles(generate(1, 6, 2, nodes=4))


@pytest.mark.parametrize("seed", range(4))
def test_packing_is_what_enumeration_says(seed: int) -> None:
    rng = Random(seed)
    for _ in range(60):
        rooms = tuple((rng.randint(1, 6), rng.randint(1, 6)) for _ in range(rng.randint(1, 3)))
        pods = tuple(
            tuple((rng.randint(0, 4), rng.randint(0, 4)) for _ in range(rng.randint(1, 2)))
            for _ in range(rng.randint(1, 4))
        )
        packing = PodPacking(rooms, tuple(range(10, 10 + len(pods))), pods)
        found = pack_pods(packing, None)
        assert found.proven
        assert (found.nodes is not None) == _fits(rooms, [need for own in pods for need in own])
        if found.nodes is not None:
            placed = [
                (node, need)
                for own, at in zip(pods, found.nodes, strict=True)
                for need, node in zip(own, at, strict=True)
            ]
            assert all(
                sum(need[k] for at, need in placed if at == node) <= room[k]
                for node, room in enumerate(rooms)
                for k in (0, 1)
            )
        else:
            assert found.core
            together = [
                need for job, own in zip(packing.jobs, pods, strict=True) if job in found.core for need in own
            ]
            assert not _fits(rooms, together)
            part = best_fit(packing, [1.0] * len(pods))
            assert part is not None and None in part


def _fits(rooms: tuple[tuple[int, ...], ...], pods: list[tuple[int, int]]) -> bool:
    return any(
        all(
            sum(need[k] for need, at in zip(pods, nodes, strict=True) if at == node) <= room[k]
            for node, room in enumerate(rooms)
            for k in (0, 1)
        )
        for nodes in product(range(len(rooms)), repeat=len(pods))
    )


def test_what_does_not_lie_on_the_nodes_is_excluded_and_the_next_best_found() -> None:
    """Of two nodes of 6 + 6, needs of (4, 1), (1, 4), (3, 3) twice fit in sum and not on nodes."""
    needs = ((4, 1), (1, 4), (4, 4), (3, 3))
    jobs = [
        PlacementJob(
            f"j{k}", (PlacementOption("x", (PlacementPods({"gpu": gpu, "cpu": cpu}),), float(10 + k)),)
        )
        for k, (gpu, cpu) in enumerate(needs)
    ]
    group = PlacementNodes("n[0-1]", {"gpu": 6, "cpu": 6}, {"rack": "r0"})
    given = PlacementInstance("1", ("rack", "node"), (group,), tuple(jobs))
    by_bundle, by_shape = (apportion.solve(given, formulation=name) for name in ("by_bundle", "by_shape"))
    assert by_bundle.termination == "optimal" and by_bundle.objective == by_shape.objective


def test_a_plan_that_is_given_is_not_lost() -> None:
    """Its nodes are kept as they are: packed anew they might not be found."""
    given = generate_menus(3, 40, 48)
    best = apportion.solve(given, gap=0.01, time_limit=2.0, formulation="by_bundle")
    again = apportion.solve(given, time_limit=0.2, formulation="by_bundle", warm_start=best)
    assert best.objective is not None and again.objective is not None
    assert again.objective >= best.objective
    assert verify(given, document(again)).ok


@pytest.mark.parametrize("seed", range(12))
def test_nodes_of_all_places_are_together_and_pods_still_share_one(seed: int) -> None:
    given = gangs(seed)
    found = bundled_site(given)
    assert found is not None and len(found.nodes) == 1 and found.across == ("rack",)
    by_bundle, by_shape = (apportion.solve(given, formulation=name) for name in ("by_bundle", "by_shape"))
    assert by_bundle.termination == by_shape.termination == "optimal"
    assert by_bundle.objective == by_shape.objective and verify(given, document(by_bundle)).ok


def test_who_asks_more_of_places_has_bundles_of_one_place() -> None:
    wide = PlacementOption(
        "x", (PlacementPods({"gpu": 1}, 2, required="rack"), PlacementPods({"gpu": 1}, name="b")), 1.0
    )
    for option in (wide, PlacementOption("x", (PlacementPods({"gpu": 1}, 2, preferred="rack"),), 1.0)):
        found = bundled_site(site([PlacementJob("a", (option,))], 8, 2))
        assert found is not None and found.across == () and len(found.nodes) == 2


@pytest.mark.parametrize("seed", range(4))
def test_packing_into_places_is_what_enumeration_says(seed: int) -> None:
    rng = Random(seed)
    for _ in range(60):
        rooms = tuple((rng.randint(1, 6), rng.randint(1, 6)) for _ in range(rng.randint(2, 4)))
        pods = tuple(
            tuple((rng.randint(0, 4), rng.randint(0, 4)) for _ in range(rng.randint(1, 2)))
            for _ in range(rng.randint(1, 3))
        )
        apart = rng.random() < 0.5
        place = np.array([node % 2 for node in range(len(rooms))])
        places = tuple(place if rng.random() < 0.7 else None for _ in pods)
        packing = PodPacking(rooms, tuple(range(len(pods))), pods, places=places, anti_affinity=apart)
        found = pack_pods(packing, None)
        needs = [(job, need) for job, own in enumerate(pods) for need in own]
        fits = any(
            all(
                sum(need[k] for (_, need), at in zip(needs, nodes, strict=True) if at == node) <= room[k]
                for node, room in enumerate(rooms)
                for k in (0, 1)
            )
            and all(
                len({at % 2 for (job, _), at in zip(needs, nodes, strict=True) if job == one}) == 1
                for one, shared in enumerate(places)
                if shared is not None
            )
            and (
                not apart or len({(job, at) for (job, _), at in zip(needs, nodes, strict=True)}) == len(needs)
            )
            for nodes in product(range(len(rooms)), repeat=len(needs))
        )
        assert found.proven and (found.nodes is not None) == fits
        if found.nodes is not None:
            assert keeps_rooms(packing, found.nodes)


@pytest.mark.parametrize("runs", [False, True])
def test_pods_of_a_job_on_nodes_of_their_own_are_placed_by_bundle(runs: bool) -> None:
    """The rule spoke of nodes, so that 150 jobs on 128 nodes ended 25 % from the bound after 15 s."""
    rng = Random(4)
    jobs = []
    for k in range(60):
        count, gpus = rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 4))
        pods = PlacementPods({"gpu": gpus}, count, required="rack" if k % 2 else UNSET)
        now = PlacementRunning("x", {"pods": {f"n{k}": 1}}) if runs and k < 8 and count == 1 else None
        jobs.append(
            PlacementJob(f"j{k}", (PlacementOption("x", (pods,), count * gpus + k / 100),), current=now)
        )
    given = replace(site(jobs, 64, 8), rules=(SpreadRule(level="node", by="job", max=1),))
    assert takes_bundles(given)
    found = apportion.solve(given, time_limit=20.0, gap=1e-3)
    assert str(found.termination) in ("optimal", "gap_reached")
    for got in found.require()["placement"].values():
        assert set(got["on"]["pods"].values()) == {1}
    two = replace(given, rules=(SpreadRule(level="node", by="job", max=2),))
    assert bundled_site(two) is None  # only of one pod a node is it known where they may be


def test_a_thousand_jobs_on_a_thousand_alike_nodes() -> None:
    """1,000 jobs on 992 nodes in 62 racks are one bundle: no plan is 2 % better than that found."""
    given = generate_menus(3, 1_000, 992)
    found = bundled_site(given)
    assert found is not None and len(found.nodes) == 1
    solution = apportion.solve(given, gap=0.02, time_limit=3.0)
    assert solution.plan is not None and solution.gap is not None and solution.gap <= 0.02
    assert verify(given, document(solution)).ok


def uneven(seed: int) -> PlacementInstance:
    """Return `gangs` on racks of two or three nodes of which others use a part, a rack of two types."""
    rng, given = Random(seed), gangs(seed)
    nodes = [
        PlacementNodes(
            f"n{rack}{at}",
            {"gpu": 8, "cpu": 96, "mem": 96},
            {"rack": f"r{rack}"},
            labels={"type": "new" if rack else "old"},
            used={"gpu": rng.randint(0, 5), "cpu": rng.randint(0, 60), "mem": rng.randint(0, 60)},
        )
        for rack in range(3)
        for at in range(rng.randint(2, 3))
    ]
    return replace(given, nodes=tuple(nodes))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(12))
def test_uneven_nodes_of_all_places_are_together(seed: int) -> None:
    given = uneven(seed)
    found = bundled_site(given)
    assert found is not None and len(found.nodes) == 2 and found.across == ("rack",)
    by_bundle, by_shape = (apportion.solve(given, formulation=name) for name in ("by_bundle", "by_shape"))
    assert by_bundle.termination == by_shape.termination == "optimal"
    assert by_bundle.objective == by_shape.objective and verify(given, document(by_bundle)).ok


@pytest.mark.parametrize("seed", range(8))
def test_contents_are_what_enumeration_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    needs, free = rng.integers(0, 4, (4, 3)) * [1, 2, 3], rng.integers(0, 9, (5, 3)) * [1, 2, 2]
    needs[:, 0] = np.maximum(1, needs[:, 0])
    contents, weights = NodeContents(needs, free), rng.integers(0, 30, 4)
    most = contents.most(weights)
    for node, room in enumerate(free):
        counts = np.array(list(product(range(int(room[0]) + 1), repeat=4)))
        fitting = counts[(counts @ needs <= room).all(axis=1)]
        assert most[contents.sort[node]] == (fitting @ weights).max()
    by_sort, heavier = contents.heavier(weights.astype(float), np.full(most.size, -1.0), 2)
    assert by_sort.tolist() == most.tolist()
    for sort, kinds in heavier:
        for node in np.flatnonzero(contents.sort == sort):
            assert (needs[list(kinds)].sum(axis=0) <= free[node]).all()
    assert {sort for sort, kinds in heavier if weights[list(kinds)].sum() == most[sort]} == set(
        range(most.size)
    )


def test_weights_of_an_instance_without_bundles_are_refused() -> None:
    """A certificate by bundles of what speaks of single nodes, and so has none."""
    pods = PlacementPods({"gpu": 1}, 2, required="node")
    given = site([PlacementJob("a", (PlacementOption("x", (pods,), 1.0),))], 8, 2)
    honest = document(apportion.solve(given))
    prices = {"by bundle": 0.0, "pods of weight 1 at n0": 1.0}
    forged = {**honest, "certificate": {**honest["certificate"], "multipliers": prices}}
    assert verify(given, honest).ok and not verify(given, forged).ok


def test_no_contents_where_no_resource_is_needed_by_all() -> None:
    assert not NodeContents(np.array([[1, 0], [0, 1]]), np.array([[4, 4]])).is_listed
    assert bundled_site(gangs(0)) is not None
    one, other = (
        PlacementJob(name, (PlacementOption("x", (PlacementPods({name: 1}),), 1.0),))
        for name in ("gpu", "cpu")
    )
    found = bundled_site(site([one, other], 8, 2))
    assert found is not None and found.across == ()


@pytest.mark.parametrize("seed", range(4))
def test_contents_in_coarse_units_hold_at_least_what_nodes_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    needs, free = rng.integers(100_000, 900_000, (3, 2)), rng.integers(0, 3_000_000, (6, 2))
    contents, weights = NodeContents(needs, free), rng.integers(1, 30, 3)
    assert contents.is_listed
    most, counts = contents.most(weights), np.array(list(product(range(31), repeat=3)))
    for node, room in enumerate(free):
        exact = (counts[(counts @ needs <= room).all(axis=1)] @ weights).max()
        assert exact <= most[contents.sort[node]] <= exact + 2 * weights.max()


def test_nodes_hold_less_than_their_sums_say() -> None:
    """On 20 nodes lie 40 pods c, four on each of 7 and one beside a pod on 12; the last one has one pod."""
    needs = {"a": {"gpu": 5, "cpu": 5}, "b": {"gpu": 3, "cpu": 9}, "c": {"gpu": 2, "cpu": 2}}
    jobs = [
        PlacementJob(f"{name}{k}", (PlacementOption("x", (PlacementPods(need),), 1.0),))
        for name, need in needs.items()
        for k in range(40)
    ]
    group = PlacementNodes("n[0-19]", {"gpu": 8, "cpu": 12}, {"rack": "r[0-3]"})
    given = PlacementInstance("1", ("rack", "node"), (group,), tuple(jobs))
    solution = apportion.solve(given, formulation="by_bundle", time_limit=20.0)
    assert solution.termination == "optimal" and solution.objective == 53.0
    by_sums = apportion.solve(PlacementByBundle(given).model).objective
    assert by_sums is not None and by_sums > 53.0


def test_a_gap_ends_the_search_for_a_better_plan() -> None:
    """It went on as if none was asked for."""
    given = generate_menus(12, 16, 12)
    began = time.process_time()
    near = apportion.solve(given, formulation="by_bundle", gap=0.02)
    took, began = time.process_time() - began, time.process_time()
    best = apportion.solve(given, formulation="by_bundle")
    assert took < 0.5 * (time.process_time() - began)
    assert near.termination == "gap_reached" and best.termination == "optimal"
    assert near.objective is not None and best.objective is not None
    assert near.objective >= 0.98 * best.objective


def test_a_bound_by_forged_weights_is_refused() -> None:
    """Whatever weights a certificate names, its bound is what these prove."""
    given = generate_menus(2, 16, 12)
    honest = document(apportion.solve(given, formulation="by_bundle", time_limit=20.0))
    assert verify(given, honest).ok
    certificate = honest["certificate"]
    prices = certificate["multipliers"]
    name = next(one for one in prices if one.startswith("pods of weight "))
    listed, bundle = name.removeprefix("pods of weight ").split(" at ", 1)
    weights = listed.split(",")
    forged = [["0"] * len(weights), weights[:-1], [*weights, "1"], [str(2**26 + 1), *weights[1:]]]
    names = [f"pods of weight {','.join(one)} at {bundle}" for one in forged]
    for other in (*names, f"pods of weight {listed} at n9", f"pods of weight {listed} at {bundle}x"):
        changed = {key: value for key, value in prices.items() if key != name} | {other: prices[name]}
        assert not verify(given, {**honest, "certificate": {**certificate, "multipliers": changed}}).ok


@pytest.mark.parametrize("fragmented", [False, True])
def test_prices_of_a_tenth_lead_to_the_same_relaxation(
    fragmented: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    menus = PlacementByBundle(generate_menus(7, 200, 192, fragmented=fragmented)).pod_menus()
    assert menus is not None
    few = menus.some(10)
    assert few.offsets.size - 1 == 20 and len(few.free) == 20 and few.owner.size == few.values.size
    assert few.values.tolist() == menus.values[menus.owner % 10 == 0].tolist()
    whole = patterns.relaxed(menus, None)
    monkeypatch.setattr(patterns, "_LARGE", 100)
    found = patterns.relaxed(menus, None)
    assert whole is not None and found is not None
    assert found.worth == pytest.approx(whole.worth, rel=1e-8)


def test_rows_of_shared_places_count_what_fits_in_each() -> None:
    """Racks of 3 and 2 nodes, gangs of pods of 3 GPUs and 20 cores or more; single pods do not count."""
    gangs = [((4, 20), 2), ((3, 40), 3), ((1, 1), 1)]
    jobs = [
        PlacementJob(
            f"j{k}",
            (PlacementOption("x", (PlacementPods({"gpu": gpu, "cpu": cpu}, count),), 1.0, required="rack"),),
        )
        for k, ((gpu, cpu), count) in enumerate(gangs)
    ]
    jobs.append(PlacementJob("free", (PlacementOption("x", (PlacementPods({"gpu": 1, "cpu": 1}, 4),), 1.0),)))
    nodes = [(8, 96, 0), (8, 96, 0), (2, 96, 0), (8, 30, 1), (8, 96, 1)]
    groups = [
        PlacementNodes(f"n{at}", {"gpu": gpu, "cpu": cpu}, {"rack": f"r{rack}"})
        for at, (gpu, cpu, rack) in enumerate(nodes)
    ]
    given = PlacementInstance("1", ("rack", "node"), tuple(groups), tuple(jobs))
    made, _ = bundled_program(given)
    # fits by node min(gpu // 3, cpu // 20): 2, 2, 0 and 1, 2
    assert [(row.name, row.room, sorted(row.form.factors.tolist())) for row in sharing_rows(made)] == [
        ("2 pods in one rack of n0 and 4 more", 4 // 2 + 3 // 2, [1, 1]),
        ("3 pods in one rack of n0 and 4 more", 4 // 3 + 3 // 3, [1]),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"rules": (SpreadRule(level="rack", by="job", max=1),)},
        {"goals": (ValueGoal(), UsedGoal(level="rack"))},
        {"goals": (ValueGoal(), (UsedGoal(level="rack", weight=2), PodsMovedGoal()))},
    ],
)
def test_rules_and_goals_of_places_keep_bundles_of_one_place(change: dict[str, Any]) -> None:
    found = bundled_site(replace(gangs(0), **change))
    assert found is not None and found.across == () and len(found.nodes) == 3


def test_sums_of_goals_name_nodes_and_levels_as_goals_do() -> None:
    moved = PodsMovedGoal()
    assert bundled_site(replace(gangs(0), goals=((UsedGoal(level="node"), moved),))) is None
    found = bundled_site(replace(gangs(0), goals=((LeftGoal(nodes=("n1",)), moved),)))
    assert found is not None and sorted(map(len, found.members)) == [1, 1, 2, 2]


def test_weights_row_is_what_the_heaviest_sets_weigh() -> None:
    needs = ({"gpu": 3}, {"gpu": 5})
    jobs = [
        PlacementJob(f"j{k}", (PlacementOption("x", (PlacementPods(need, 2),), 1.0),))
        for k, need in enumerate(needs)
    ]
    made, _ = bundled_program(site(jobs, 8, 2))
    row = weights_row(made, "n0 and 7 more", [2, 3])
    assert row.name == "pods of weight 2,3 at n0 and 7 more"
    assert row.room == 8 * 5 and sorted(row.form.factors.tolist()) == [2 * 2, 2 * 3]
    assert weights_row(made, "n0 and 7 more", [0, MOST_WEIGHT]).room == 8 * MOST_WEIGHT
    for wrong in ([-1, 1], [1, MOST_WEIGHT + 1], [1, 2, 3]):
        with pytest.raises(ValueError):
            weights_row(made, "n0 and 7 more", wrong)
    with pytest.raises(ValueError):
        weights_row(made, "n0", [1, 1])
    unlike = [
        PlacementJob(name, (PlacementOption("x", (PlacementPods({name: 1}),), 1.0),))
        for name in ("gpu", "cpu")
    ]
    with pytest.raises(ValueError, match="no weights of pods"):
        weights_row(bundled_program(site(unlike, 4, 1))[0], "n0 and 3 more", [1, 1])


def test_weights_are_read_from_names_as_rows_state_them() -> None:
    others = ["gpu of n0", "1,2 at n0", "pods of weight 1,-2 at n1"]
    names = ["pods of weight 2,30 at n0 at x", *others]
    assert weights_in([*names, "pods of weight  at n2", "pods of weight 1234567890 at n3"]) == {
        "n0 at x": [2, 30]
    }


def test_when_nodes_are_taken_together() -> None:
    """Bundles begin at 200 pairs of a pod and a node, shapes end at 1,500 of an option and a node."""
    few, many = generate_menus(0, 12, 32), generate_menus(0, 16, 32)
    pairs = [32 * sum(len(job.options) for job in one.jobs) for one in (few, many)]
    assert pairs[0] < 1_500 <= pairs[1]
    assert takes_bundles(few) and leaves_shapes(few)
    assert takes_bundles(many) and not leaves_shapes(many) and not is_huge(many)
    assert not takes_bundles(replace(few, jobs=few.jobs[:0]))
    wide = replace(many, goals=(ValueGoal(), UsedGoal(level="rack")))
    assert leaves_shapes(wide) and not leaves_shapes(replace(wide, jobs=generate_menus(0, 120, 32).jobs))
    assert is_huge(generate_menus(0, 400, 992))
    unlike = [replace(group, labels={"name": group.names}) for group in uneven(0).nodes]
    assert not takes_bundles(replace(generate_menus(0, 500, 4), nodes=tuple(unlike)))


def test_the_level_that_all_pods_of_an_option_share() -> None:
    def option(required: str | None, *pods: str | None) -> PlacementOption:
        of = [
            PlacementPods({"gpu": 1}, 2, name=str(at), **({} if one is None else {"required": one}))
            for at, one in enumerate(pods)
        ]
        return PlacementOption("x", tuple(of), 1.0, **({} if required is None else {"required": required}))

    assert shared_level(option(None, None)) is UNSET and shared_level(option(None, None, None)) is UNSET
    assert shared_level(option("rack", None)) == shared_level(option(None, "rack")) == "rack"
    assert shared_level(option("block", None, None)) == "block"
    for several in (option("block", "rack"), option(None, "rack", None), option("block", "rack", "rack")):
        assert shared_level(several) is None


def test_pieces_are_counted_wherever_the_sum_does_not_say_as_much() -> None:
    """Of 3 and 2 free one piece of 2 each, 1 left; of 4 none of 5, 8 left; of 2 and 4 the sum says all."""
    job = PlacementJob("a", (PlacementOption("x", (PlacementPods({"gpu": 1}, preferred="rack"),), 1.0),))
    for free, need, expected in (
        ((3, 2), 2, [(0, 2, 2)]),
        ((4, 4), 5, [(0, 5, 0)]),
        ((2, 4), 2, []),
        ((3, 3), 1, []),
    ):
        nodes = tuple(
            PlacementNodes(f"n{at}", {"gpu": 8}, {"rack": "r0"}, used={"gpu": 8 - left})
            for at, left in enumerate(free)
        )
        found = bundled_site(PlacementInstance("1", ("rack", "node"), nodes, (job,)))
        assert found is not None and len(found.nodes) == 1 and not found.has_patterns
        assert found.counted("gpu", np.array([need, 0])) == expected


def test_bundles_of_one_place_know_the_places_of_every_level() -> None:
    """Three levels and a rule of the middle one: bundles lie where their nodes do."""
    group = PlacementNodes("n[0-7]", {"gpu": 8}, {"block": "b[0-1]", "rack": "r[0-3]"})
    job = PlacementJob("a", (PlacementOption("x", (PlacementPods({"gpu": 1}),), 1.0),))
    rule = SpreadRule(level="rack", by="job", max=1)
    found = bundled_site(PlacementInstance("1", ("block", "rack", "node"), (group,), (job,), rules=(rule,)))
    assert found is not None and not found.across and len(found.nodes) == 4
    assert found.place["block"].tolist() == [0, 0, 1, 1] and found.place["rack"].tolist() == [0, 1, 2, 3]
    assert found.places["node"] == found.nodes


def test_one_option_whose_pods_share_no_level_is_enough_for_bundles_of_one_place() -> None:
    apart = (PlacementPods({"gpu": 1}, name="a", required="rack"), PlacementPods({"gpu": 1}, name="b"))
    given = gangs(1)
    jobs = (*given.jobs, PlacementJob("mixed", (PlacementOption("o", apart, 1.0),)))
    found = bundled_site(replace(given, jobs=jobs))
    assert found is not None and not found.across and bundled_site(given).across


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(4))
def test_limits_of_places_are_kept_by_patterns_and_their_bound_holds(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn rounds, few enough to enumerate: plans keep every limit, bounds are no less than the optimum."""
    for many in ("_MANY_LIMITED", "_MANY_LIMITED_ALIKE"):
        monkeypatch.setattr(bundles, many, 0)
    seen = Counter[str]()
    for number in range(1500 * part, 1500 * (part + 1)):
        rules = ("limit", "limit", "max_stops", *(["drain"] if number % 2 else []))
        told = draw_placement.instance(Random(f"limits {number}"), rules, bundles=True)
        for rule in told["rules"]:
            rule |= {"when": "after"} if rule["rule"] == "limit" else {}
        given: Any = apportion.read(told)
        site = bundled_site(given)
        if site is None or not site.place_limits:
            continue
        expected = truth.best(told)
        solution: Any = apportion.solve(given, formulation="by_bundle", time_limit=20.0)
        seen[solution.termination] += 1
        if expected is None:
            assert solution.plan is None
            continue
        assert solution.termination != "infeasible", number
        sign = 1 if told["goals"][0]["goal"] == "value" else -1
        bound = solution.certificate.bound
        assert bound is None or sign * (Fraction(bound) - expected[0]) >= -Fraction(1, 10**9), number
        if solution.plan is not None:
            assert not truth.broken(told, solution.plan), number
            value = truth.values(told, solution.plan)[0]
            assert value == expected[0] or solution.termination != "optimal", number
    assert seen["optimal"] > 30 and seen["node_limit"] > 0, seen


def test_a_cap_of_every_rack_leaves_little_of_the_optimum_open_on_many_nodes() -> None:
    given = generate_menus(1, 600, 496, fragmented=True, running=0.5)
    site = site_of(given)
    free = np.bincount(site.place["rack"], site.free("gpu")).astype(int)
    caps = {name: 4 * int(free[at]) // 5 for at, name in enumerate(site.places["rack"])}
    capped = replace(given, rules=(LimitRule(level="rack", resource="gpu", limits=caps),))
    made = bundled_site(capped)
    assert made is not None and made.place_limits
    solution = apportion.solve(capped, time_limit=60.0, gap=0.1)
    assert solution.gap is not None and solution.gap < 0.1  # about 0.01 after 4 s
    assert verify(capped, document(solution)).ok
    # what stays in a rack exceeds its limit: counted rack by rack, where that is said
    job = next(one for one in given.jobs if one.current is not None)
    assert job.current is not None
    node = next(iter(next(iter(job.current.on.values()))))
    rack = site.places["rack"][site.place["rack"][site.number[node]]]
    fixed = tuple(replace(one, fixed=one is job) for one in given.jobs)
    rule = LimitRule(level="rack", resource="gpu", limits={rack: 0})
    other = bundled_site(replace(given, jobs=fixed, rules=(rule,)))
    assert other is None or not other.place_limits


def test_what_drained_nodes_leave_free_counts_in_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a rack with a cap of 10 one of two nodes of 8 GPUs is drained: the other one is full."""
    monkeypatch.setattr(bundles, "_MANY_LIMITED_ALIKE", 0)
    pod = {"id": "run", "value": 1, "pods": [{"needs": {"gpu": 1}}]}
    given: Any = apportion.read(
        {
            "kind": "placement",
            "schema_version": "1",
            "levels": ["rack", "node"],
            "nodes": [{"names": "n[0-3]", "capacity": {"gpu": 8}, "at": {"rack": "r[0-1]"}}],
            "jobs": [{"id": f"j{k}", "options": [pod]} for k in range(30)],
            "rules": [
                {"rule": "limit", "level": "rack", "resource": "gpu", "limits": {"r0": 10, "r1": 3}},
                {"rule": "drain", "nodes": ["n0"]},
            ],
        }
    )
    made = bundled_site(given)
    assert made is not None and made.place_limits
    solution = apportion.solve(given, formulation="by_bundle")
    assert solution.objective == 11.0 and solution.termination == "optimal"
    assert verify(given, document(solution)).ok


@pytest.mark.parametrize("seed", [1, 2])
def test_a_round_that_any_first_plan_decides_waits_for_no_better_one(seed: int) -> None:
    """Two thirds of the limit went into one, whatever the limit was."""
    given = generate(seed, 120, 8)
    began = time.process_time()
    best = apportion.solve(given, time_limit=60.0)
    assert best.termination == "optimal" and verify(given, document(best)).ok
    assert time.process_time() - began < 10.0


def test_packing_what_was_chosen_leaves_time_for_a_choice_near_it() -> None:
    """It had all the time that was left, and the search for a choice near it came after that."""
    began = time.process_time()
    found = apportion.solve(generate_menus(31, 100, 96), time_limit=3.0)
    assert found.termination == "time_limit" and found.gap is not None and found.gap < 0.01
    assert time.process_time() - began < 3.0 * 1.3


def test_a_proof_that_would_list_millions_of_placed_shapes_is_not_begun() -> None:
    """It took all memory there was, whatever the limit."""
    given, began = generate_menus(0, 600, 992, fragmented=True), time.process_time()
    best = apportion.solve(given, time_limit=20.0, proof=True)
    assert best.termination == "optimal" and best.proof is None
    assert any("too many ways" in note for note in best.notes)
    assert time.process_time() - began < 20.0
    with pytest.raises(InvalidInstance, match="no statement"):
        statement_of(given)
