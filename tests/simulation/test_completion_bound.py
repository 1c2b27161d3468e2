"""What no policy undercuts, against policies that try: the named ones, and plans drawn at random."""

from __future__ import annotations

import json
from itertools import combinations_with_replacement

import numpy as np
import pytest

from apportion.cluster.policies.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.placing import run_lengths
from apportion.cluster.simulation.rounds.completion_bound import (
    bound_at,
    completion_bound,
    greatest_rates,
    prices_of,
)
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous, parse_nodes
from apportion.cluster.simulation.rounds.simulator import ClusterRun, run_cluster
from apportion.core.errors import InvalidInstance, InvalidOption
from tests.budgets import examples
from tests.clusters import application, scenario

RULES = RoundRules()


def run(made: Scenario, policy: ClusterPolicy, adaptive: bool, rules: RoundRules = RULES) -> ClusterRun:
    jobs = SimulatedJobs(
        made.ground_truth(adaptive), made.submitted_s, made.requested_gpus, made.beliefs(adaptive)
    )
    return run_cluster(policy, made.nodes, jobs, rules)


def mean(done: ClusterRun) -> float:
    return float((done.completed_s - done.submitted_s).mean())


def drawn(rng: np.random.Generator, machines: str, jobs: int) -> Scenario:
    """Jobs of three applications, one of epochs of a second or two."""
    types = [part.partition(":")[0] for part in machines.split(",")]
    speeds = {name: 1.0 + index for index, name in enumerate(types)}
    profiles = {
        "net": application(speeds=speeds),
        "bert": application("bert", 2, 6.0, speeds),
        "quick": application("quick", 30, 9.0, {name: 8.0 * speed for name, speed in speeds.items()}),
    }
    told = [
        (
            float(rng.integers(0, 400)),
            str(rng.choice([*profiles])),
            int(rng.integers(1, 5)),
            int(rng.choice([64, 128, 256])),
        )
        for _ in range(jobs)
    ]
    return scenario(told, parse_nodes(machines), profiles)


class AtRandom:
    """Gives nodes to jobs at random; changes its mind in some rounds only."""

    def __init__(self, rng: np.random.Generator, changes: float) -> None:
        self._rng, self._changes = rng, changes

    def __call__(self, view: ClusterView) -> ClusterPlan:
        free = view.nodes.gpus.copy()
        plan: list[tuple[int, ...]] = [()] * view.num_jobs
        for job, held in enumerate(view.held):
            if held and self._rng.random() > self._changes:
                plan[job] = held
                np.subtract.at(free, list(held), 1)
        for job in self._rng.permutation(view.num_jobs).tolist():
            if plan[job]:
                continue
            kind = self._rng.integers(0, len(view.nodes.types))
            own = np.flatnonzero(view.nodes.kind == kind)
            slots = np.repeat(own, free[own])
            count = int(self._rng.integers(0, min(slots.size, 9) + 1))
            taken = tuple(sorted(self._rng.permutation(slots)[:count].tolist()))
            if taken and view.beliefs[job].rate(run_lengths(taken), view.nodes.types[kind]) > 0:
                plan[job] = taken
                np.subtract.at(free, list(taken), 1)
        return ClusterPlan(plan)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machines", ["gpu:2x4", "slow:2x2,fast:1x4"])
@pytest.mark.parametrize("rules", [RULES, RoundRules(round_s=5.0, restart_s=2.0), RoundRules(round_s=7.5)])
def test_no_plan_undercuts_it(machines: str, rules: RoundRules) -> None:
    for seed in range(examples(25, fewest=3)):
        rng = np.random.default_rng(seed)
        made = drawn(rng, machines, int(rng.integers(1, 7)))
        adaptive = bool(rng.integers(0, 2))
        done = [run(made, AtRandom(rng, changes), adaptive, rules) for changes in (0.0, 0.1, 0.5)]
        found = completion_bound(made, [rules], done[0].completed_s, steps=20)
        prices = rng.exponential(found.prices.mean() + 0.01, found.prices.shape)
        others = bound_at(made, [rules], found.edges_s, prices)
        for one in done:
            assert max(found.mean_s, others.mean_s) <= mean(one) * (1.0 + 1e-9), seed


