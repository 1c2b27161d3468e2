"""Matching, packing and the joint policy against enumeration and against the policies they generalise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from paper_repro.joint.gap_nodes import GapNodes
from paper_repro.joint.policies.in_turn import in_turn, longest_in_turn
from paper_repro.joint.policies.lifetime_discount import LifetimeDiscount
from paper_repro.joint.policies.without_moves import WithoutMoves
from paper_repro.joint.speed_table import SpeedTable

from apportion.cluster.policies.rounds.belief import SpeedBelief
from apportion.cluster.policies.rounds.cluster_view import (
    ClusterPlan,
    ClusterPolicy,
    ClusterView,
    Nodes,
    check_cluster_plan,
)
from apportion.cluster.policies.rounds.configurations import believed_rates, configurations
from apportion.cluster.policies.rounds.icefrog import DepthGates, IceFrog
from apportion.cluster.policies.rounds.joint import Joint, as_requested
from apportion.cluster.policies.rounds.learned_speeds import ObservedSpeeds, TypeAgnostic
from apportion.cluster.policies.rounds.matching import (
    Matching,
    Weights,
    gains,
    longest_first,
    matching_makespan,
    shortest_first,
)
from apportion.cluster.policies.rounds.packing import Packing, PairSpeeds
from apportion.cluster.policies.rounds.sia import Sia
from apportion.cluster.simulation.idle_trace import generated_trace
from apportion.cluster.simulation.rounds.job_states import Observe, RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, parse_nodes
from apportion.cluster.simulation.rounds.simulator import ClusterRun, run_cluster
from tests.budgets import examples
from tests.clusters import FREEZING, application, scenario

TYPES = ("slow", "fast")


def view_of(
    speeds: NDArray[np.float64],
    gpus: NDArray[np.int64],
    nodes: Nodes,
    held: list[tuple[int, ...]] | None = None,
) -> ClusterView:
    """A round of jobs with 1000 steps left."""
    jobs = gpus.size
    still = np.zeros(jobs)
    return ClusterView(
        time_s=3600.0,
        round_s=60.0,
        nodes=nodes,
        jobs=np.arange(jobs),
        submitted_s=np.arange(jobs, dtype=np.float64),
        requested_gpus=gpus,
        held=held or [()] * jobs,
        depth=np.zeros(jobs, dtype=np.int64),
        attained_s=still,
        attained_gpu_s=still,
        restarts=np.zeros(jobs, dtype=np.int64),
        frozen_s=still,
        restart_s=np.full(jobs, 30.0),
        beliefs=[
            SpeedBelief(dict(zip(TYPES, row, strict=True)), int(count), 1000.0)
            for row, count in zip(speeds.tolist(), gpus, strict=True)
        ],
    )


ROUNDS = st.integers(0, 10_000).map(np.random.default_rng)


@pytest.mark.parametrize("weights", [shortest_first, longest_first])
@pytest.mark.parametrize("seed", range(30))
def test_matching_is_worth_what_enumeration_finds(seed: int, weights: Weights) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(1, 6))
    nodes = Nodes(np.array([3, 2]), np.array([0, 1]), TYPES)
    view = view_of(rng.uniform(0.1, 5.0, (jobs, 2)), rng.integers(1, 4, jobs), nodes)
    values = gains(view, weights, 1800.0)
    best = 0.0
    for chosen in product((-1, 0, 1), repeat=jobs):
        used = [sum(int(view.requested_gpus[j]) for j in range(jobs) if chosen[j] == kind) for kind in (0, 1)]
        if used[0] <= 3 and used[1] <= 2:
            best = max(best, sum(values[j, kind] for j, kind in enumerate(chosen) if kind >= 0))
    plan = Matching(weights, gap=0.0)(view)
    check_cluster_plan(view, plan)
    worth = sum(values[j, nodes.kind[held[0]]] for j, held in enumerate(plan.nodes) if held)
    assert worth == pytest.approx(best)


def test_who_has_its_type_keeps_its_gpus() -> None:
    nodes = Nodes(np.array([2, 2, 2]), np.array([0, 0, 1]), TYPES)
    view = view_of(np.array([[1.0, 1.02], [1.0, 1.0]]), np.array([2, 2]), nodes, [(1, 1), ()])
    plan = Matching()(view)
    # 2 % more speed is not worth a restart when little is left
    assert plan.nodes[0] == (1, 1) and len(plan.nodes[1]) == 2


def test_in_turn_takes_the_quickest_free_type_and_nobody_overtakes() -> None:
    nodes = Nodes(np.array([2, 1]), np.array([0, 1]), TYPES)
    view = view_of(np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 3.0]]), np.array([1, 2, 1]), nodes)
    assert in_turn(view).nodes == [(1,), (0, 0), ()]
    agnostic = TypeAgnostic(in_turn)(view)
    assert agnostic.nodes == [(0,), (), ()], "no type is told from another: the emptier one, then all wait"


def test_longest_in_turn_begins_with_the_most_gpu_time() -> None:
    nodes = Nodes(np.array([2, 1]), np.array([0, 1]), TYPES)
    view = view_of(np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 3.0]]), np.array([1, 2, 1]), nodes)
    assert longest_in_turn(view).nodes == [(1,), (0, 0), ()], "the job of two GPUs first, then in order"


def test_a_job_that_can_run_nowhere_takes_nothing_from_the_others() -> None:
    """Its infinite time made every other job worth nothing to the longest first, so that none ran."""
    nodes = Nodes(np.array([2, 1]), np.array([0, 1]), TYPES)
    view = view_of(np.array([[1.0, 3.0], [1.0, 3.0]]), np.array([1, 5]), nodes)
    assert matching_makespan(view).nodes == [(1,), ()]


def test_who_runs_without_moves_stays_and_the_others_share_what_is_free() -> None:
    nodes = Nodes(np.array([2, 1]), np.array([0, 1]), TYPES)
    speeds = np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 1.0]])
    view = view_of(speeds, np.array([1, 1, 2]), nodes, [(0,), (), ()])
    assert WithoutMoves(Matching())(view).nodes == [(0,), (1,), ()]


def test_agnostic_beliefs_are_the_geometric_mean_wherever_a_job_runs() -> None:
    seen: list[float] = []

    def note(view: ClusterView) -> ClusterPlan:
        seen.extend(view.beliefs[0].rate((1,), name) for name in (*TYPES, "none"))
        return ClusterPlan([()] * view.num_jobs)

    nodes = Nodes(np.array([2, 1]), np.array([0, 1]), TYPES)
    TypeAgnostic(note)(view_of(np.array([[1.0, 4.0]]), np.array([1]), nodes))
    assert seen[:2] == pytest.approx([2.0, 2.0]) and np.isnan(seen[2])


def test_observed_speeds_replace_and_scale_what_was_believed() -> None:
    true = np.array([[2.0, 9.0]])
    made = SpeedTable(TYPES, true, np.array([50_000.0]), np.ones(1, int), np.zeros(1))
    nodes = Nodes(np.array([1, 1]), np.array([0, 1]), TYPES)
    seen: list[tuple[float, float]] = []

    def stay(view: ClusterView) -> ClusterPlan:
        belief = view.beliefs[0]
        seen.append((belief.rate((1,), "slow"), belief.rate((1,), "fast")))
        return ClusterPlan([(0,)] * view.num_jobs)

    believed = made.believed(np.array([[1.0, 3.0]]))
    run_cluster(
        ObservedSpeeds(stay),
        nodes,
        SimulatedJobs(made, made.submitted_s, made.gpus, believed),
        RoundRules(limit_s=400.0),
    )
    assert seen[0] == (1.0, 3.0)
    # seen twice as quick on the one, so believed twice as quick on the other
    assert seen[2] == pytest.approx((2.0, 6.0))


@settings(max_examples=examples(30))
@given(ROUNDS)
def test_packing_is_worth_what_enumeration_finds_for_its_pairs(rng: np.random.Generator) -> None:
    jobs = int(rng.integers(2, 5))
    nodes = Nodes(np.array([2, 2]), np.array([0, 1]), TYPES)
    view = view_of(rng.uniform(0.5, 3.0, (jobs, 2)), np.full(jobs, 2), nodes)
    relative = rng.uniform(0.2, 1.0, (2, jobs, jobs))
    plan = Packing(PairSpeeds(np.arange(jobs), relative), gap=0.0)(view)
    check_cluster_plan(view, plan)
    values = gains(view, shortest_first, 1800.0)
    # two GPUs: each of them nobody, one job, or two; whoever is paired is paired with one partner only
    pairs = [(a, b) for a in range(jobs) for b in range(a + 1, jobs)]

    def worth(kind: int, on: tuple[int, ...]) -> float:
        if len(on) < 2:
            return float(sum(values[job, kind] for job in on))
        a, b = on
        return float(values[a, kind] * relative[kind, a, b] + values[b, kind] * relative[kind, b, a])

    sets: list[tuple[int, ...]] = [(), *((job,) for job in range(jobs)), *pairs]
    best = max(worth(0, x) + worth(1, y) for x in sets for y in sets if not set(x) & set(y))
    gpu = {kind: tuple(j for j, held in enumerate(plan.nodes) if held and held[0] == kind) for kind in (0, 1)}
    got = worth(0, gpu[0]) + worth(1, gpu[1])
    singles = max(
        worth(0, x) + worth(1, y) for x in sets[: jobs + 1] for y in sets[: jobs + 1] if x != y or not x
    )
    assert singles - 1e-9 <= got <= best + 1e-9
    if jobs == 2:
        assert got == pytest.approx(best), "with one possible pair nothing is lost by matching first"


def test_pairs_are_made_where_sharing_pays_and_nowhere_else() -> None:
    nodes = Nodes(np.array([2]), np.array([0]), ("slow",))
    view = view_of(np.ones((2, 2)), np.full(2, 2), nodes)
    kind = np.zeros(2, dtype=np.int64)
    assert Packing(PairSpeeds(kind, np.full((1, 1, 1), 0.8)))(view).nodes == [(0,), (0,)]
    assert sorted(Packing(PairSpeeds(kind, np.full((1, 1, 1), 0.4)))(view).nodes) == [(), (0, 0)]
    assert sorted(Packing(PairSpeeds(kind, np.full((1, 1, 1), np.nan)))(view).nodes) == [(), (0, 0)]


@cache
def mixed() -> Scenario:
    profiles = {
        "net": application(speeds={"slow": 1.0, "fast": 3.0}),
        "bert": application("bert", 2, 6.0, {"slow": 1.0, "fast": 1.5}),
    }
    rng = np.random.default_rng(1)
    jobs = [
        (float(rng.uniform(0, 600)), str(rng.choice(["net", "bert"])), int(rng.choice([1, 3, 6])), 128)
        for _ in range(14)
    ]
    return scenario(jobs, parse_nodes("slow:2x4,fast:1x8"), profiles)


def simulated(
    made: Scenario, policy: ClusterPolicy, observe: Observe | None = None, **more: object
) -> ClusterRun:
    return run_cluster(
        policy,
        made.nodes,
        SimulatedJobs(
            made.ground_truth(True, FREEZING),
            made.submitted_s,
            made.requested_gpus,
            made.beliefs(True, FREEZING),
        ),
        RoundRules(**more),  # type: ignore[arg-type]
        observe=observe,
    )


def test_the_joint_policy_without_gap_nodes_is_icefrog_and_without_freezing_sia() -> None:
    made = mixed()
    whole, ice = simulated(made, Joint(gap=1e-4)), simulated(made, IceFrog())
    assert ice.frozen_s.sum() > 0
    assert whole.completed_s.tolist() == ice.completed_s.tolist()
    plain = simulated(made, Joint(gates=DepthGates(deepest=0.0), gap=1e-4))
    assert plain.completed_s.tolist() == simulated(made, Sia()).completed_s.tolist()


def test_rigid_jobs_get_the_count_nearest_to_what_they_asked_for() -> None:
    made = mixed()
    counts: set[tuple[int, int]] = set()

    def note(view: ClusterView, plan: ClusterPlan) -> None:
        counts.update(
            (int(g), len(held)) for g, held in zip(view.requested_gpus, plan.nodes, strict=True) if held
        )

    run = simulated(made, Joint(as_requested), observe=note)
    assert not np.isnan(run.completed_s).any()
    assert counts <= {(1, 1), (3, 2), (3, 4), (6, 4), (6, 8)} and {1, 3, 6} == {asked for asked, _ in counts}


@cache
def with_gap() -> tuple[Scenario, GapNodes]:
    gap = GapNodes(generated_trace(2, nodes=6, days=0.5), 4, "gap", "fast")
    made, own = mixed(), parse_nodes("slow:1x4,fast:1x2")
    profiles = gap.measured({job.name: job for job in made.applications})
    jobs = [(job.submitted_s, job.application, job.gpus, job.batch) for job in made.jobs]
    return scenario(jobs, gap.joined(own), profiles), gap


OWN = 2
"""Nodes that stay."""


@pytest.mark.parametrize("agnostic", [False, True])
def test_jobs_on_gap_nodes_complete_under_every_wrapper(agnostic: bool) -> None:
    made, gap = with_gap()
    there = gap.present(parse_nodes("slow:1x4,fast:1x2"))
    discounted = LifetimeDiscount(Joint(), "gap")
    used: set[str] = set()

    def note(view: ClusterView, plan: ClusterPlan) -> None:
        used.update(view.nodes.type_of(held) for held in plan.nodes if held)

    policy: ClusterPolicy = TypeAgnostic(discounted) if agnostic else discounted
    run = simulated(made, policy, present=there, observe=note)
    assert not np.isnan(run.completed_s).any() and "gap" in used


def test_gpus_that_may_leave_are_worth_less_the_longer_a_restart_takes() -> None:
    made, _ = with_gap()
    told: list[list[float]] = []

    def note(view: ClusterView) -> ClusterPlan:
        told.append(
            [
                view.beliefs[0].rate(placement, name)
                for name in ("fast", "gap")
                for placement in ((4,), (4, 4))
            ]
        )
        assert view.nodes.type_of([0]) == "slow", "nodes that stay keep their places"
        return ClusterPlan([()] * view.num_jobs)

    def at(restart_s: float) -> list[float]:
        simulated(
            made,
            LifetimeDiscount(note, "gap"),
            present=lambda now: np.ones(OWN + 6, dtype=np.bool_),
            restart_s=restart_s,
            limit_s=61.0,
        )
        return told.pop()

    fast, spread, gap_one, gap_two = at(30.0)
    assert gap_one < fast and gap_two < spread
    assert at(250.0)[2] < gap_one
    assert at(250.0)[:2] == [fast, spread]


def test_plans_come_back_in_the_clusters_own_numbers() -> None:
    made, gap = with_gap()
    there = gap.present(parse_nodes("slow:1x4,fast:1x2"))
    moved = 0

    def note(view: ClusterView, plan: ClusterPlan) -> None:
        nonlocal moved
        check_cluster_plan(view, plan)
        moved += sum(held != gets for held, gets in zip(view.held, plan.nodes, strict=True) if held)

    class Keeps:
        """Starts every job once, one GPU each, and leaves it where it is."""

        def __call__(self, view: ClusterView) -> ClusterPlan:
            free = view.nodes.gpus - np.bincount(
                [node for held in view.held for node in held], minlength=view.nodes.gpus.size
            )
            nodes = list(view.held)
            for position, held in enumerate(nodes):
                if not held and free.any():
                    node = int(np.flatnonzero(free)[-1])
                    free[node] -= 1
                    nodes[position] = (node,)
            return ClusterPlan(nodes)

    simulated(made, LifetimeDiscount(Keeps(), "gap"), present=there, observe=note)
    assert moved == 0


def test_rules_see_the_menu_they_are_given() -> None:
    made = mixed()

    def note(view: ClusterView) -> ClusterPlan:
        menu = configurations(view.nodes)
        rates = believed_rates(view, menu, range(view.num_jobs))
        allowed = as_requested(view, menu, rates)
        assert (allowed.sum(axis=1) <= len(view.nodes.types)).all() and allowed.any(axis=1).all()
        return Joint(as_requested)(replace(view))

    simulated(made, note, limit_s=600.0)


@pytest.mark.slow
def test_runs_of_the_study_say_what_the_policies_do(data: Path) -> None:
    from paper_repro.joint.matching import run_matching
    from paper_repro.joint.packing import run_packing
    from paper_repro.joint.tasks import Task

    average = {}
    for case in ("first come, first served", "shortest first, one profile", "shortest first, oracle"):
        told = run_matching(data, Task("matching", "Gavel, all at once", case, 0)).summary
        assert told.jobs_done == told.jobs
        average[case] = told.avg_jct_s or 0.0
    assert average["shortest first, oracle"] < 0.8 * average["first come, first served"]
    packed = Task("packing", "1 GPU a job, all at once", "shortest first, packed by predicted pairs", 0)
    assert run_packing(data, packed).summary.jobs_done == 48
