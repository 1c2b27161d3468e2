"""Cluster policies against other roads: enumeration of all choices, and the rules of placing."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, check_cluster_plan
from apportion.cluster.policies.rounds.configurations import (
    believed_rates,
    choose,
    configurations,
    count_menu,
)
from apportion.cluster.policies.rounds.placing import place_whole
from apportion.cluster.policies.rounds.pollux import Pollux, fair_rates
from apportion.cluster.policies.rounds.shares_problem import SharesProblem
from apportion.cluster.policies.rounds.shares_programme import programme
from apportion.cluster.policies.rounds.sia import Titan
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import homogeneous, parse_nodes
from apportion.cluster.simulation.rounds.simulator import run_cluster
from tests.budgets import examples
from tests.clusters import scenario


def first_view(jobs: int, nodes: int = 2) -> ClusterView:
    """Return the first round of alike machines with `jobs` jobs waiting."""
    made = scenario(
        [(0.0, ("net", "bert")[index % 2], 1, 128) for index in range(jobs)], homogeneous(nodes, 4, "gpu")
    )
    seen: list[ClusterView] = []

    def policy(view: ClusterView) -> ClusterPlan:
        seen.append(view)
        return ClusterPlan([()] * view.num_jobs)

    run_cluster(
        policy,
        made.nodes,
        SimulatedJobs(made.ground_truth(True), made.submitted_s, made.requested_gpus, made.beliefs(True)),
        RoundRules(limit_s=60.0),
    )
    return seen[0]


@settings(max_examples=examples(40))
@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_choice_is_the_best_of_all(jobs: int, seed: int) -> None:
    nodes = parse_nodes("a:1x4,b:1x2")
    menu = configurations(nodes)
    rng = np.random.default_rng(seed)
    values = rng.normal(1.0, 1.0, (jobs, menu.gpus.size))
    values[rng.random(values.shape) < 0.2] = np.nan
    chosen = choose(nodes, menu, values, gap=0.0)
    best = 0.0
    for picks in product(range(-1, menu.gpus.size), repeat=jobs):
        used = np.zeros(2, dtype=int)
        for pick in picks:
            if pick >= 0:
                used[menu.gpu_type[pick]] += menu.gpus[pick]
        worth = sum(values[job, pick] for job, pick in enumerate(picks) if pick >= 0)
        if (used <= [4, 2]).all() and worth > best:
            best = float(worth)
    told = sum(values[job, pick] for job, pick in enumerate(chosen) if pick >= 0)
    assert np.isclose(told, best)


def test_pollux_reaches_the_best_power_mean_of_all_counts() -> None:
    view = first_view(3)
    menu = count_menu(view.nodes)
    speedup = believed_rates(view, menu, range(3)) / fair_rates(view)[:, None]

    def fitness(gpus: tuple[int, ...]) -> float:
        total = 0.0
        for job, count in enumerate(gpus):
            # all wait: everybody is restarted, with the same factor
            factor = 60.0 / 90.0
            gained = speedup[job, menu.gpus.tolist().index(count)] * factor if count else 0.0
            total += 1.0 / (gained + 1e-3)
        return 3.0 / total

    placed = tuple(len(held) for held in Pollux()(view).nodes)
    every = [gpus for gpus in product([0, *menu.gpus.tolist()], repeat=3) if sum(gpus) <= 8]
    assert np.isclose(fitness(placed), max(fitness(gpus) for gpus in every))


def test_titan_leaves_nobody_waiting_who_could_run() -> None:
    assert all(Titan()(first_view(6)).nodes)


def test_gavels_program_shares_alike_jobs_alike() -> None:
    optimum = programme(SharesProblem(np.ones((4, 1)), np.full(4, 2.0), np.array([4.0])), rising=np.ones(4))
    assert optimum.level is not None
    assert np.isclose(optimum.level, 0.5)
    assert np.allclose(optimum.shares, 0.5)


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_partial_nodes_are_never_split_and_nobody_moves_without_need(gpus: list[int], seed: int) -> None:
    view = first_view(len(gpus), nodes=4)
    wanted = np.array(gpus)
    while wanted.sum() > 16:
        wanted[np.argmax(wanted)] = 0
    kinds = np.zeros(wanted.size, dtype=int)
    nodes = place_whole(view, kinds, wanted)
    assert [len(held) for held in nodes] == wanted.tolist()
    for held in nodes:
        assert len(set(held)) == max(1, len(held) // 4) or not held
    check_cluster_plan(view, ClusterPlan(nodes))
    # a round later one job leaves: everybody else stays where it is
    leaver = int(np.random.default_rng(seed).integers(wanted.size))
    later = ClusterView(**{name: getattr(view, name) for name in ClusterView.__slots__} | {"held": nodes})
    wanted[leaver] = 0
    again = place_whole(later, kinds, wanted)
    assert [held for job, held in enumerate(again) if job != leaver] == [
        held for job, held in enumerate(nodes) if job != leaver
    ]


def test_pollux_runs_jobs_whose_equal_share_nobody_measured() -> None:
    """Two jobs of at most 16 measured GPUs on 64: their share is 32, and all jobs waited for ever."""
    view = first_view(2, nodes=16)
    rates = fair_rates(view)
    assert np.isfinite(rates).all() and (rates > 0).all()
    assert all(Pollux()(view).nodes)