@pytest.mark.one_in(6)
@pytest.mark.parametrize("policy", ["costate", "afs", "sia", "srtf", "tiresias", "optimus"])
def test_named_policies_end_above_it_and_not_far(policy: str) -> None:
    named = CLUSTER_POLICIES[policy]
    rng = np.random.default_rng(3)
    made = drawn(rng, "gpu:2x4", 12)
    rules = RoundRules(round_s=named.round_s)
    done = run(made, named.make(0), named.adaptive, rules)
    found = completion_bound(made, [rules], done.completed_s)
    assert found.mean_s <= mean(done) <= 4.0 * found.mean_s
    again = bound_at(made, [rules], found.edges_s, found.prices)
    assert again.mean_s == found.mean_s
    # rounds of others only lower it
    assert (
        bound_at(made, [rules, RoundRules(round_s=10.0)], found.edges_s, found.prices).mean_s <= found.mean_s
    )


def test_a_job_alone_is_bounded_by_its_own_time() -> None:
    """Prices of 0: it runs on the quickest configuration from its first start on."""
    made = scenario([(10.0, "net", 4, 128)], homogeneous(1, 4, "gpu"))
    done = run(made, lambda view: ClusterPlan([(0, 0, 0, 0)]), adaptive=True)
    edges = np.arange(0.0, 5000.0, 5.0)
    found = bound_at(made, [RULES], edges, np.zeros((1, edges.size - 1)))
    assert mean(done) - 10.0 <= found.mean_s <= mean(done)


def test_the_greatest_rates_are_those_of_all_placements() -> None:
    made = scenario([(0.0, "net", 1, 64), (0.0, "net", 2, 256)], homogeneous(3, 3, "gpu"))
    table, nodes = made.tables["net"], made.nodes
    rates, _, gpus = greatest_rates(table, [64, 256], nodes)
    for count in range(1, 10):
        own = rates[:, gpus <= count].max(axis=1)
        shapes = [
            shape
            for size in range(1, 4)
            for shape in combinations_with_replacement(range(1, 4), size)
            if sum(shape) <= count
        ]
        for epoch in range(table.application.epochs):
            truths = [
                made.ground_truth(adaptive).rate(job, epoch, 0.0, shape, "gpu", 0)
                for adaptive in (False, True)
                for job in (0, 1)
                for shape in shapes
            ]
            assert own[epoch] == pytest.approx(np.nanmax(truths), rel=1e-9)


def test_prices_that_cannot_be_are_refused() -> None:
    made = scenario([(0.0, "net", 1, 64)], homogeneous(1, 4, "gpu"))
    edges, prices = np.array([0.0, 60.0, 120.0]), np.zeros((1, 2))
    for wrong, said in (
        ((np.array([60.0, 0.0, 120.0]), prices), "rise from 0"),
        ((np.array([1.0, 60.0, 120.0]), prices), "rise from 0"),
        ((edges, np.zeros((2, 2))), "at least 0"),
        ((edges, prices - 1.0), "at least 0"),
        ((edges, prices + np.nan), "at least 0"),
    ):
        with pytest.raises(InvalidOption, match=said):
            bound_at(made, [RULES], *wrong)
    with pytest.raises(InvalidOption, match="restarts of at least"):
        bound_at(made, [RoundRules(restart_s=1.0)], edges, prices)


def test_an_answer_is_read_back() -> None:
    answer = {"bound": {"avg_jct_s": 1.0, "edges_s": [0, 5.0], "prices": {"b": [1.0], "a": [2.0]}}}
    edges, prices = prices_of(json.dumps(answer), ("a", "b"))
    assert edges.tolist() == [0.0, 5.0] and prices.tolist() == [[2.0], [1.0]]
    with pytest.raises(InvalidOption, match="for b, a"):
        prices_of(json.dumps(answer), ("a",))
    for text in ("{", "{}", json.dumps({"bound": answer["bound"] | {"edges_s": [0]}})):
        with pytest.raises(InvalidInstance):
            prices_of(text, ("a", "b"))
