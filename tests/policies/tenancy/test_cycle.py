"""One scheduling cycle on small clusters made by hand, and what holds for every cycle."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster.policies.rounds.cycle_state import CycleState
from apportion.cluster.policies.rounds.kueue_objects import (
    PodSet,
    QueueRules,
    ResourceGroup,
    Workload,
    allows,
)
from apportion.cluster.policies.rounds.kueue_tournament import CycleRules, head_order, scheduling_cycle
from apportion.cluster.policies.rounds.quota_tree import Pair, Quota, QuotaTree, TreeNode
from tests.budgets import examples
from tests.strategies import quota_trees

GPU = ("default", "gpu")
GROUP = (ResourceGroup(("default", "spot"), frozenset({"gpu"})),)
RULES = QueueRules(GROUP, "LowerPriority", "Any")


def gpus(name: str, queue: str, count: int, **more: object) -> Workload:
    workload = Workload(name, queue, (PodSet("main", count, {"gpu": 1}),))
    return replace(workload, **more)  # type: ignore[arg-type]


def running(name: str, queue: str, count: int, **more: object) -> Workload:
    return gpus(name, queue, count, admission=({"gpu": "default"},), reserved_s=0.0, **more)


def two_teams() -> QuotaTree:
    return QuotaTree.of([TreeNode(name, "all", True, 1.0, {GPU: Quota(4)}) for name in ("a", "b", "c")])


def test_the_least_share_after_admission_goes_first() -> None:
    state = CycleState(two_teams(), dict.fromkeys("abc", RULES), [running("b0", "b", 4)])
    cycle = scheduling_cycle(state, [gpus("a1", "a", 8), gpus("b1", "b", 2), gpus("c1", "c", 4)])
    assert [workload.name for workload in cycle.admitted] == ["c1", "b1"]
    assert "no longer fits" in cycle.waiting["a1"]


def test_a_team_reclaims_its_nominal_quota_from_who_borrows() -> None:
    holders = [running("b0", "b", 4), running("b1", "b", 4), running("c0", "c", 4)]
    state = CycleState(two_teams(), dict.fromkeys("abc", RULES), holders)
    cycle = scheduling_cycle(state, [gpus("a1", "a", 3)])
    assert [(one.workload.name, one.reason) for one in cycle.preempted] == [("b0", "InCohortReclamation")]
    assert cycle.waiting == {"a1": "it waits for its pre-emptions"}


def test_without_leave_to_reclaim_nobody_is_stopped() -> None:
    holders = [running("b0", "b", 4), running("b1", "b", 4), running("c0", "c", 4)]
    rules = replace(RULES, reclaim="Never")
    state = CycleState(two_teams(), dict.fromkeys("abc", rules), holders)
    cycle = scheduling_cycle(state, [gpus("a1", "a", 3)])
    assert not cycle.preempted
    assert list(cycle.waiting) == ["a1"]


def test_overlapping_victims_are_looked_for_anew() -> None:
    holders = [running("c0", "c", 6), running("c1", "c", 6)]
    state = CycleState(two_teams(), dict.fromkeys("abc", RULES), holders)
    heads = [gpus("a1", "a", 4), gpus("b1", "b", 4)]
    again = scheduling_cycle(state, heads)
    assert sorted(one.workload.name for one in again.preempted) == ["c0", "c1"]
    once = scheduling_cycle(state, heads, CycleRules(recompute=False))
    assert [one.workload.name for one in once.preempted] == ["c0"]


def test_a_workload_that_nobody_can_hold_has_no_flavor() -> None:
    state = CycleState(two_teams(), {"a": RULES})
    cycle = scheduling_cycle(state, [gpus("huge", "a", 13)])
    assert cycle.waiting == {"huge": "no flavor of its queue could ever hold it"}
    other = Workload("other", "a", (PodSet("main", 1, {"memory": 1}),))
    assert "no flavor" in scheduling_cycle(state, [other]).waiting["other"]


def test_the_second_flavor_is_taken_where_the_first_is_full() -> None:
    tree = QuotaTree.of([TreeNode("a", None, True, 1.0, {GPU: Quota(2), ("spot", "gpu"): Quota(5)})])
    state = CycleState(tree, {"a": RULES}, [running("a0", "a", 2)])
    cycle = scheduling_cycle(state, [gpus("a1", "a", 3)], now_s=7.0)
    assert cycle.admitted[0].use == {("spot", "gpu"): 3}
    assert cycle.admitted[0].reserved_s == 7.0


def test_newer_equals_only_where_the_policy_says_so() -> None:
    old, new = gpus("old", "a", 1, created_s=1.0), gpus("new", "a", 1, created_s=2.0)
    assert allows("LowerOrNewerEqualPriority", old, new)
    assert not allows("LowerOrNewerEqualPriority", new, old)
    assert not allows("LowerPriority", old, new)
    assert not allows(None, old, replace(new, priority=-1))


@st.composite
def situations(draw: st.DrawFn) -> tuple[CycleState, list[Workload]]:
    tree = draw(quota_trees())
    pairs = sorted({pair for quota in tree.subtree for pair in quota})
    flavors = tuple(sorted({pair[0] for pair in pairs}))
    policies = st.sampled_from([None, "Any", "LowerPriority", "LowerOrNewerEqualPriority", "Never"])
    rules = {}
    for queue, node in tree.queues.items():
        known = frozenset(pair[1] for pair in tree.subtree[node])
        search = st.sampled_from(["MayStopSearch", "TryNextFlavor"])
        rules[queue] = QueueRules(
            (ResourceGroup(flavors, known),),
            draw(policies),
            draw(policies),
            draw(st.booleans()),
            draw(search),
            draw(search),
            draw(st.booleans()),
        )
    state = CycleState(tree, rules)
    for number in range(draw(st.integers(0, 6))):
        queue = draw(st.sampled_from(sorted(tree.queues)))
        pair: Pair = draw(st.sampled_from(pairs))
        most = state.usage.available(tree.queues[queue], pair)
        if most > 0 and pair[1] in rules[queue].groups[0].resources:
            pods = (PodSet("main", 1, {pair[1]: draw(st.integers(1, most))}),)
            held = Workload(f"w{number}", queue, pods, draw(st.integers(0, 2)), None, float(number))
            state.admit(replace(held, admission=({pair[1]: pair[0]},)))
    heads = []
    for queue in sorted(tree.queues):
        resource = draw(st.sampled_from(sorted({pair[1] for pair in pairs})))
        pods = (PodSet("main", draw(st.integers(1, 9)), {resource: 1}),)
        heads.append(Workload(f"head-{queue}", queue, pods, draw(st.integers(0, 2)), draw(st.integers(0, 3))))
    return state, heads


@settings(max_examples=examples(40))
@given(situations(), st.booleans())
def test_every_cycle_keeps_the_quotas_and_names_every_head(
    situation: tuple[CycleState, list[Workload]], fair: bool
) -> None:
    state, heads = situation
    before = {name for queue in state.holders.values() for name in queue}
    cycle = scheduling_cycle(state, heads, CycleRules(fair_sharing=fair))
    admitted = {workload.name for workload in cycle.admitted}
    assert admitted | set(cycle.waiting) == {head.name for head in heads}
    assert not admitted & set(cycle.waiting)
    stopped = {one.workload.name for one in cycle.preempted}
    assert len(stopped) == len(cycle.preempted)
    assert stopped <= before
    fresh = CycleState(state.tree, state.rules)
    for queue in state.holders.values():
        for workload in queue.values():
            fresh.admit(workload)
    for node in range(len(state.tree.nodes)):
        for pair in state.tree.subtree[node]:
            assert state.usage.of(node, pair) == fresh.usage.of(node, pair)
    with state.gone(one.workload for one in cycle.preempted):
        for node in state.tree.queues.values():
            for pair in state.tree.subtree[node]:
                assert state.usage.available(node, pair) >= 0


@settings(max_examples=examples(40))
@given(situations(), st.randoms())
def test_the_order_of_heads_changes_nothing(
    situation: tuple[CycleState, list[Workload]], random: object
) -> None:
    state, heads = situation
    heads = [replace(head, created_s=float(place)) for place, head in enumerate(heads)]
    copy = CycleState(state.tree, state.rules)
    for queue in state.holders.values():
        for workload in queue.values():
            copy.admit(workload)
    shuffled = list(heads)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = scheduling_cycle(state, heads), scheduling_cycle(copy, shuffled)
    assert {one.name for one in first.admitted} == {one.name for one in second.admitted}
    assert {one.workload.name for one in first.preempted} == {one.workload.name for one in second.preempted}


def test_heads_are_ordered_by_priority_then_creation() -> None:
    listed = [
        gpus("b", "a", 1, created_s=5.0),
        gpus("a", "a", 1, priority=1, created_s=9.0),
        gpus("c", "a", 1),
    ]
    assert [one.name for one in sorted(listed, key=head_order)] == ["a", "c", "b"]
