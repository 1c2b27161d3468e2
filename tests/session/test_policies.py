"""Policies decide a session's instance through its view; their plans are checked and bounded."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import apportion
from apportion.cluster.policies.gap_filling_view import GapFillingView, InvalidPlan, Plan
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan
from apportion.core.errors import ApportionError, InvalidInstance, InvalidOption
from apportion.instances import FreezingInstance, GapFillingInstance
from apportion.instances.gap_filling.generator import generate
from apportion.instances.kinds import kind_of
from apportion.service.by_policy import policies_of
from apportion.service.session import Session
from tests.budgets import examples
from tests.hunt import draw_freezing, draw_gap_filling, draw_placement, draw_tenants
from tests.strategies import freezing_on_nodes, gap_filling_instances


@pytest.mark.parametrize("name", policies_of("gap_filling"))
def test_every_gap_filling_policy_decides_rounds_and_is_no_better_than_its_bound(name: str) -> None:
    session = Session(generate(jobs=3, nodes=10, seed=1))
    nodes = session.instance.nodes  # type: ignore[union-attr]
    for step in range(3):
        decision = session.decide(name, time_s=100.0 * step)
        assert decision.policy == name
        assert apportion.check(session.instance, decision.require()).objective == decision.objective
        optimum = apportion.solve(session.instance).objective
        assert decision.objective is not None
        assert optimum is not None
        assert decision.bound is not None
        assert decision.objective <= optimum * (1 + 1e-9) <= decision.bound * (1 + 2e-9)
        session.apply({"op": "adopt", "plan": decision.plan}, {"op": "set_nodes", "nodes": nodes[step + 1 :]})


@settings(max_examples=examples(40))
@given(gap_filling_instances())
def test_freetrain_in_a_session_is_the_optimum(instance: GapFillingInstance) -> None:
    decision = Session(instance).decide("freetrain", time_s=0.0)
    optimum = apportion.solve(instance)
    assert decision.require().keys() == {"allocation"}
    assert decision.objective == pytest.approx(optimum.objective, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", policies_of("freezing"))
def test_every_cluster_policy_answers_or_says_what_it_lacks(name: str) -> None:
    session = Session(apportion.read("examples/freezing_small.json"))
    optimum = apportion.solve(session.instance)
    jobs: Any = session.instance.jobs
    try:
        session.decide(name, time_s=0.0)
    except InvalidOption as error:
        assert "remaining_work" in str(error) or "profiles" in str(error)
    session.apply(*({"op": "update_job", "job": {"id": job.id, "remaining_work": 1e5}} for job in jobs))
    try:
        decision = session.decide(name, time_s=60.0)
    except InvalidOption as error:
        assert "profiles" in str(error)
        assert name in ("optimus", "icefrog", "icefrog-learning", "joint", "costate-freezing")
        return
    assert decision.objective is not None
    assert optimum.objective is not None
    assert decision.objective >= optimum.objective * (1 - 1e-9)
    assert apportion.check(session.instance, decision.plan).feasible


def test_policies_of_drawn_rounds_end_with_a_checked_plan_or_one_clear_error() -> None:
    """Rounds of nothing, of no GPUs and of 10^12, jobs that hold more than they may, slices too high up."""
    draws = (
        draw_freezing.instance,
        draw_gap_filling.instance,
        draw_placement.instance,
        draw_tenants.instance,
    )
    seen = Counter[str]()
    for number in range(examples(400)):
        rng = Random(f"policies {number}")
        try:
            instance = apportion.read(draws[number % 4](rng))
        except InvalidInstance:  # guarantees beyond what there is
            continue
        for name in policies_of(kind_of(instance).name)[number % 5 :: 5]:
            try:
                decision = Session(instance).decide(name, time_s=0.0)
            except ApportionError:
                seen["refused"] += 1
                continue
            seen["decided"] += 1
            assert decision.plan is None or apportion.check(instance, decision.plan).feasible
    assert min(seen["refused"], seen["decided"]) > 2


@settings(max_examples=examples(40))
@given(instance=freezing_on_nodes())
def test_a_round_is_shown_and_its_answer_read_back_on_the_same_nodes(instance: FreezingInstance) -> None:
    decision = Session(instance).decide(lambda view: ClusterPlan(view.held), time_s=0.0)
    held = {job.id: job.current for job in instance.jobs if job.current is not None}
    if decision.plan is None:
        assert any("fails the check" in note for note in decision.solution.notes)
        return
    for job, place in decision.plan["configuration"].items():
        assert (place["gpu_type"], place["gpus"]) == (held[job].gpu_type, held[job].gpus)


def test_an_unknown_policy_is_named_with_the_ones_there_are() -> None:
    with pytest.raises(InvalidOption, match="greedy"):
        Session(generate(jobs=2, nodes=4, seed=1)).decide("gredy")
    matching = apportion.MatchingInstance("1", "cost", (), ())
    with pytest.raises(InvalidOption, match="no policies for matching"):
        Session(matching).decide("greedy")


def test_a_policy_of_ones_own_sees_who_holds_what_and_may_not_break_the_rules() -> None:
    session = Session(generate(jobs=3, nodes=12, seed=1))
    seen: list[GapFillingView] = []

    def nobody(view: GapFillingView) -> Plan:
        seen.append(view)
        return Plan(np.full(view.nodes.size, -1))

    assert session.decide(nobody, time_s=5.0).plan == {"allocation": {}}
    held = {job.id: len(job.current_nodes) for job in session.instance.jobs}  # type: ignore[union-attr]
    assert seen[0].held().tolist() == list(held.values())
    with pytest.raises(InvalidPlan):
        session.decide(lambda view: Plan(np.full(view.nodes.size, 99)))


def test_a_policy_remembers_since_when_nodes_are_idle() -> None:
    session = Session(generate(jobs=3, nodes=12, seed=1))
    nodes = session.instance.nodes  # type: ignore[union-attr]
    seen: list[GapFillingView] = []

    def watch(view: GapFillingView) -> Plan:
        seen.append(view)
        return Plan(view.holder)

    for step, there in enumerate((nodes, nodes[3:], (*nodes[3:], "new"))):
        session.set_nodes(there)
        session.decide(watch, time_s=10.0 * step)
    assert sorted(seen[1].departed_after_s.tolist()) == [10.0, 10.0, 10.0]
    assert seen[2].departed_after_s.size == 0
    assert np.unique(seen[2].idle_since_s).tolist() == [0.0, 20.0]
    assert seen[2].nodes.tolist() == sorted(seen[2].nodes.tolist())
